"""Are processor, time services, RDMA libraries and compilers read as the node sent them?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.machine import Machine
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing
from tests.facts.answers import decoded, wire

MACHINE = Machine(
    cpu_model="AMD EPYC 9654",
    time_services=("chronyd",),
    clock_is_synchronised=True,
    rdma_core="58.0",
    rdma_driver=Missing("in-kernel", "absent"),
    compilers={"cc": "/usr/bin/cc"},
)


def test_what_a_node_is_built_of_is_read():
    """What it does not have is absent, with its reason."""
    found = decoded("machine", wire(MACHINE))
    assert found == MACHINE
    assert found.rdma_driver == Missing("in-kernel", "absent")


def test_a_node_without_compilers_and_time_services_says_so():
    """Nothing found is an answer."""
    found = decoded("machine", wire(MACHINE, compilers={}, time_services=[]))
    assert (found.compilers, found.time_services) == ({}, ())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cpu_model", 9654),
        ("time_services", "chronyd"),
        ("clock_is_synchronised", 1),
        ("clock_is_synchronised", "yes"),
        ("compilers", ["cc"]),
        ("compilers", {"cc": None}),
        ("rdma_core", {"missing": "x", "kind": "unknown"}),
    ],
)
def test_a_field_of_another_form_is_malformed(field, value):
    """1 is not yes, and a list of names says not where they are."""
    with pytest.raises(FactMissing, match=f"malformed: .*{field}"):
        decoded("machine", wire(MACHINE, **{field: value}))
