"""Which launch files have been written by hand in the manner of real ones, and what is the truth about each?

The cases stand in tests/data/launch/*.txt, one after the other:

    === name of the case
    ? fail rule file:line  must be told with this verdict, at this line (":line" and the place may be left out)
    ? rule file:line       is wrong, and not told yet
    ~ rule                may be told: people differ about it, so it counts neither way
    --- job.sh
    the text of a file; several files are given together

A case without "?" is a good one. "? file_is_judged" says that preflight must own up to not judging it; to say so
of a part of a file is never wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "data" / "launch"


@dataclass(frozen=True)
class Truth:
    """A finding that must or may be there; line 0 is any line."""

    rule: str
    file: str = ""
    line: int = 0
    verdict: str = ""  # "" is any

    def __str__(self) -> str:
        return f"{self.rule} {self.file}{f':{self.line}' if self.line else ''}".strip()


@dataclass(frozen=True)
class Case:
    """Launch files that are given together, and what is wrong with them."""

    name: str
    source: str
    texts: dict[str, str]
    musts: tuple[Truth, ...]
    mays: tuple[Truth, ...]


@dataclass(frozen=True)
class Score:
    """What was told of a case: the truths that were found and missed, and the findings that nobody wanted."""

    found: tuple[Truth, ...]
    missed: tuple[Truth, ...]
    false: tuple[str, ...]


def cases() -> tuple[Case, ...]:
    """All of them, in the order of their files."""
    return tuple(case for path in sorted(FOLDER.glob("*.txt")) for case in parsed(path.read_text(), path.name))


def parsed(text: str, source: str) -> list[Case]:
    """The cases of one file; ValueError for a line that belongs nowhere."""
    found: list[Case] = []
    for block in ("\n" + text).split("\n=== ")[1:]:
        head, *files = block.split("\n--- ")
        name, *lines = head.split("\n")
        truths: dict[str, list[Truth]] = {"?": [], "~": []}
        for line in filter(str.strip, lines):
            mark, _, said = line.partition(" ")
            truths[mark].append(_truth(said))
        texts = {}
        for file in files:
            title, _, body = file.partition("\n")
            texts[title.strip()] = body.rstrip("\n") + "\n"
        found.append(Case(name.strip(), source, texts, tuple(truths["?"]), tuple(truths["~"])))
    return found


def _truth(said: str) -> Truth:
    first, _, behind = said.strip().partition(" ")
    verdict = first if first in ("fail", "warn", "skip") else ""
    rule, _, place = (behind if verdict else said.strip()).partition(" ")
    file, _, line = place.strip().partition(":")
    return Truth(rule, file, int(line or 0), verdict)


def score(case: Case, findings) -> Score:
    """Compare findings with the truth: by rule, by file where the truth names one, by line where it names one."""
    told = list(findings)
    found, missed, used = [], [], set()
    for truth in case.musts:
        fitting = [place for place, finding in enumerate(told) if _fits(truth, finding)]
        (found if fitting else missed).append(truth)
        used.update(fitting)
    false = [
        f"{finding.check.removeprefix('launch.')} {place_of(finding)} {finding.message}"
        for place, finding in enumerate(told)
        if place not in used and str(finding.verdict) != "skip" and not any(_fits(may, finding) for may in case.mays)
    ]
    return Score(tuple(found), tuple(missed), tuple(false))


def place_of(finding) -> str:
    """Its first place, as people write it."""
    return f"{finding.where[0].file}:{finding.where[0].line}" if finding.where else ""


def _fits(truth: Truth, finding) -> bool:
    is_it = finding.check == f"launch.{truth.rule}" and truth.verdict in ("", str(finding.verdict))
    return is_it and (
        not truth.file or any(where.file == truth.file and truth.line in (0, where.line) for where in finding.where)
    )
