"""What is a known cause: which words show it, what does it mean, and how is it fixed?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from preflight.said import said


class Kind(IntEnum):
    """How much a line proves: the larger explains the smaller."""

    NOTE = 0  # a healthy job may print it too: weak evidence, and only once something has failed
    CONSEQUENCE = 1  # another rank failed first
    SUSPICION = 2  # a failure for which several causes are possible
    CAUSE = 3  # this is what broke the job


CONFIDENCE = {Kind.CAUSE: "high", Kind.SUSPICION: "medium", Kind.CONSEQUENCE: "low", Kind.NOTE: "low"}


AND = " && "


@dataclass(frozen=True)
class Cause:
    """One entry of the table.

    ``patterns`` are regular expressions over a line in lower case, each without alternatives at its top level; those
    that AND joins must all be there, in whatever order (a path before its error, or after it);
    lines that also match one of ``unless`` do not count. ``check`` is the id of the check of ours that tests for the
    cause, ``source`` where the words and their meaning were established. Among several causes of one kind those of
    the larger ``weight`` explain the others. A line that matches one of ``passed`` says that what was missing has come.
    """

    name: str
    meaning: str
    patterns: tuple[str, ...]
    fix: str
    source: str
    kind: Kind = Kind.CAUSE
    check: str = ""
    unless: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    weight: int = 4


# Words that fill logs: a pattern is looked up by one of its rarer words.
COMMON = frozenset(
    [
        "error",
        "errors",
        "failed",
        "the",
        "rank",
        "nccl",
        "info",
        "warn",
        "warning",
        "not",
        "with",
        "for",
        "and",
        "torch",
        "cuda",
        "of",
        "to",
        "in",
        "is",
        "on",
        "at",
        "a",
        "an",
        "file",
        "line",
        "no",
        "be",
        "was",
        "python",
        "import",
        "from",
        "this",
        "that",
        "runtimeerror",
        "node",
        "process",
        "data",
        "model",
        "loss",
        "step",
        "time",
        "memory",
        "version",
    ]
)
QUANTIFIERS = frozenset("?*+{")


UNKNOWN, LIKELY = "\0", "\1"  # what may be a letter, and what is none as people write lines


@cache
def literal(pattern: str) -> str:
    """The pattern with UNKNOWN or LIKELY in place of everything not literal: groups, classes, optional parts."""
    kept: list[str] = []
    at, depth = 0, 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\":
            escaped = pattern[at + 1 : at + 2]
            letter = UNKNOWN if escaped in "DwWS" else " " if escaped in "bsBd" else escaped
            at += 1
        elif letter == "[":
            end = pattern.index("]", at + 2)
            letter = UNKNOWN if re.search(r"[a-z^\\]", pattern[at:end]) else " "
            at = end
        elif letter in "()":
            depth += 1 if letter == "(" else -1
            letter = UNKNOWN
        elif letter in ".^$":
            letter = LIKELY
        elif letter == "|" and depth == 0:
            raise ValueError(said("{pattern!r}: write alternatives as patterns of their own", pattern))
        elif letter in QUANTIFIERS:
            if letter != "+" and kept and kept[-1] != LIKELY:
                kept[-1] = UNKNOWN if kept[-1].isalpha() or kept[-1] == UNKNOWN else LIKELY
            if letter == "{":
                at = pattern.index("}", at)
            letter = ""
        at += 1
        kept.append(UNKNOWN if depth and letter else letter)
    return "".join(kept)


def key_word(pattern: str) -> str:
    """A word that every line with this pattern has; ValueError where there is none.

    Words at an end of what is written out may be parts of longer ones in a line, so those inside come first.
    """
    text = literal(pattern)
    inside: list[str] = []
    outside: list[str] = []
    likely: list[str] = []
    for found in re.finditer(r"[a-z]+", text):
        ends = {text[: found.start()][-1:], text[found.end() :][:1]}
        if UNKNOWN in ends:
            continue
        (likely if LIKELY in ends else outside if "" in ends else inside).append(found[0])
    for words in (inside, outside, likely):
        rare = [word for word in words if word not in COMMON and len(word) > 2]
        if rare:
            return max(rare, key=len)
    for words in (inside, outside, likely):
        if words:
            return max(words, key=len)
    raise ValueError(said("{pattern!r}: no word that is always written out", pattern))
