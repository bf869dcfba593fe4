"""How is a packed stream unpacked, in bounded memory, and how is it known that it broke off?"""

from __future__ import annotations

import bz2
import lzma
import shutil
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from preflight.diagnose.forms.blocks import BLOCK_BYTES, Blocks
from preflight.said import said

MOST_LZMA_BYTES = 128 << 20  # of memory; `xz -9` takes 65 MiB
ENDS_WITHIN = 30  # seconds from the end of its output
GZIP_FORM, RAW_FORM = 31, -15  # zlib's numbers for a stream with gzip's header, and for one without any


class Machine(Protocol):
    """What bz2 and lzma call a decompressor."""

    @property
    def eof(self) -> bool:
        """Whether the stream is complete."""

    @property
    def needs_input(self) -> bool:
        """Whether it has given all that it can."""

    @property
    def unused_data(self) -> bytes:
        """What stands behind the stream."""

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        """The next bytes, at most so many."""


class Inflater:
    """zlib's decompressor with the interface that bz2 and lzma have."""

    def __init__(self, form: int = GZIP_FORM) -> None:
        self._machine = zlib.decompressobj(form)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        """Whether the stream is complete."""
        return self._machine.eof

    @property
    def unused_data(self) -> bytes:
        """What stands behind the stream."""
        return self._machine.unused_data

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        """The next bytes, at most so many."""
        out = self._machine.decompress(self._machine.unconsumed_tail + data, max_length)
        self.needs_input = not self._machine.unconsumed_tail and len(out) < max_length
        return out


def _gzip() -> Machine:
    return Inflater()


def _xz() -> Machine:
    return lzma.LZMADecompressor(memlimit=MOST_LZMA_BYTES)


def _bzip2() -> Machine:
    return bz2.BZ2Decompressor()


def inflated(blocks: Blocks, machine: Machine) -> Iterator[bytes]:
    """One stream, at whose end the blocks stand at what follows it."""
    failed = "it ends in the middle of a packed stream"
    try:
        for block in blocks:
            data = block
            while True:
                out = machine.decompress(data, BLOCK_BYTES)
                data = b""
                if out:
                    yield out
                if machine.eof:
                    blocks.give_back(machine.unused_data)
                    return
                if machine.needs_input:
                    break
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        failed = said("it is damaged: {error}", error)
    blocks.reading.cut_short(failed)


def _streams(make: Callable[[], Machine]) -> Callable[[Blocks], Iterator[bytes]]:
    """All streams of a file: programs append further ones, with zeros between them."""

    def unpack(blocks: Blocks) -> Iterator[bytes]:
        while blocks.peek(1):
            if blocks.peek(1) == b"\0":
                blocks.give_back(blocks.read(BLOCK_BYTES).lstrip(b"\0"))
                continue
            yield from inflated(blocks, make())
            if blocks.reading.cut:
                return

    return unpack


def _program(name: str, *options: str) -> Callable[[Blocks], Iterator[bytes]]:
    """Through a program that distributions have; what it says and how it ends counts."""

    def unpack(blocks: Blocks) -> Iterator[bytes]:
        program = shutil.which(name)
        if program is None:
            blocks.reading.cut_short(
                said("it is packed with {name}, and the program {name} is not installed here", name)
            )
            return
        with subprocess.Popen(
            [program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            feeder = threading.Thread(target=_feed, args=(blocks, process.stdin), daemon=True)
            feeder.start()
            try:
                while block := process.stdout.read1(BLOCK_BYTES):  # type: ignore[attr-defined]  # is buffered
                    yield block
                words = process.stderr.read().decode(errors="replace").strip().splitlines()
                if process.wait(ENDS_WITHIN):
                    why = words[-1].strip() if words else said("exit code {returncode}", process.returncode)
                    blocks.reading.cut_short(said("{name} could not unpack all of it: {why}", name, why))
            finally:
                process.kill()
                feeder.join(1)

    return unpack


def _feed(blocks: Blocks, pipe: object) -> None:
    try:
        with pipe:  # type: ignore[attr-defined]  # a pipe of Popen
            for block in blocks:
                pipe.write(block)  # type: ignore[attr-defined]
    except (BrokenPipeError, ValueError):
        return  # it has read enough, or failed: its exit code says which


# How a file of each form begins, and what unpacks it.
FORMS: tuple[tuple[bytes, Callable[[Blocks], Iterator[bytes]]], ...] = (
    (b"\x1f\x8b", _streams(_gzip)),
    (b"\xfd7zXZ\0", _streams(_xz)),
    (b"\x5d\0\0", _streams(_xz)),  # of lzma, which came before xz
    *((b"BZh%d1AY&SY" % level, _streams(_bzip2)) for level in range(1, 10)),
    (b"\x28\xb5\x2f\xfd", _program("zstd", "-dcq")),
    (b"\x04\x22\x4d\x18", _program("lz4", "-dcq")),
    (b"\x1f\x9d", _program("gzip", "-dcq")),  # of compress
)
