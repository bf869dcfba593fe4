"""Does a line carry both directions, keep what its command says, and end when it is cut?"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from preflight.reach.session.line import Own

SAYS = "import sys; print('first', file=sys.stderr); sys.stdout.write(sys.stdin.readline()); sys.exit(3)"


async def spoken():
    line = await Own.start([sys.executable, "-I", "-S", "-c", SAYS])
    await line.write(b"hello\n")
    heard = await asyncio.wait_for(line.read(), 10)
    code = await asyncio.wait_for(line.ended(), 10)
    await line.last_words(str)
    await line.close()
    return heard, code, line.stderr


def test_a_command_of_its_own_carries_both_directions_and_what_it_says_beside_them():
    """Its exit code and its standard error are there when it has ended."""
    assert asyncio.run(spoken()) == (b"hello\n", 3, "first\n")


async def cut():
    line = await Own.start([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
    line.cut()
    code = await asyncio.wait_for(line.ended(), 10)
    await line.close()
    return code


def test_a_line_that_is_cut_ends_its_command():
    """At once, whatever the command waits for."""
    assert asyncio.run(cut()) == -9


def test_a_command_that_cannot_be_started_is_an_error_of_the_system():
    """Who asked for it knows whose command it was."""
    with pytest.raises(FileNotFoundError):
        asyncio.run(Own.start(["no-such-command-here"]))


def stand_until_it_has_ended(pid):
    """The loop of the caller stands too: it has not seen the end."""
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.01)


async def cut_after_the_end():
    line = await Own.start([sys.executable, "-I", "-S", "-c", "import sys; sys.exit(3)"])
    stand_until_it_has_ended(line.process.pid)
    line.cut()
    code = await asyncio.wait_for(line.ended(), 10)
    await line.close()
    return code


def test_a_line_that_is_cut_as_its_command_ends_keeps_the_exit_code(caplog):
    """Whoever cuts it reaps nothing."""
    assert asyncio.run(cut_after_the_end()) == 3
    assert caplog.messages == []
