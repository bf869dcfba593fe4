"""How are bytes of any number looked at before they are taken, and who remembers that they broke off?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

BLOCK_BYTES = 1 << 20


@dataclass
class Reading:
    """How the reading of one given file went: ``cut`` says why not all of it could be read, "" where all was."""

    name: str
    cut: str = ""

    def cut_short(self, reason: str) -> None:
        """Keep the first reason: the layers above meet what follows from it."""
        self.cut = self.cut or reason


class Blocks:
    """Bytes that come block by block; ``read`` and ``peek`` give fewer than asked for only at the end."""

    def __init__(self, source: Iterator[bytes], reading: Reading) -> None:
        self.reading = reading
        self._source = source
        self._held = b""

    def peek(self, count: int) -> bytes:
        """The next bytes, which stay."""
        parts = [self._held]
        length = len(self._held)
        while length < count:
            block = next(self._source, b"")
            if not block:
                break
            parts.append(block)
            length += len(block)
        self._held = b"".join(parts)
        return self._held[:count]

    def read(self, count: int) -> bytes:
        """The next bytes, which are gone then."""
        taken = self.peek(count)
        self._held = self._held[len(taken) :]
        return taken

    def give_back(self, data: bytes) -> None:
        """Put bytes in front again."""
        self._held = data + self._held

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._held:
            block, self._held = self._held, b""
            return block
        return next(self._source)
