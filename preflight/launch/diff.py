"""Which patch corrects launch files, as far as the right values are known?"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from preflight.judge.ledger.findings import Finding
from preflight.launch.fixes.trial import Reading, edited, holds
from preflight.launch.rules.check import check_texts
from preflight.said import said
from preflight.said.errors import UsageError

ROUNDS = 4


class Fixed(NamedTuple):
    """Texts after their edits, and the findings that are gone from them."""

    texts: Mapping[str, str]
    findings: tuple[Finding, ...]


def fixed(texts: Mapping[str, str]) -> Fixed:
    """Make the edits of the findings on these files, and check them again: each of them was tried, and holds.

    Edits that lie upon one another are made one after the other, in rounds.
    """
    now, done = dict(texts), []
    for _ in range(ROUNDS):
        before = _checked(now)
        fitting = _apart(one for one in before.findings if one.edits) if before is not None else []
        after = edited(now, (edit for one in fitting for edit in one.edits))
        if not fitting or before is None or not holds(before, fitting, _checked(after)):
            break
        now = after
        done += fitting
    return Fixed(now, tuple(done))


def patch(texts: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The difference as `git apply` and `patch -p1` take it."""
    pieces: list[str] = []
    for name, before in texts.items():
        path = os.path.relpath(name) if os.path.isabs(name) else os.path.normpath(name)
        lines = difflib.unified_diff(_lines(before), _lines(after[name]), f"a/{path}", f"b/{path}")
        pieces.extend(
            line if line.endswith("\n") else said("{line}\n\\ No newline at end of file\n", line) for line in lines
        )
    return "".join(pieces)


def _lines(text: str) -> list[str]:
    """Lines as git counts them: at line feeds alone."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _checked(texts: Mapping[str, str]) -> Reading | None:
    try:
        findings, files = check_texts(texts)
    except UsageError:
        return None
    return Reading(files, findings)


def _apart(findings: Iterable[Finding]) -> list[Finding]:
    """Findings whose edits do not touch one line."""
    taken: set[tuple[str, int]] = set()
    found = []
    for finding in findings:
        lines = {
            (edit.file, line) for edit in finding.edits for line in range(edit.first, max(edit.last, edit.first) + 1)
        }
        if not lines & taken:
            taken |= lines
            found.append(finding)
    return found
