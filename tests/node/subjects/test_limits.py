"""Tests of preflight.node.subjects.limits."""

import os
import resource

import msgspec
import pytest

from preflight.facts.subjects.limits import Limits
from preflight.node.subjects import limits


def test_this_machine_has_limits():
    """The facts of the machine at hand have the shape that the controller expects."""
    facts = msgspec.convert(limits.collect({"scratch": ""}), type=Limits, strict=True)
    assert facts.nofile_soft == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@pytest.mark.parametrize(
    ("value", "told"),
    [(resource.RLIM_INFINITY, "unlimited"), (2**63 - 1, "unlimited"), (65536, 65536), (0, 0)],
)
def test_the_largest_integer_means_unlimited(value, told):
    """Container runtimes write the largest integer where a shell says unlimited."""
    assert limits.limit(value) == told


def test_what_an_earlier_run_left_is_told_and_our_own_is_not(tmp_path):
    """Only names of ours that do not belong to this run are leftovers."""
    for name in ("preflight-old", "preflight-now", "nccl-AbC123"):
        (tmp_path / name).mkdir()
    folder = os.fspath(tmp_path)
    facts = limits.shared_memory(folder, own=f"{folder}/preflight-now")
    assert facts["leftovers"] == [f"{folder}/preflight-old"]
    assert facts["shm_total_bytes"] >= facts["shm_free_bytes"] > 0


def test_a_node_without_shared_memory_says_so(tmp_path):
    """An absent /dev/shm is a missing figure and not 0 bytes."""
    facts = limits.shared_memory(os.fspath(tmp_path / "none"), own="")
    assert facts["shm_total_bytes"]["kind"] == "absent"
    assert facts["leftovers"] == []
