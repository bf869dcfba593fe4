"""How do logs come in: plain, packed, from a pipe, of any size, line by line?"""

from __future__ import annotations

import gzip
import io
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from preflight.errors import UsageError

BLOCK_BYTES = 1 << 20
SAY_BYTES = 256 << 20
LONGEST_LINE = 1 << 16  # of a longer one the beginning and the end are read
MOST_LOGS = 10_000
# Files of a folder that programs print to: slurm-17.out, job.o17, stderr, nccl_trace_rank_0, rank0.log.3.gz.
LOG = re.compile(r"(?i)^[^.]+$|\.(?:log|out|err|txt|[oe]\d+)(?:[.-]\d+)*(?:\.(?:gz|zst))?$")
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def logs_of(name: str) -> list[str]:
    """The logs that a name stands for: itself, or all that lie below it, where it is a folder.

    Raises UsageError for a folder without a log.
    """
    place = Path(name)
    if name == "-" or not place.is_dir():
        return [name]
    found = [str(path) for path in sorted(place.rglob("*")) if LOG.search(path.name) and path.is_file()]
    if not found:
        raise UsageError(f"{name}: no log lies in this folder; name the files that the job printed to")
    if len(found) > MOST_LOGS:
        raise UsageError(f"{name}: {len(found)} logs lie in this folder; name those of one job, at most {MOST_LOGS}")
    return found


def lines_of(
    stream: IO[bytes], *, say: Callable[[str], None] = lambda _: None, every: int = SAY_BYTES
) -> Iterator[tuple[int, bytes]]:
    """The number of each line and its text; what a progress bar wrote over itself comes piece by piece.

    `say` hears how many MiB were read, after each `every` bytes.
    """
    number, total, rest = 0, 0, b""
    while True:
        block = stream.read(BLOCK_BYTES)
        if not block:
            break
        total += len(block)
        if total // every > (total - len(block)) // every:
            say(f"{total >> 20} MiB")
        pieces = (rest + block).split(b"\n")
        rest = pieces.pop()
        if len(rest) > 2 * LONGEST_LINE:
            rest = rest[:LONGEST_LINE] + rest[-LONGEST_LINE:]
        for piece in pieces:
            number += 1
            if b"\r" in piece or len(piece) > LONGEST_LINE:
                yield from ((number, part) for part in _parts(piece))
            else:
                yield number, piece
    if rest:
        yield from ((number + 1, part) for part in _parts(rest))


def _parts(piece: bytes) -> Iterable[bytes]:
    for part in piece.split(b"\r"):
        if part:
            half = LONGEST_LINE // 2
            yield part if len(part) <= LONGEST_LINE else part[:half] + b" " + part[-half:]


@contextmanager
def opened(name: str) -> Iterator[IO[bytes]]:
    """A log as a stream of bytes: ``-`` is the standard input, gzip and zstd are unpacked.

    Raises UsageError where it cannot be read.
    """
    if name == "-":
        yield from _unpacked(name, io.BufferedReader(sys.stdin.buffer))  # type: ignore[arg-type]
        return
    try:
        stream = open(name, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from None
    with stream:
        yield from _unpacked(name, stream)


def _unpacked(name: str, stream: io.BufferedReader) -> Iterator[IO[bytes]]:
    try:
        head = stream.peek(4)[:4]
        if head.startswith(GZIP):
            with gzip.open(stream) as unpacked:
                yield unpacked  # type: ignore[misc]  # reads bytes
        elif head == ZSTD:
            yield from _zstd(name)
        else:
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise UsageError(f"{name}: cannot be read: {error}") from None


def _zstd(name: str) -> Iterator[IO[bytes]]:
    """Through the program zstd, which every distribution has."""
    program = shutil.which("zstd")
    if program is None:
        raise UsageError(f"{name}: is packed with zstd, and the program zstd is not installed here")
    if name == "-":
        raise UsageError("-: is packed with zstd; unpack it first: `zstd -dc LOG | preflight diagnose -`")
    with subprocess.Popen([program, "-dcq", "--", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()
