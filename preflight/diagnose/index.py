"""Which patterns can a line match at all? Looked up by its words, so that gigabytes take seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Generic, TypeVar

from preflight.diagnose.cause import AND, key_word

Row = TypeVar("Row")
# Letters in lower case; everything else separates words.
WORDS = bytes(code | 0x20 if 0x41 <= code <= 0x5A else code if 0x61 <= code <= 0x7A else 0x20 for code in range(256))


def words_of(line: bytes) -> list[bytes]:
    """The words of a line in lower case, letters only."""
    return line.translate(WORDS).split()


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern is compiled when a line first has its word: most never are."""
    return re.compile(pattern)


class Index(Generic[Row]):
    """Rows by a word that each of their patterns needs."""

    def __init__(self, rows: Iterable[tuple[str, Row]]) -> None:
        self._rows: dict[bytes, list[tuple[str, tuple[str, ...], Row]]] = {}
        for pattern, row in rows:
            first, *others = pattern.split(AND)
            self._rows.setdefault(key_word(first).encode(), []).append((first, tuple(others), row))
        self.words = frozenset(self._rows)

    def matches(self, words: Iterable[bytes], lowered: str) -> Iterator[tuple[Row, re.Match[str]]]:
        """Every row with a pattern that the line matches, each pattern once; in the same order in every process."""
        for word in sorted(self.words.intersection(words)):
            for pattern, others, row in self._rows[word]:
                found = compiled(pattern).search(lowered)
                if found and all(compiled(other).search(lowered) for other in others):
                    yield row, found
