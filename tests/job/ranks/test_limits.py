"""Does a rank live for as long as it advances, and is one that is stuck named? Real ranks, their limits cut tenfold."""

from __future__ import annotations

import pytest

from preflight.job.ranks.bench.settings import MIB
from preflight.job.start.words import PEER_IS_GONE

TENTH = {"join_seconds": 3, "wait_seconds": 4.5}
ROUNDS = [[[0, 1]], [[1, 0]]] * 4
# Every message takes a while: all rounds together take longer than a rank may stand still, none of them does.
SLOW_MESSAGES = """
import time
import torch.distributed as dist
send = dist.batch_isend_irecv
def slowly(operations):
    time.sleep(0.2)
    return send(operations)
dist.batch_isend_irecv = slowly
"""
STUCK_MESSAGE = """
import time
import torch.distributed as dist
send, sent = dist.batch_isend_irecv, []
def stuck(operations):
    sent.append(None)
    time.sleep(1000 if len(sent) == 10 else 0)
    return send(operations)
dist.batch_isend_irecv = stuck
"""
# A file system that takes its time for every byte, and pieces as small as the file.
SLOW_DISK = """
import builtins, os, sys, time
real, fsync, synced = builtins.__import__, os.fsync, [0]
def cut(*words, **named):
    module = real(*words, **named)
    here = sys.modules.get("preflight.job.ranks.training.checkpoint")
    if hasattr(here, "PIECE_BYTES"):
        here.PIECE_BYTES = 1 << 18
    return module
def slowly(descriptor):
    size = os.fstat(descriptor).st_size
    time.sleep(6.5e-6 * max(0, size - synced[0]))
    synced[0] = size
    fsync(descriptor)
builtins.__import__, os.fsync = cut, slowly
"""
STUCK_DISK = "import os, time\nos.fsync = lambda descriptor: time.sleep(1000)\n"
SLOW_FINGERPRINTS = """
import time, torch
rand = torch.rand
def slowly(*words, **named):
    time.sleep(0.2 if named.get("dtype") is torch.float64 else 0)
    return rand(*words, **named)
torch.rand = slowly
"""
# Every step that is computed once more after the last one.
SLOW_CHECKS = """
import time, torch
backward, calls = torch.Tensor.backward, []
def slowly(loss, *words, **named):
    calls.append(1)
    time.sleep(2.5 if len(calls) > 3 else 0)
    return backward(loss, *words, **named)
torch.Tensor.backward = slowly
"""


@pytest.fixture(scope="module")
def benched(forked_scenarios):
    """Benchmarks of two ranks."""
    pairs = {"operations": [], "pairs": ROUNDS, "pair_bytes": 4 * MIB, **TENTH}
    return forked_scenarios(
        "collectives",
        {
            "slow": {"ranks": 2, "settings": pairs, "plants": {"0": SLOW_MESSAGES, "1": SLOW_MESSAGES}},
            "stuck": {"ranks": 2, "settings": pairs, "plants": {"1": STUCK_MESSAGE}},
        },
    )


@pytest.fixture(scope="module")
def trained(forked_scenarios, tmp_path_factory):
    """Trainings of two ranks."""
    folder = tmp_path_factory.mktemp("checkpoints")
    settings = {"steps": 4, "checkpoint_dir": str(folder), **TENTH}
    plain = {"steps": 3, **TENTH}
    return forked_scenarios(
        "train",
        {
            "slow disk": {"ranks": 2, "settings": settings, "plants": {"0": SLOW_DISK}},
            "stuck disk": {"ranks": 2, "settings": settings, "plants": {"0": STUCK_DISK}},
            "fingerprints": {"ranks": 2, "settings": plain, "plants": dict.fromkeys("01", SLOW_FINGERPRINTS)},
            "checks": {"ranks": 2, "settings": plain, "plants": dict.fromkeys("01", SLOW_CHECKS)},
        },
    )


def failed(played):
    """Rank -> where it says that it failed, and why."""
    return {one["rank"]: (one["stage"], one["error"]) for one in played["records"] if one["record"] == "failed"}


@pytest.mark.parametrize("name", ["slow disk", "fingerprints", "checks"])
def test_a_training_that_advances_is_left_alone(trained, name):
    """Others wait for rank 0's disk in the store, and every piece counts; so do parts of fingerprints, and steps."""
    assert failed(trained[name]) == {}
    assert trained[name]["codes"] == [0, 0]
    assert {one["rank"] for one in trained[name]["records"] if one["record"] == "trained"} == {0, 1}


def test_pairs_that_advance_are_left_alone(benched):
    """However many rounds there are."""
    assert failed(benched["slow"]) == {}
    assert sum(one["record"] == "pair" for one in benched["slow"]["records"]) == len(ROUNDS)


def test_a_disk_that_is_stuck_is_named_with_its_file(trained):
    """By the rank that writes; the other one merely waited for it."""
    told = failed(trained["stuck disk"])
    assert told[0][0] == "checkpoint"
    assert "nothing moved for 5 s at stage checkpoint: writing /" in told[0][1]
    assert 1 not in told or any(words in told[1][1] for words in PEER_IS_GONE)
    assert trained["stuck disk"]["codes"][0] == 1


def test_a_pair_that_is_stuck_ends_at_its_stage(benched):
    """And in seconds, not with the job; the rank that does something else says so itself, and blames no other."""
    told = failed(benched["stuck"])
    assert {stage for stage, _ in told.values()} == {"pairs"}
    assert "it stands in stuck (" in told[1][1]
    assert benched["stuck"]["codes"] != [0, 0]
