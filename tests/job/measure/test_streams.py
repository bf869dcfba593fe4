"""Is every stream of a search timed where it arrives, and is nothing left running on the nodes?"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from preflight.job.measure.streams import RoundReply, Streams, full_mesh_seconds, round_seconds, search
from preflight.said.errors import BadReply, HostError
from tests.job.measure.local import opened

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


class Telling:
    """A session of a node, and its only call, that tells of each round what it was given to tell."""

    def __init__(self, **told):
        figures = {"received_bytes": 10**10, "seconds": 1.0, "gbytes_per_s": 10.0}
        self.told = {**figures, "sent_bytes": 10**10, "sent_seconds": 1.0, **told}

    async def start(self, _name, arguments, *, seconds):
        self.address, self.seconds = arguments["address"], seconds
        return self

    async def first(self, key, _kind):
        if key == "listening":
            return [self.address, 4000]
        asked = {"shift": self.order["shift"], "from": self.order["receive_from"]}
        return msgspec.convert({**asked, **self.told}, RoundReply)

    async def send(self, message):
        self.order = message.get("round")

    async def cancel(self):
        self.order = None


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"received_bytes": 2**62, "seconds": 5.0, "gbytes_per_s": 2**62 / 5e9}, "no network is that fast"),
        ({"gbytes_per_s": 900.0}, "is not 10000000000 bytes"),
        ({"seconds": 3600.0}, "is not 10000000000 bytes"),
        ({"sent_bytes": None}, "does not say what it sent to"),
        ({"sent_seconds": 3600.0}, "does not say what it sent to"),
        ({"sent_bytes": 2**62}, "no network is that fast"),
        ({"from": "a"}, "not what it was asked"),
        ({"shift": 9}, "not what it was asked"),
    ],
)
def test_a_figure_that_cannot_be_is_an_error_of_the_node_that_tells_it(told, words):
    """Its peers would look slow beside it."""
    sessions = {name: Telling(**(told if name == "c" else {})) for name in ADDRESSES}
    with pytest.raises(BadReply, match=words) as caught:
        asyncio.run(search(sessions, ADDRESSES, threshold=0.8))
    assert caught.value.host == "c"


@pytest.mark.parametrize("reachable", [0, 1])
def test_a_node_that_fails_with_three_partners_is_asked_no_more(reachable):
    """Each such round takes the whole patience of its receiver; one that once came about is tried with everybody."""
    names = [f"n{number}" for number in range(8)]
    addresses = {name: f"127.0.0.{number}" for number, name in enumerate(names, start=1)}
    sessions = {name: Telling() for name in names}
    streams = Streams(sessions, addresses, seconds=10.0)
    tried = []

    async def rounds():
        await streams.open()
        for number, name in enumerate(names[1:]):
            fails = number != reachable - 1
            sessions[name].told["error"] = "n0 did not connect" if fails else ""
            tried.append(await streams.round((("n0", name), (name, "n0")), seconds=0.5))

    asyncio.run(rounds())
    ways = [{stream.source == "n0": bool(stream.failure) for stream in found} for found in tried]
    assert all(way[False] is False for way in ways)
    assert [way.get(True) for way in ways] == (
        [False, *[True] * 6] if reachable else [True, True, True, None, None, None, None]
    )


@pytest.mark.parametrize(("rounds", "seconds"), [(0, 1.0), (1, 1.0), (3, 1.0), (6, 3.5 / 6), (8, 0.5), (1000, 0.5)])
def test_more_rounds_are_shorter_ones(rounds, seconds):
    """Within bounds that still measure something."""
    assert round_seconds(rounds) == pytest.approx(seconds)


def test_the_time_of_a_full_mesh_is_known_before():
    """It grows with the nodes."""
    assert full_mesh_seconds(2) < full_mesh_seconds(8) < full_mesh_seconds(64)
