"""Do 64 ranks live for as long as they advance, and do all end where one is stuck? Their limits are cut tenfold."""

from __future__ import annotations

import pytest

from preflight.job.ranks.bench.settings import MIB
from preflight.job.start.words import PEER_IS_GONE

pytestmark = pytest.mark.exclusive  # so many ranks leave nothing of the machine to others
RANKS = 64
TENTH = {"join_seconds": 3, "wait_seconds": 4.5}
# Every rank sends to every other one, half of them at once: rank r to rank r + d in round d.
ROUNDS = [[[rank, (rank + step) % RANKS] for rank in range(RANKS)] for step in range(1, RANKS)]
STUCK_RANK = 37
STOOD_STILL = ("nothing moved for", "Timed out waiting")  # what a rank says of itself
STUCK_MESSAGE = """
import time
import torch.distributed as dist
send, sent = dist.batch_isend_irecv, []
def stuck(operations):
    sent.append(None)
    time.sleep(1000 if len(sent) == 20 else 0)
    return send(operations)
dist.batch_isend_irecv = stuck
"""
STUCK_STEP = """
import time
from torch.optim.optimizer import register_optimizer_step_pre_hook
calls = []
def stuck(optimizer, args, kwargs):
    calls.append(None)
    time.sleep(1000 if len(calls) == 2 else 0)
register_optimizer_step_pre_hook(stuck)
"""
PROGRAMS = {
    "collectives": {"operations": ["all_reduce", "all_gather"], "sizes": [MIB], "pairs": ROUNDS, "pair_bytes": MIB},
    "train": {"steps": 4},
}


@pytest.fixture(scope="module", params=PROGRAMS)
def played(request, forked_scenarios):
    """A program, with all of its ranks well and with one that stands still."""
    settings = {**PROGRAMS[request.param], **TENTH}
    plant = STUCK_MESSAGE if request.param == "collectives" else STUCK_STEP
    return forked_scenarios(
        request.param,
        {
            "well": {"ranks": RANKS, "settings": settings},
            "stuck": {"ranks": RANKS, "settings": settings, "plants": {str(STUCK_RANK): plant}},
        },
    )


def failed(scenario):
    """Rank -> where it says that it failed, and why."""
    return {one["rank"]: (one["stage"], one["error"]) for one in scenario["records"] if one["record"] == "failed"}


def test_none_of_them_dies_while_it_advances(played):
    """Each comes to its end, however long all of it takes on two cores."""
    assert failed(played["well"]) == {}
    assert played["well"]["codes"] == [0] * RANKS


def test_one_that_is_stuck_ends_with_all_that_wait_for_it(played):
    """Within their limits, each with its stage and why, and none as if all were well."""
    told = failed(played["stuck"])
    assert all(played["stuck"]["codes"])
    stage = "pairs" if any(stage == "pairs" for stage, _ in told.values()) else "running"
    assert told[STUCK_RANK][0] == stage
    assert any(words in told[STUCK_RANK][1] for words in STOOD_STILL), told[STUCK_RANK]
    others = {rank: why for rank, (_, why) in told.items() if rank != STUCK_RANK}
    assert {
        rank: why for rank, why in others.items() if not any(words in why for words in (*STOOD_STILL, *PEER_IS_GONE))
    } == {}
