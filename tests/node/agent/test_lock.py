"""Is a node held by one run at a time, and is a second one told by which?"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from preflight.node.agent import lock
from preflight.node.agent.lock import NodeLock
from tests.node.wire import Wire, is_gone, is_seen, job, opened, sleeper

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@pytest.fixture
def name(monkeypatch, request):
    """A lock of this test's own, so that no other run of this machine is in its way: the first name of our user."""
    name = f"\0test-{request.node.name[:60]}-{os.getpid()}"
    monkeypatch.setattr(lock, "LOCK_NAME", name)
    monkeypatch.setattr(lock, "PAUSE_S", 0.02)
    return f"{name}-{os.geteuid()}-0"


def as_user(uid: int, work: Callable[[], None]) -> int:
    """The exit code of a process of another user that does this: 0, or 1 where it raised."""
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            work()
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextlib.contextmanager
def squatting(uid: int, *names: str, listens: bool = True) -> Iterator[None]:
    """Another user holds these names, and never answers."""
    ready, is_ready = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setresuid(uid, uid, uid)
            sockets = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in names]
            for each, its_name in zip(sockets, names, strict=True):
                each.bind(its_name)
                if listens:
                    each.listen(1)
            os.write(is_ready, b"x")
            time.sleep(60)
        finally:
            os._exit(0)
    os.read(ready, 1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(is_ready)


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


def test_a_name_that_is_bound_and_never_listens_is_stepped_over(name):
    """No run of ours stays like that: it would keep everybody out for ever."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(name)
        begun = time.monotonic()
        taken = NodeLock("run-2")
        assert taken.take() == ""
        assert time.monotonic() - begun < 2
        assert taken.held.getsockname() == name[:-1].encode() + b"1"
        taken.held.close()


@needs_root
@pytest.mark.parametrize("listens", [True, False])
def test_another_user_who_holds_our_names_keeps_nobody_out(name, listens):
    """The next name is taken; where the stranger then lets go of the first, we are still seen to hold the node."""
    with contextlib.ExitStack() as stack:
        with squatting(4242, name, name[:-1] + "1", listens=listens):
            first = stack.enter_context(held("run-1"))
            assert first.held.getsockname() == name[:-1].encode() + b"2"
            assert NodeLock("run-2").take() == "run-1"
        assert NodeLock("run-2").take() == "run-1"
    with squatting(4242, name, name[:-1] + "1", listens=listens):
        everything = [name[:-1] + str(number) for number in range(2, lock.NAMES)]
        with squatting(4242, *everything, listens=listens):
            free = NodeLock("run-3")
            assert (free.take(), free.held) == ("", None)
    with held("run-1"):
        assert NodeLock("run-2").take() == "run-1"


@needs_root
def test_the_id_of_a_run_is_told_to_nobody_else(name):
    """Another user connects and reads nothing."""

    def ask() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
            asker.connect(name)
            assert asker.recv(200) == b""

    with held("run-1"):
        assert as_user(4242, ask) == 0


def test_of_two_runs_at_once_the_earlier_waits_for_the_later(name):
    """The later one is told at once; the earlier holds the node when the later has let go."""
    assert name
    with held("run-2"):
        begun = time.monotonic()
        assert NodeLock("run-3").take() == "run-2"
        assert time.monotonic() - begun < 0.3
        earlier = NodeLock("run-1")
        got: list[str] = []
        waiting = threading.Thread(target=lambda: got.append(earlier.take()))
        waiting.start()
        time.sleep(0.05)
        assert got == []
    waiting.join(timeout=5)
    assert got == [""]
    earlier.held.close()


@needs_root
def test_the_runs_of_other_users_are_told_and_nobody_can_feign_one(name):
    """A name of theirs counts only in their own hands."""
    base = name.rpartition("-0")[0].rpartition("-")[0]
    with squatting(4242, f"{base}-4242-0", f"{base}-4343-0", f"{base}-{os.geteuid()}-3"):
        assert lock.other_users(os.geteuid()) == ["user 4242"]


@pytest.mark.usefixtures("name")
def test_an_asker_that_has_left_is_no_error():
    """The answer is for whoever asks next."""
    holder = NodeLock("run-1")
    assert holder.take() == ""
    with holder.held:
        holder.answer_holder()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
            asker.connect(holder.name(0))
        holder.answer_holder()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as next_asker:
            next_asker.connect(holder.name(0))
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
            probe.connect(NodeLock("x").name(0))
