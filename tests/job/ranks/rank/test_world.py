"""Do ranks meet, and does none leave before all are through?"""

from __future__ import annotations

import json
import threading
import time

import torch.distributed as dist

from preflight.job.ranks.rank.records import Records
from preflight.job.ranks.rank.world import joined, leave_together


def test_a_rank_says_where_it_is_once_it_has_met_the_others(world, monkeypatch, capfd):
    """With the seconds that it took."""
    monkeypatch.delenv("PREFLIGHT_RECORDS", raising=False)
    joined(world, nccl="", records=Records(rank=0))
    told = json.loads(capfd.readouterr().out)
    assert (told["record"], told["device"], told["nccl"]) == ("joined", "cpu", "")
    assert 0 < told["init_seconds"] < time.perf_counter()


def test_nobody_leaves_before_all_are_through():
    """The first waits for the last, and rank 0, which keeps the store, leaves after all have heard it."""
    store, left = dist.HashStore(), []

    def leave(rank: int) -> None:
        leave_together(store, rank=rank, ranks=3, key="end", seconds=60)
        left.append(rank)

    ranks = [threading.Thread(target=leave, args=(rank,)) for rank in range(3)]
    for thread in ranks[:2]:
        thread.start()
    time.sleep(0.2)
    assert left == []
    ranks[2].start()
    for thread in ranks:
        thread.join(timeout=60)
    assert sorted(left) == [0, 1, 2]
    assert left[-1] == 0 or store.add("preflight/end/heard", 0) == 3
