"""Is each way between two ranks timed, with its direction?"""

from __future__ import annotations

import math

import pytest

from preflight.job.ranks.bench.settings import MIB


@pytest.fixture(scope="module")
def played(forked_scenarios):
    """Three ranks in a circle, a pair a round."""
    settings = {"operations": [], "pairs": [[[0, 1]], [[1, 2]], [[2, 0]]], "pair_bytes": 4 * MIB}
    return forked_scenarios("collectives", {"pairs": {"ranks": 3, "settings": settings}})


def test_pairs_are_timed_by_who_receives(played):
    """Round by round, with the rate of its bytes in its seconds."""
    told = {
        (record["rank"], record["source"], record["round"]): record
        for record in played["pairs"]["records"]
        if record["record"] == "pair"
    }
    assert set(told) == {(1, 0, 0), (2, 1, 1), (0, 2, 2)}
    assert all(MIB <= r["bytes"] <= 4 * MIB for r in told.values())
    assert all(math.isclose(r["gbytes_per_s"], r["bytes"] / r["seconds"] / 1e9) for r in told.values())
