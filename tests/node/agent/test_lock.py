"""Is a node held by one run at a time, and is a second one told by which?"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from preflight.node.agent import lock
from preflight.node.agent.lock import NodeLock
from tests.node.wire import Wire, is_gone, is_seen, job, opened, sleeper


@pytest.fixture
def name(monkeypatch, request):
    """A lock of this test's own, so that no other run of this machine is in its way."""
    name = f"\0test-{request.node.name}-{os.getpid()}"
    monkeypatch.setattr(lock, "LOCK_NAME", name)
    monkeypatch.setattr(lock, "PAUSE_S", 0.02)
    return name


@contextlib.contextmanager
def held(run_id: str) -> Iterator[NodeLock]:
    """The node held by a run that answers, as the keeper does."""
    holder = NodeLock(run_id)
    assert holder.take() == ""
    ended = threading.Event()

    def answer() -> None:
        while not ended.is_set():
            if select.select([holder.held], [], [], 0.01)[0]:
                holder.answer_holder()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield holder
    finally:
        ended.set()
        thread.join()
        holder.held.close()


@pytest.mark.usefixtures("name")
def test_a_node_is_held_by_one_run_and_free_after_it():
    """The second is given the id of the first and holds nothing."""
    with held("run-1"):
        second = NodeLock("run-2")
        assert (second.take(), second.held) == ("run-1", None)
    third = NodeLock("run-3")
    assert third.take() == ""
    third.held.close()


@pytest.mark.usefixtures("name")
def test_our_own_run_may_hold_the_node_already():
    """The same machine under another of its names: a check says so, and the run goes on."""
    with held("run-1"):
        again = NodeLock("run-1")
        assert (again.take(), again.held) == ("", None)


def test_a_holder_that_does_not_answer_is_waited_for(name):
    """It is on its way out: the lock is taken as soon as it is gone."""
    silent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    silent.bind(name)
    threading.Timer(0.03, silent.close).start()
    waiting = NodeLock("run-2")
    assert waiting.take() == ""
    waiting.held.close()


def test_a_holder_that_never_answers_is_told_as_unknown(name):
    """After a few attempts, not for ever."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(name)
        begun = time.monotonic()
        assert NodeLock("run-2").take() == "unknown"
        assert time.monotonic() - begun < 2


@pytest.mark.usefixtures("name")
def test_an_asker_that_has_left_is_no_error():
    """The answer is for whoever asks next."""
    holder = NodeLock("run-1")
    assert holder.take() == ""
    with holder.held:
        holder.answer_holder()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
            asker.connect(lock.LOCK_NAME)
        holder.answer_holder()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as next_asker:
            next_asker.connect(lock.LOCK_NAME)
            holder.answer_holder()
            assert next_asker.recv(200) == b"run-1"


def test_a_second_run_is_told_who_holds_the_node():
    """The lock gives the id of its holder, and goes with it."""
    with opened() as first:
        second = Wire()
        try:
            assert second.open() == {"busy": first.run_id}
            assert second.end_reason() == "busy"
        finally:
            second.close()
    with opened() as third:
        assert third.run_id != first.run_id


def test_the_lock_is_no_file_and_no_call_keeps_it(request):
    """An abstract socket vanishes with the keeper, even one that was killed while a call ran."""
    tag = f"{request.node.name}-{os.getpid()}"
    with opened() as wire:
        wire.call(1, "ranks", job(sleeper(tag)))
        assert is_seen(tag)
        assert "@torch-preflight-lock" in Path("/proc/net/unix").read_text()
        wire.process.kill()
        wire.process.wait()
        assert is_gone(tag)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, pytest.raises(OSError, match="refused"):
            probe.connect(lock.LOCK_NAME)
