"""Does each threshold let pass what is at it, and nothing beyond?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from preflight.facts.subjects.files import Files
from preflight.facts.subjects.peers import Peers
from preflight.judge.ledger.findings import Verdict
from preflight.testing import FakeRun, healthy, roce
from tests.checks.samples import judge

Plant = Callable[[float], FakeRun]


def held(run: FakeRun, subject: str, **fields: float) -> FakeRun:
    """A figure of node3."""
    return run.broken("node3", subject, **fields)


def place(**fields: float) -> FakeRun:
    """A figure of the first folder that a job of node3 writes to."""
    first, *others = healthy().facts("node3", "files", Files).places
    return healthy().broken("node3", "files", places=(replace(first, **fields), *others))


def shared(**fields: float) -> FakeRun:
    """A figure of the first shared folder of node3."""
    first, *others = roce().facts("node3", "files", Files).shared
    return roce().broken("node3", "files", shared=(replace(first, **fields), *others))


def answers_in(seconds: float) -> FakeRun:
    """How long node3 waits for the name of its first peer."""
    first, *others = healthy().facts("node3", "peers", Peers).routes
    return healthy().broken("node3", "peers", routes=(replace(first, reverse_seconds=seconds), *others))


def ahead_by(seconds: float) -> FakeRun:
    """How far the clock of node3 is ahead of those of the others, as exactly as can be told."""
    run = healthy().broken(healthy().names, "clock", offset_seconds=0.0, uncertainty_seconds=0.0)
    return held(run, "clock", offset_seconds=seconds)


def trained(**fields: float) -> FakeRun:
    """A figure of every rank."""
    run = healthy()
    for rank in range(3):
        run = run.rank_has(rank, **fields)
    return run


AT_MOST: dict[str, tuple[Plant, float]] = {
    "training.first_step_gradients_are_right": (lambda v: healthy().rank_has(2, gradient_error=v), 1e-3),
    "training.ddp_equals_one_process": (lambda v: trained(parameters_error=v), 1e-3),
    "training.the_same_seed_gives_the_same_losses_again": (lambda v: healthy().rank_has(1, replay_error=v), 1e-5),
    "clock.clocks_agree": (ahead_by, 30.0),
    "clock.clocks_are_in_step": (ahead_by, 1.0),
    "files.shared_files_are_seen_soon": (lambda v: shared(seconds=v), 2.0),
    "names.look_ups_are_answered": (answers_in, 4.0),
    "names.look_ups_are_fast": (answers_in, 0.5),
    "ports.ephemeral_ports_are_enough": (
        lambda v: held(
            healthy().broken("node3", "network", ephemeral_ports=(30001, 40000)), "ports", ephemeral_in_use=int(v)
        ),
        8000,
    ),
}
AT_LEAST: dict[str, tuple[Plant, float]] = {
    "limits.enough_files_may_be_open": (lambda v: held(healthy(), "limits", nofile_soft=int(v)), 4096),
    "limits.processes_may_be_started": (lambda v: held(healthy(), "limits", nproc_soft=int(v)), 4096),
    "limits.memlock_is_enough_for_rdma": (lambda v: held(roce(), "limits", memlock_soft_bytes=int(v)), 1 << 30),
    "files.there_is_room": (lambda v: place(free_bytes=int(v)), 1 << 30),
    "files.shared_paths_take_writes_fast_enough": (lambda v: shared(write_mbytes_per_s=v), 20.0),
    "ports.ephemeral_ports_are_enough": (
        lambda v: healthy().broken("node3", "network", ephemeral_ports=(32768, 32767 + int(v))),
        4096,
    ),
}


def is_blamed(check: str, run: FakeRun) -> bool:
    """Does the check say anything of a cluster?"""
    return any(one.verdict in (Verdict.FAIL, Verdict.WARN) for one in judge(check, run))


@pytest.mark.parametrize("check", AT_MOST)
def test_the_most_that_may_be_passes(check):
    """One more, or a millionth, does not."""
    make, limit = AT_MOST[check]
    assert not is_blamed(check, make(limit))
    assert is_blamed(check, make(limit + 1 if isinstance(limit, int) else limit * (1 + 1e-6)))


@pytest.mark.parametrize("check", AT_LEAST)
def test_the_least_that_may_be_passes(check):
    """One less, or a millionth, does not."""
    make, limit = AT_LEAST[check]
    assert not is_blamed(check, make(limit))
    assert is_blamed(check, make(limit - 1 if isinstance(limit, int) else limit * (1 - 1e-6)))


def test_inodes_run_out_as_bytes_do():
    """Ten thousand are enough."""
    assert not is_blamed("files.there_is_room", place(free_inodes=10_000))
    assert is_blamed("files.there_is_room", place(free_inodes=9_999))
