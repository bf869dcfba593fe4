"""Does a call hear the controller, and the controller the call?"""

from __future__ import annotations

import os
import threading
import time

import pytest

from preflight.node.agent import frames, strict
from preflight.node.agent.channel import Channel

MARKER = b"a" * 32


class Ends:
    """A channel with both far ends of its pipes in our hands."""

    def __init__(self) -> None:
        self.from_call, up = os.pipe()
        down, self.to_call = os.pipe()
        self.channel = Channel(
            call=7, up=up, down=down, marker=MARKER, blob=b"blob", deadline=time.monotonic() + 9, scratch="/nowhere"
        )
        self.decoder = frames.Decoder(MARKER, strict.strict_json)

    def tell(self, *messages: dict, before: bytes = b"") -> None:
        os.write(self.to_call, before + b"".join(frames.order(MARKER, message) for message in messages))

    def heard(self) -> list[dict]:
        return [message for message, _ in self.decoder.feed(os.read(self.from_call, 1 << 20))]

    def close(self) -> None:
        for descriptor in (self.from_call, self.to_call, self.channel.up, self.channel.down):
            try:
                os.close(descriptor)
            except OSError:
                continue


@pytest.fixture
def ends():
    """One channel, closed again."""
    made = Ends()
    yield made
    made.close()


def test_events_and_the_outcome_carry_the_number_of_their_call(ends):
    """The controller tells calls apart by it."""
    ends.channel.emit({"port": 1}, {"port": 2})
    ends.channel.finish({"result": {}})
    events = [{"call": 7, "event": {"port": 1}}, {"call": 7, "event": {"port": 2}}]
    assert ends.heard() == [*events, {"call": 7, "result": {}}]


def test_messages_that_come_together_are_received_one_by_one(ends):
    """None is lost, and their order is kept."""
    ends.tell({"n": 1}, {"n": 2}, before=b"noise\n")
    assert [ends.channel.receive(1.0) for _ in range(2)] == [{"n": 1}, {"n": 2}]


def test_a_message_in_pieces_is_received_whole(ends):
    """Half a frame is no message yet."""
    data = frames.order(MARKER, {"n": 1})
    os.write(ends.to_call, data[:40])
    with pytest.raises(TimeoutError):
        ends.channel.receive(0.05)
    os.write(ends.to_call, data[40:])
    assert ends.channel.receive(1.0) == {"n": 1}


def test_silence_ends_in_a_timeout(ends):
    """A call never waits longer than it says."""
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no message from the controller within 0\.1 s"):
        ends.channel.receive(0.1)
    assert time.monotonic() - begun >= 0.1


def test_the_end_of_the_controller_is_told_apart_from_silence(ends):
    """A keeper that went away is EOFError, at once, after what it still said."""
    ends.tell({"n": 1})
    os.close(ends.to_call)
    assert ends.channel.receive(1.0) == {"n": 1}
    with pytest.raises(EOFError):
        ends.channel.receive(5.0)


def test_an_event_larger_than_the_pipe_is_sent_whole(ends):
    """A pipe takes 64 KiB at a time; the rest follows."""
    sender = threading.Thread(target=ends.channel.emit, args=({"text": "x" * (1 << 20)},))
    sender.start()
    heard: list[dict] = []
    while not heard:
        heard = ends.heard()
    sender.join()
    assert len(heard[0]["event"]["text"]) == 1 << 20


def test_numbers_that_json_lacks_are_an_error_of_the_call(ends):
    """NaN never reaches the wire."""
    with pytest.raises(ValueError, match="JSON"):
        ends.channel.emit({"figure": float("nan")})
