"""Is every message taken once, in its order, and is a wait bounded?"""

from __future__ import annotations

import asyncio

import pytest

from preflight.reach.session.inbox import Inbox


def test_messages_are_taken_in_the_order_they_came():
    """Those that were there before anybody asked, and those that come while one waits."""

    async def told() -> list[str]:
        inbox: Inbox[str] = Inbox()
        inbox.put("first")
        inbox.put("second")
        asyncio.get_running_loop().call_soon(inbox.put, "third")
        return [await inbox.take(5.0) for _ in range(3)]

    assert asyncio.run(told()) == ["first", "second", "third"]


@pytest.mark.parametrize("seconds", [0.01, 0.0, -1.0])
def test_a_message_that_does_not_come_is_a_timeout(seconds):
    """Also where the time is over before the wait begins; what comes afterwards is not lost."""

    async def told() -> str:
        inbox: Inbox[str] = Inbox()
        with pytest.raises(asyncio.TimeoutError):
            await inbox.take(seconds)
        inbox.put("late")
        return await inbox.take(seconds)

    assert asyncio.run(told()) == "late"


def test_a_reader_that_was_cancelled_takes_nothing_with_it():
    """The message goes to whoever asks next."""

    async def told() -> str:
        inbox: Inbox[str] = Inbox()
        reader = asyncio.create_task(inbox.take(5.0))
        await asyncio.sleep(0)
        reader.cancel()
        inbox.put("kept")
        await asyncio.gather(reader, return_exceptions=True)
        return await inbox.take(1.0)

    assert asyncio.run(told()) == "kept"
