"""Are a job's variables read with the layer that each came from?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.environment import Environment, Variable
from preflight.said.errors import FactMissing
from tests.facts.answers import decoded, wire

GIVEN = Environment(
    variables={"NCCL_DEBUG": Variable("INFO", "/etc/nccl.conf"), "OMP_NUM_THREADS": Variable("", "node")}
)


def test_a_layer_is_named_as_a_person_understands_it():
    """Words such as "set by node" would leave open whether a file, a person or the node agent set it."""
    assert Variable("1", "node").source() == "the node's own environment"
    assert Variable("1", "/etc/nccl.conf").source() == "/etc/nccl.conf"


def test_a_variable_keeps_its_layer():
    """So that a finding names the file to change; one set to nothing is kept as such."""
    found = decoded("environment", wire(GIVEN))
    assert found == GIVEN
    assert found.variables["NCCL_DEBUG"].layer == "/etc/nccl.conf"
    assert found.variables["OMP_NUM_THREADS"].value == ""


def test_no_variables_are_an_answer():
    """A node whose environment steers nothing is not one that did not answer."""
    assert decoded("environment", {"variables": {}}).variables == {}


@pytest.mark.parametrize(
    "variables",
    [
        {"NCCL_DEBUG": "INFO"},
        {"NCCL_DEBUG": {"value": "INFO"}},
        {"NCCL_DEBUG": {"value": 1, "layer": "node"}},
        {"NCCL_DEBUG": {"value": {"missing": "denied"}, "layer": "node"}},
        {"NCCL_DEBUG": {"value": "x" * 5000, "layer": "node"}},
        {"N" * 5000: {"value": "x", "layer": "node"}},
        ["NCCL_DEBUG=INFO"],
        None,
    ],
)
def test_a_variable_without_text_or_layer_is_malformed(variables):
    """One bad entry costs the subject: which variables a job has is known whole or not at all."""
    with pytest.raises(FactMissing, match="malformed"):
        decoded("environment", {"variables": variables})
