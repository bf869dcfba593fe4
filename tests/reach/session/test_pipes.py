"""Do pipes carry what is larger than they are, and is the end of a process heard without a pidfd?"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from preflight.reach.session.line import Own
from preflight.reach.session.pipes import Exit

LARGE = bytes(range(256)) * 4096  # 1 MiB


async def echoed():
    line = await Own.start(["cat"])
    sent = asyncio.gather(*(line.write(LARGE[at : at + 100_000]) for at in range(0, len(LARGE), 100_000)))
    heard = b""
    while len(heard) < len(LARGE):
        heard += await asyncio.wait_for(line.read(), 10)
    await sent
    line.cut()
    assert await asyncio.wait_for(line.ended(), 10) == -9
    end = await line.read(), await line.read()
    await line.close()
    return heard, end


def test_what_several_write_at_once_arrives_whole_and_in_order():
    """A pipe holds 64 KiB; the rest waits for whoever reads. After the end there is nothing, as often as one asks."""
    assert asyncio.run(echoed()) == (LARGE, (b"", b""))


async def written_to_nobody():
    line = await Own.start(["true"])
    await asyncio.wait_for(line.ended(), 10)
    try:
        for _ in range(2):
            await asyncio.wait_for(line.write(LARGE), 10)
    finally:
        await line.close()


def test_whoever_writes_to_nobody_does_not_wait():
    """The first to write may not be told; the second is."""
    with pytest.raises(BrokenPipeError):
        asyncio.run(written_to_nobody())


def test_the_end_of_a_process_is_heard_on_a_kernel_without_pidfd(monkeypatch):
    """RHEL 8 has Linux 4.18; pidfd_open came with 5.3."""

    def refuse(_process_id, _flags=0):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)

    async def ended():
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import sys; sys.exit(3)"])  # noqa: ASYNC220
        return await asyncio.wait_for(Exit(process.pid, process.poll).code(), 10)

    assert asyncio.run(ended()) == 3
