"""Is the node that grants too little named?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.limits import Held
from preflight.judge.ledger.findings import Verdict
from preflight.judge.settings import LimitSettings, Settings
from preflight.testing import healthy, roce
from tests.checks.samples import Broken, judge

BROKEN = (
    Broken(
        "limits.nothing_else_is_limited",
        roce().broken("node2", "limits", address_space_soft_bytes=16 << 30),
        ("node2",),
        "17179869184 bytes of address space (ulimit -v)",
    ),
    Broken(
        "limits.nothing_else_is_limited",
        roce().broken("node2", "limits", address_space_soft_bytes=1, data_soft_bytes=1 << 30, stack_soft_bytes=1 << 16),
        ("node2",),
        "(ulimit -d), a stack of 64 KiB (ulimit -s)",
    ),
    Broken(
        "limits.processes_may_be_started",
        healthy().broken("node2", "kernel", cgroup_processes=1024),
        ("node2",),
        "processes: 1024 in this ssh session",
    ),
    Broken(
        "limits.memlock_is_enough_for_rdma",
        roce().broken("node2", "limits", memlock_soft_bytes=8 << 20),
        ("node2",),
        "memlock: 8388608 bytes in this ssh session, unlimited at most; wanted at least 1073741824",
    ),
    Broken(
        "limits.enough_files_may_be_open", healthy().broken("node2", "limits", nofile_soft=1024), ("node2",), "1024"
    ),
    Broken(
        "limits.processes_may_be_started",
        healthy().broken("node2", "limits", nproc_soft=1024),
        ("node2",),
        "processes: 1024 in this ssh session; wanted at least 4096",
    ),
    Broken(
        "limits.shared_memory_is_enough",
        roce().broken("node2", "limits", shm_free_bytes=64 << 20),
        ("node2",),
        "64 of 65536 MiB are free in /dev/shm; wanted at least 8192 MiB for 8 GPUs",
    ),
    Broken(
        "limits.shared_memory_is_enough",
        roce().broken("node2", "limits", shm_free_bytes=64 << 20, held=(Held("torch_*", 412, 60 << 30, 1003),)),
        ("node2",),
        "for 8 GPUs; torch_* of user 1003: 61440 MiB",
    ),
    Broken(
        "limits.devices_of_every_program_are_there",
        healthy().broken("node2", "limits", device_faults=("/dev/null may not be used by this user",)),
        ("node2",),
        "/dev/null may not be used by this user",
    ),
    Broken(
        "limits.shared_memory_is_enough",
        roce().broken("node2", "limits", shm_is_writable=False),
        ("node2",),
        "/dev/shm may not be written here",
    ),
    Broken(
        "limits.nothing_is_left_behind",
        healthy().broken("node2", "limits", leftovers=("/dev/shm/preflight-x",)),
        ("node2",),
        "/dev/shm/preflight-x",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_memlock_does_not_matter_without_rdma():
    """Where no RDMA port is active nothing locks memory."""
    run = healthy().broken("node2", "limits", memlock_soft_bytes=65536)
    assert {f.verdict for f in judge("limits.memlock_is_enough_for_rdma", run)} == {Verdict.SKIP}


def test_the_users_threshold_holds():
    """A floor in the user's settings replaces ours."""
    run = roce().broken("node2", "limits", memlock_soft_bytes=8 << 20)
    settings = Settings(limits=LimitSettings(memlock_min_bytes=1 << 20))
    assert {f.verdict for f in judge("limits.memlock_is_enough_for_rdma", run, settings)} == {Verdict.PASS}


@pytest.mark.parametrize(
    ("faults", "verdict"),
    [
        (("/dev/null is no device: a program has put a file of its own in its place",), Verdict.WARN),
        (("/dev/urandom may not be used by this user",), Verdict.WARN),
        (("/dev/null is no device: a program has put a file of its own in its place",
          "/dev/null may not be used by this user"), Verdict.FAIL),
        (("/dev/null: No such file or directory",), Verdict.FAIL),
    ],
)  # fmt: skip
def test_a_job_starts_where_it_may_write_to_null(faults, verdict):
    """A plain file in its place takes what is thrown away; one that refuses it ends scripts."""
    run = healthy().broken("node2", "limits", device_faults=faults)
    found = [one for one in judge("limits.devices_of_every_program_are_there", run) if "node2" in one.nodes]
    assert {one.verdict for one in found} == {verdict}


@pytest.mark.parametrize(
    ("fact", "warned", "failed", "words"),
    [
        ("address_space_soft_bytes", 64 << 30, 300 << 20, "bytes of address space (ulimit -v)"),
        ("file_size_soft_bytes", 10 << 30, 0, "files of 0 bytes at most"),
        ("cpu_time_soft_seconds", 86_400, 20, "20 seconds of CPU time"),
        ("stack_soft_bytes", 512 << 10, 64 << 10, "a stack of 64 KiB (ulimit -s)"),
    ],
)
def test_a_limit_with_which_no_job_gets_far_fails(fact, warned, failed, words):
    """One that a small job may live with is a warning."""
    for value, verdict in ((warned, Verdict.WARN), (failed, Verdict.FAIL)):
        run = healthy().broken("node2", "limits", **{fact: value})
        (told,) = (one for one in judge("limits.nothing_else_is_limited", run) if one.nodes == ("node2",))
        assert told.verdict is verdict
    assert words in told.message
