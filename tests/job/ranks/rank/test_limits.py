"""Does a limit follow the work that is planned, and never fall below what any call may take?"""

from __future__ import annotations

import pytest

from preflight.job.ranks.bench.settings import Settings
from preflight.job.ranks.rank.limits import EXTRA, Planned, allowed, of_a_call

MUCH = Planned(ranks=4096, rounds=64, message_bytes=16 << 30, stored_bytes=3 << 30)


@pytest.mark.parametrize("stage", ["import", "checking", *EXTRA])
def test_more_work_is_given_more_time(stage):
    """And no stage less than any call."""
    assert allowed(stage, Planned(), seconds=45.0) >= 45.0
    assert (allowed(stage, MUCH, seconds=45.0) > allowed(stage, Planned(), seconds=45.0)) == (
        stage in {"rendezvous", "communicator", "running", "pairs", "checkpoint"}
    )


def test_what_c10d_is_told_covers_the_slowest_message():
    """16 GiB over a link of 1 Gbit/s take 147 s, and 64 rounds of pairs some more."""
    assert of_a_call(MUCH, seconds=45.0) > 45.0 + 147.0
    assert of_a_call(Planned(ranks=8), seconds=45.0) == 45.0


def test_the_largest_message_is_known_before_the_ranks_meet():
    """Of all sizes that are asked for, and of pairs where there are any."""
    assert Settings().message_bytes == 0
    assert Settings(sizes=(8, 1 << 20), sizes_by_operation={"broadcast": (1 << 30,)}).message_bytes == 1 << 30
    assert Settings(pairs=(((0, 1),),)).message_bytes == Settings().pair_bytes
    assert Settings(sizes=(1 << 20,), mode="pipelined").message_bytes == 4 << 20
