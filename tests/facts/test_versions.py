"""Are facts of an older or newer version read as far as both have them?"""

from __future__ import annotations

import json

import msgspec
import pytest

from preflight.facts.subjects import SUBJECTS
from preflight.facts.subjects.gpu import Gpus
from preflight.facts.subjects.kernel import Kernel
from preflight.facts.value import Missing
from preflight.facts.versions import NOT_COLLECTED, adapted
from preflight.testing import healthy, roce


def stored(subject: str) -> dict:
    """A subject as a file holds it."""
    return json.loads(msgspec.json.encode(roce().subjects["node1"][subject]))


def read(facts: object, subject: str):
    """What this version makes of it."""
    return msgspec.convert(adapted(facts, SUBJECTS[subject]), type=SUBJECTS[subject], strict=True)


@pytest.mark.parametrize("run", [healthy(2), roce(2)], ids=["healthy", "roce"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_facts_of_this_version_are_as_they_were(subject, run):
    """Nothing is lost on the way, in any subject."""
    facts = json.loads(msgspec.json.encode(run.subjects["node1"][subject]))
    assert adapted(facts, SUBJECTS[subject]) == facts


def test_keys_that_a_newer_version_added_are_ignored_at_any_depth():
    """In the subject, in a list of devices, in a struct of a device."""
    facts = stored("gpu")
    facts["colour"] = "green"
    facts["devices"][0]["weight_grams"] = 1200
    facts["devices"][0]["status"]["mood"] = {"missing": "asleep"}
    facts["devices"][0]["pci"].append("one more")
    assert read(facts, "gpu") == read(stored("gpu"), "gpu")


def test_a_fact_that_an_older_version_did_not_collect_is_missing_with_that_reason():
    """An error of the checks that ask for it, and of no other."""
    facts = stored("kernel")
    del facts["transparent_hugepages"]
    found = read(facts, "kernel")
    assert isinstance(found, Kernel)
    assert found.transparent_hugepages == Missing(NOT_COLLECTED)
    assert found.cpus_allowed == 64


def test_a_fact_in_a_device_may_be_missing_as_well():
    """The device keeps its others."""
    facts = stored("gpu")
    del facts["devices"][3]["compute_mode"]
    found = read(facts, "gpu")
    assert isinstance(found, Gpus)
    assert [gpu.compute_mode for gpu in found.readable()][2:4] == ["Default", Missing(NOT_COLLECTED)]


@pytest.mark.parametrize("change", [{"cpus_allowed": "many"}, {"modules": 7}, {"log": [3]}])
def test_what_is_of_a_wrong_type_is_not_made_right(change):
    """Only keys are looked at; the decoder says what is malformed."""
    with pytest.raises(msgspec.ValidationError):
        read({**stored("kernel"), **change}, "kernel")


def test_a_fact_that_cannot_be_missing_is_not_made_up():
    """The decoder names it."""
    facts = stored("identity")
    del facts["hostname"]
    with pytest.raises(msgspec.ValidationError, match="hostname"):
        read(facts, "identity")
