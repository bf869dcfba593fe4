"""Is a fact that could not be had ever taken for a value?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.value import Device, Missing, or_none, present
from preflight.said.errors import FactMissing
from preflight.testing import healthy


@pytest.mark.parametrize("value", ["10.0.0.1", 0, "", False, ()])
def test_a_value_is_given_as_it_is(value):
    """Nothing is missing about 0 or an empty text."""
    assert present(value, "address") == value


@pytest.mark.parametrize("kind", ["absent", "failed", "denied"])
def test_reading_a_missing_fact_raises_with_its_reason(kind):
    """Name, reason and kind go with it."""
    with pytest.raises(FactMissing, match=r"^driver: nvidia-smi not found$") as caught:
        present(Missing("nvidia-smi not found", kind), "driver")
    assert caught.value.kind == kind


def test_only_what_is_known_to_be_absent_is_none():
    """A CPU build of torch has no CUDA: an answer. A tool that broke is none."""
    assert or_none("13.0", "CUDA") == "13.0"
    assert or_none(Missing("a CPU build", "absent"), "CUDA") == "none"
    for kind in ("failed", "denied"):
        with pytest.raises(FactMissing):
            or_none(Missing("unreadable", kind), "CUDA")


def test_a_missing_fact_crosses_the_wire_in_the_place_of_the_value():
    """A node says a reason, and a kind where it is not "failed"."""
    assert msgspec.convert({"missing": "x"}, str | Missing) == Missing("x", "failed")
    assert msgspec.convert({"missing": "x", "kind": "absent"}, str | Missing) == Missing("x", "absent")
    assert msgspec.convert("x", str | Missing) == "x"


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (
            lambda node: node.kernel.memory,
            (
                "Kernel has no fact 'memory'; it has cgroup_memory_bytes, memory_available_bytes, memory_overcommit,"
                " peer_memory"
            ),
        ),
        (lambda node: node.identity.hostnam, "Identity has no fact 'hostnam'; it has hostname, hostname_address"),
        (lambda node: node.clock.zzz, "Clock has no fact 'zzz'; it has offset_seconds, uncertainty_seconds"),
        (lambda node: node.kernal, "NodeFacts has no fact 'kernal'; it has kernel"),
    ],
)
def test_a_name_that_is_no_fact_is_answered_with_those_that_are(ask, words):
    """The names that share a word with it, then those written alike, else all of them."""
    with pytest.raises(AttributeError) as caught:
        ask(healthy().cluster["node1"])
    assert str(caught.value) == words


@pytest.mark.parametrize("name", ["-s", "--flash", "-"])
def test_no_device_is_called_as_an_option_is(name):
    """Commands that are printed name it: ethtool would take it for what to do."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(name, Device)
    assert msgspec.convert("eth-0", Device) == "eth-0"
