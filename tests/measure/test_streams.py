"""Is every stream of a search timed where it arrives, and is nothing left running on the nodes?"""

from __future__ import annotations

import pytest

from preflight.errors import HostError
from preflight.measure.streams import full_mesh_seconds, round_seconds, search
from tests.measure.local import opened

ADDRESSES = {"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3"}


def test_every_node_sends_and_receives():
    """Each stream has its two ends and a rate, and what is left of the time is said on the way."""
    said: list[str] = []
    with opened() as (fleet, session):
        work = search(dict.fromkeys(ADDRESSES, session), ADDRESSES, threshold=0.01, say=said.append)
        streams, slow = fleet.run(work, seconds=40)
        assert session.calls == {}
    assert slow == ()
    assert {stream.source for stream in streams} == {stream.target for stream in streams} == set(ADDRESSES)
    assert all(stream.gbytes_per_s > 0 and stream.source != stream.target for stream in streams)
    assert "round 1 of" in said[0]


def test_a_node_that_cannot_take_part_ends_the_search():
    """The others say nothing without it, and their calls are ended."""
    with opened() as (fleet, session):
        work = search({"a": session, "b": session}, {"a": "127.0.0.1", "b": "192.0.2.1"}, threshold=0.8)
        with pytest.raises(HostError):
            fleet.run(work, seconds=30)
        assert session.calls == {}


@pytest.mark.parametrize(("rounds", "seconds"), [(0, 1.0), (1, 1.0), (3, 1.0), (6, 3.5 / 6), (8, 0.5), (1000, 0.5)])
def test_more_rounds_are_shorter_ones(rounds, seconds):
    """Within bounds that still measure something."""
    assert round_seconds(rounds) == pytest.approx(seconds)


def test_the_time_of_a_full_mesh_is_known_before():
    """It grows with the nodes."""
    assert full_mesh_seconds(2) < full_mesh_seconds(8) < full_mesh_seconds(64)
