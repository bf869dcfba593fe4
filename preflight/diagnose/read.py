"""How do logs come in: plain, packed, in archives, from a pipe, of any size and encoding, line by line?"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from preflight.diagnose.forms.archives import opener_of
from preflight.diagnose.forms.blocks import BLOCK_BYTES, Blocks, Reading
from preflight.diagnose.forms.packed import FORMS
from preflight.diagnose.forms.text import (
    HEAD_BYTES,
    decoded,
    encoding_of,
    watched,
    why_not_text,
    without_holes,
    zeros_at_the_start,
)
from preflight.diagnose.found import Gap
from preflight.diagnose.recorder import is_dump
from preflight.said import said
from preflight.said.errors import UsageError

SAY_BYTES = 256 << 20
LONGEST_LINE = 1 << 16  # of a longer one the beginning and the end are read
MOST_LOGS = 10_000
MOST_LAYERS = 4  # a log in gzip in a tar archive in xz; more of them are made to harm
PACKED = r"(?:\.(?:gz|zst|xz|lzma|bz2|lz4|z))?"
# Files of a folder that programs print to: slurm-17.out, job.o17, stderr, nccl_trace_rank_0, rank0.log.3.gz.
LOG = re.compile(rf"(?i)^[^.]+{PACKED}$|\.(?:log|out|err|txt|[oe]\d+)(?:[.-]\d+)*{PACKED}$")
ARCHIVE = re.compile(r"(?i)\.(?:zip|tar|tgz|txz|tbz2?|tzst|tar\.\w+)$")
Say = Callable[[str], None]


def logs_of(name: str) -> list[str]:
    """The logs that a name stands for: itself, or all that lie below it, where it is a folder.

    Raises UsageError for a folder without a log.
    """
    place = Path(name)
    if name == "-" or not place.is_dir():
        return [name]
    found = [
        str(path)
        for path in sorted(place.rglob("*"))
        if (LOG.search(path.name) or ARCHIVE.search(path.name)) and path.is_file()
    ]
    if not found:
        raise UsageError(said("{name}: no log lies in this folder; name the files that the job printed to", name))
    if len(found) > MOST_LOGS:
        raise UsageError(
            said(
                "{name}: {found} logs lie in this folder; name those of one job, at most {MOST_LOGS}",
                name,
                len(found),
                MOST_LOGS,
            )
        )
    return found


def logs_in(name: str, gaps: list[Gap]) -> Iterator[tuple[str, Blocks]]:
    """Each log that a file holds, with its name: of an archive several. `gaps` takes what could not be read of it.

    ``-`` is the standard input. Raises UsageError for a file that cannot be opened.
    """
    reading = Reading(name)
    if name == "-":
        yield from _logs(name, Blocks(_blocks(sys.stdin.buffer), reading), gaps, layer=0)
    else:
        try:
            stream = open(name, "rb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise UsageError(said("{name}: cannot be read: {strerror}", name, error.strerror)) from None
        with stream:
            yield from _logs(name, Blocks(_blocks(stream, reading), reading), gaps, layer=0)


def _blocks(stream: IO[bytes], reading: Reading | None = None) -> Iterator[bytes]:
    try:
        while block := stream.read(BLOCK_BYTES):
            yield block
    except OSError as error:
        if reading is None:
            raise
        reading.cut_short(said("it cannot be read: {strerror}", error.strerror))


def _logs(name: str, blocks: Blocks, gaps: list[Gap], *, layer: int) -> Iterator[tuple[str, Blocks]]:
    """What the blocks hold, one layer of packing after the other."""
    reading = blocks.reading
    head = blocks.peek(16)
    unpack = next((unpack for start, unpack in FORMS if head.startswith(start)), None)
    members = opener_of(blocks) if unpack is None else None
    if (unpack or members) and layer >= MOST_LAYERS:
        gaps.append(Gap(name, "not text: it is packed in more layers than logs are"))
    elif unpack is not None:
        unpacked = Blocks(unpack(blocks), reading)
        if unpacked.peek(1):
            yield from _logs(name, unpacked, gaps, layer=layer + 1)
            return
        if reading.cut:
            gaps.append(Gap(name, said("not text: {cut}", reading.cut)))
        else:
            yield name, unpacked
    elif members is not None:
        number = 0
        for member, content in members(blocks):
            if not LOG.search(member.rpartition("/")[2]):
                continue
            number += 1
            if number > MOST_LOGS:
                reading.cut_short(said("more than {MOST_LOGS:,} logs lie in it", MOST_LOGS))
                break
            inner = Reading(f"{name}/{member}")
            yield from _logs(inner.name, Blocks(content, inner), gaps, layer=layer + 1)
        if reading.cut:
            gaps.append(Gap(name, said("cut short: {cut}", reading.cut), is_read=number > 0))
        elif not number:
            gaps.append(Gap(name, "no log lies in this archive; unpack it and name the files that the job printed to"))
    else:
        yield from _text(name, blocks, gaps)


def _text(name: str, blocks: Blocks, gaps: list[Gap]) -> Iterator[tuple[str, Blocks]]:
    reading = blocks.reading
    zeros = zeros_at_the_start(blocks)
    head = blocks.peek(HEAD_BYTES)
    written = without_holes(head)
    if is_dump(head):
        yield name, blocks
    else:
        encoding = encoding_of(written)
        is_empty = not written and (head or zeros)
        reason = "it holds nothing but zero bytes" if is_empty else why_not_text(written, encoding)
        if reason:
            gaps.append(Gap(name, said("not text: {reason}", reason)))
            return
        yield name, Blocks(decoded(blocks, encoding) if encoding else watched(blocks), reading)
    if reading.cut:
        gaps.append(Gap(name, said("cut short: {cut}", reading.cut), is_read=True))
    elif zeros:
        gaps.append(
            Gap(name, said("cut short: it begins with {zeros:,} zero bytes: lines are lost", zeros), is_read=True)
        )


def lines_of(
    blocks: Iterable[bytes], *, say: Say = lambda _: None, every: int = SAY_BYTES
) -> Iterator[tuple[int, bytes]]:
    """The number of each line and its text; what a progress bar wrote over itself comes piece by piece.

    `say` hears how many MiB were read, after each `every` bytes.
    """
    number, total, rest = 0, 0, b""
    for block in blocks:
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
