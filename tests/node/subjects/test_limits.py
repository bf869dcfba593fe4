"""Tests of preflight.node.subjects.limits."""

import os
import resource

import msgspec
import pytest

from preflight.facts.subjects.limits import Limits
from preflight.node.agent import scratch
from preflight.node.subjects import limits


def test_this_machine_has_limits():
    """The facts of the machine at hand have the shape that the controller expects."""
    facts = msgspec.convert(limits.collect({"scratch": ""}), type=Limits, strict=True)
    assert facts.nofile_soft == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_a_plain_file_is_no_device(tmp_path):
    """And what is not there is told; the devices of this machine are what they are."""
    (tmp_path / "null").write_text("noise")
    told = limits.device_faults((f"{tmp_path}/null", f"{tmp_path}/zero", "/dev/null"))
    assert [text.removeprefix(f"{tmp_path}/")[:17] for text in told] == ["null is no device", "zero: No such fil"]
    assert limits.device_faults(limits.DEVICES) == []


@pytest.mark.parametrize(
    ("value", "told"),
    [(resource.RLIM_INFINITY, "unlimited"), (2**63 - 1, "unlimited"), (65536, 65536), (0, 0)],
)
def test_the_largest_integer_means_unlimited(value, told):
    """Container runtimes write the largest integer where a shell says unlimited."""
    assert limits.limit(value) == told


def test_what_a_killed_run_left_is_told_and_what_others_have_is_not(tmp_path, monkeypatch):
    """Only a folder of our user, with a name of ours, that no run holds."""
    for name in ("preflight-old", "preflight-open", "nccl-AbC123"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "preflight-open").chmod(0o755)
    (tmp_path / "preflight-link").symlink_to(tmp_path / "preflight-old")
    folder = os.fspath(tmp_path)
    assert limits.shared_memory(folder)["leftovers"] == []  # as new as these are, their run may be about to lock them
    monkeypatch.setattr(scratch, "NEW_SECONDS", 0.0)
    facts = limits.shared_memory(folder)
    assert facts["leftovers"] == [f"{folder}/preflight-old"]
    assert facts["shm_total_bytes"] >= facts["shm_free_bytes"] > 0


def test_what_takes_most_of_shared_memory_is_told_by_families_of_names(tmp_path):
    """Segments of one library count together, a folder with all below it; what takes nothing is left out."""
    for name, kib in (("torch_4711_1_0", 8), ("torch_4711_2_0", 16), ("nccl-Xy12", 4), ("imagenet-22k", 64), ("a", 0)):
        (tmp_path / name).write_bytes(b"x" * (kib << 10))
    (tmp_path / "data/train").mkdir(parents=True)
    (tmp_path / "data/train/0.tar").write_bytes(b"x" * (256 << 10))
    told = [(one["name"], one["files"]) for one in limits.held(os.fspath(tmp_path))]
    assert told == [("data", 1), ("imagenet-22k", 1), ("torch_*", 2)]


def test_shared_memory_that_is_half_empty_is_not_searched(tmp_path, monkeypatch):
    """A run of other jobs fills it up as it should."""
    (tmp_path / "nccl-Xy12").write_bytes(b"x" * 8192)
    room = os.statvfs(tmp_path)
    for free, told in ((60, []), (40, ["nccl-Xy12"])):
        fields = [*room[:2], 100, free, free, *room[5:]]
        monkeypatch.setattr(limits.os, "statvfs", lambda _, fields=fields: os.statvfs_result(fields))
        assert [one["name"] for one in limits.shared_memory(os.fspath(tmp_path))["held"]] == told


def test_a_node_without_shared_memory_says_so(tmp_path):
    """An absent /dev/shm is a missing figure and not 0 bytes."""
    facts = limits.shared_memory(os.fspath(tmp_path / "none"))
    assert facts["shm_total_bytes"]["kind"] == "absent"
    assert facts["leftovers"] == []
