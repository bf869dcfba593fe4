"""Is there a type for every subject, strict and frozen, and do its questions have honest answers?"""

from __future__ import annotations

import inspect

import msgspec
import pytest

from preflight.errors import BlockedBy, FactMissing
from preflight.facts.node import NodeFacts
from preflight.facts.subjects import SUBJECTS
from preflight.facts.subjects.identity import Identity
from preflight.facts.subjects.limits import Limits
from preflight.facts.subjects.software import Software
from preflight.facts.value import Missing, Value
from preflight.node.calls.collect import COLLECTORS
from preflight.testing import healthy

ABSENT = Missing("not there", "absent")
BROKEN = Missing("the tool broke")


def identity(**fields) -> Identity:
    return msgspec.structs.replace(healthy().subjects["node1"]["identity"], **fields)


def software(**fields) -> Software:
    return msgspec.structs.replace(healthy().subjects["node1"]["software"], **fields)


def test_every_collector_has_its_type_and_every_type_its_question():
    """What a node sends is read, and a check can read all of it; a clock is measured from here."""
    assert set(COLLECTORS) <= set(SUBJECTS)
    assert {"peers", "clock"} <= set(SUBJECTS) - set(COLLECTORS)
    assert set(SUBJECTS) <= {name for name, _ in inspect.getmembers(NodeFacts)}


def test_every_type_is_frozen_and_refuses_keys_that_it_does_not_know():
    """So that no check changes what the next one sees, and no key is skipped."""
    kinds = [Value]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert kind.__struct_config__.frozen, kind.__name__
        assert kind.__struct_config__.forbid_unknown_fields, kind.__name__
    assert set(SUBJECTS.values()) <= set(kinds)


def test_gloo_is_told_the_address_of_the_nodes_own_name():
    """A name that resolves to nothing is one check's business, and blocks the others."""
    assert identity().own_address == "10.0.0.1"
    with pytest.raises(BlockedBy, match=r"names\.own_hostname_is_an_address_of_the_node"):
        _ = identity(hostname_address=BROKEN, hostname_addresses=()).own_address
    with pytest.raises(FactMissing, match="the tool broke"):
        _ = identity(hostname_address=BROKEN, hostname_addresses=("10.0.0.1",)).own_address


@pytest.mark.parametrize(("address", "named"), [("127.0.1.1", True), ("10.0.0.1", False), (BROKEN, False)])
def test_a_node_named_loopback_is_known(address, named):
    """As Debian's installer writes it into /etc/hosts."""
    assert identity(hostname_address=address).is_named_loopback is named


def test_torch_is_there_absent_or_unknown():
    """Three answers, none of which stands for another."""
    assert software().torch_version == "2.13.0"
    assert not software(torch=ABSENT).has_torch()
    with pytest.raises(BlockedBy, match=r"software\.torch_is_installed"):
        _ = software(torch=ABSENT).torch_version
    with pytest.raises(FactMissing, match="the tool broke"):
        software(torch=BROKEN).has_torch()


def test_a_library_that_torch_does_without_is_none():
    """A CPU build has no CUDA; without torch nobody can tell."""
    assert software(torch_cuda="13.0").library_of_torch("torch_cuda") == "13.0"
    assert software(torch_cuda=ABSENT).library_of_torch("torch_cuda") == "none"
    with pytest.raises(FactMissing):
        software(nccl=BROKEN).library_of_torch("nccl")
    with pytest.raises(BlockedBy):
        software(torch=ABSENT).library_of_torch("nccl")


def test_versions_are_told_as_far_as_they_matter():
    """The minor of Python; a distribution that is not installed is absent."""
    assert software(python="3.11.2").python_minor == "3.11"
    assert software().version("accelerate") == "1.12.0"
    with pytest.raises(FactMissing) as caught:
        software().version("deepspeed")
    assert caught.value.kind == "absent"


def test_shared_memory_that_could_not_be_read_is_not_zero():
    """A full /dev/shm and an unreadable one are different."""
    limits = healthy().subjects["node1"]["limits"]
    assert isinstance(limits, Limits)
    assert limits.free_shared_memory_bytes() == 63 << 30
    with pytest.raises(FactMissing):
        msgspec.structs.replace(limits, shm_free_bytes=BROKEN).free_shared_memory_bytes()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_type_can_be_read_from_json(subject):
    """A union of two kinds of objects cannot be told apart: Missing stands beside plain values only."""
    try:
        msgspec.convert({}, SUBJECTS[subject])
    except msgspec.ValidationError:
        return
