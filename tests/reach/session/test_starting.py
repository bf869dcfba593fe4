"""Is a command started as Python would start it, whoever starts it, and is one that nobody waits for ended?"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from preflight.reach.session.starting import by_subprocess, by_the_library, started

WAYS = pytest.mark.parametrize("start", [by_the_library, by_subprocess])
STATE = """
echo $(cut -d" " -f6 /proc/$$/stat) $$ $(sed -n "s/^SigIgn://p" /proc/$$/status) $(cd /proc/$$/fd && echo *) $0
echo beside >&2
read line
exit ${#line}
"""
OF_POSIX = (1 << 31) - 1  # glibc itself ignores two signals beyond


def code_of(command):
    """Once it has ended."""
    until = time.monotonic() + 10
    while (code := command.poll()) is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    return code


@WAYS
def test_a_command_has_its_three_pipes_and_nothing_else_of_ours(start):
    """A session of its own, no signal that Python ignores, and no descriptor that we were given ourselves."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    command = start(["sh", "-c", STATE, "wörd"])
    command.stdin.write(b"seven..\n")
    command.stdin.close()
    session, own, ignored, *files, word = command.stdout.read().decode().split()
    assert (session, int(ignored, 16) & OF_POSIX, word) == (own, 0, "wörd")
    assert files == ["0", "1", "2", "3"]  # the last is the shell's own, by which it reads what it echoes
    assert command.stderr.read() == b"beside\n"
    assert code_of(command) == 7
    command.close()
    command.close()
    os.close(reader)
    os.close(writer)


@WAYS
def test_a_command_that_cannot_be_started_says_which_and_leaves_nothing_open(start):
    """A word that the system would cut short is none that it is given."""
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError, match="no-such-command-here"):
        start(["no-such-command-here"])
    with pytest.raises(ValueError, match="null byte"):
        start(["true", "a\0b"])
    assert os.listdir("/proc/self/fd") == before


def test_the_environment_is_what_it_is_when_the_command_starts(monkeypatch, tmp_path):
    """PATH too, by which it is found."""
    program = tmp_path / "program-of-this-test"
    program.write_text("#!/bin/sh\necho $WORD\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("WORD", "said")
    command = by_the_library([program.name])
    assert command.stdout.read() == b"said\n"
    assert code_of(command) == 0
    command.close()


def children():
    """Of any thread of this process."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


async def given_up():
    """A start that is cancelled before it could be told."""
    before = children()
    starting = asyncio.ensure_future(started(["sleep", "600"]))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    for _ in range(1000):
        if children() == before:
            return True
        await asyncio.sleep(0.01)
    return False


def test_a_command_that_nobody_waits_for_any_more_is_ended():
    """Nor is it left to be reaped."""
    assert asyncio.run(given_up())


def test_a_command_is_ended_though_the_loop_that_started_it_is_gone():
    """Its pipes are closed too: a run that is interrupted leaves nothing."""
    before, files = children(), set(os.listdir("/proc/self/fd"))

    async def cancelled():
        starting = asyncio.ensure_future(started(["sleep", "600"]))
        await asyncio.sleep(0)
        starting.cancel()

    for _ in range(20):
        asyncio.run(cancelled())
    end = time.monotonic() + 10
    while (children() - before or set(os.listdir("/proc/self/fd")) - files) and time.monotonic() < end:
        time.sleep(0.01)
    assert (children() - before, set(os.listdir("/proc/self/fd")) - files) == (set(), set())
