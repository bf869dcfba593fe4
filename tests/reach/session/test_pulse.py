"""Is a node that gave us up while this machine stood still not blamed for it?"""

from __future__ import annotations

import asyncio
import time

import pytest

from preflight.reach.session import connection, pulse
from preflight.reach.session.pulse import Pulse
from preflight.said.errors import BadReply, HostError, StoodStill
from tests.reach.session.test_connection import fleet

LEASE = 1.5


@pytest.fixture
def short(monkeypatch):
    """A lease of seconds, as the pauses of these tests are."""
    monkeypatch.setattr(connection, "LEASE_SECONDS", LEASE)
    monkeypatch.setattr(connection, "BEAT_SECONDS", 0.3)


def shorten(made):
    """Beats as often as the lease wants them."""
    made.bounds.beat_seconds = 0.3
    return made


def stand_still(seconds: float) -> None:
    """As a stopped process does: no coroutine goes on."""
    time.sleep(seconds)


def test_a_host_that_gave_us_up_while_we_stood_still_is_asked_once_more(short):
    """A laptop that sleeps for a moment costs no host the run."""
    made = shorten(fleet())
    asked = []

    async def work(session):
        asked.append(session)
        if len(asked) == 1:
            stand_still(LEASE + 1.5)
        call = await session.start("free_port", {"address": "127.0.0.1"}, seconds=5)
        assert (await call.end(dict))["port"]

    made.run(made.open(then=work), seconds=20)
    assert (made.failures, len(asked)) == ({}, 2)
    assert made.sessions["local"] is asked[1]
    made.close()


def test_a_host_that_gives_us_up_again_is_told_with_the_reason(short):
    """The words are about this machine, and say what to do."""
    made = shorten(fleet())

    async def work(session):
        stand_still(LEASE + 1.5)
        await (await session.start("free_port", {"address": "127.0.0.1"}, seconds=5)).end(dict)

    made.run(made.open(then=work), seconds=20)
    error = made.failures["local"]
    assert isinstance(error, StoodStill)
    assert error.reason.startswith("the machine that preflight runs on stood still for 3 s")
    assert error.reason.endswith("run again (the node agent ended: lease)")
    made.close()


def test_a_host_that_ends_by_itself_is_blamed_as_ever(short):
    """Where nobody stood still, and where what it said was wrong."""

    async def ends() -> tuple[HostError, HostError]:
        ours = Pulse(1.0)
        beating = asyncio.create_task(ours.beat())
        await asyncio.sleep(0.1)
        ended = HostError("node1", "the connection ended in mid-run")
        before = ours.blamed_on_us(ended)
        stand_still(pulse.PULSE_SECONDS + 1.2)
        lied = ours.blamed_on_us(BadReply("node1", "not JSON"))
        beating.cancel()
        return before, lied

    before, lied = asyncio.run(ends())
    assert (type(before), type(lied)) == (HostError, BadReply)


def test_a_pause_that_is_long_past_explains_nothing(monkeypatch):
    """What ends a minute later ends for a reason of its own."""
    clock = [100.0]
    monkeypatch.setattr(pulse, "_now", lambda: clock[0])
    ours = Pulse(8.0)
    ours._before = 100.0
    clock[0] = 111.0
    ended = HostError("node1", "the node agent ended: lease")
    assert isinstance(ours.blamed_on_us(ended), StoodStill)
    for _ in range(60):
        clock[0] += 1.0
        ours._look()
    assert ours.blamed_on_us(ended) is ended
