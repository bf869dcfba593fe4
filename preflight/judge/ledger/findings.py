"""What was judged, with which verdict, and which exit code follows?"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class Verdict(enum.Enum):
    """The five outcomes; the order of the members is from best to worst for a whole run."""

    SKIP = "skip"
    PASS = "pass"  # noqa: S105 -- no password
    WARN = "warn"
    ERROR = "error"
    FAIL = "fail"

    def __str__(self) -> str:
        return self.value


SEVERITY = {verdict: rank for rank, verdict in enumerate(Verdict)}
EXIT_NOT_MEASURED = 3
EXIT_USAGE = 4
EXIT_CODES = {Verdict.PASS: 0, Verdict.WARN: 0, Verdict.FAIL: 1, Verdict.ERROR: EXIT_NOT_MEASURED, Verdict.SKIP: 5}


@dataclass(frozen=True)
class Where:
    """A line of a user's file."""

    file: str
    line: int


@dataclass(frozen=True)
class Edit:
    """How a user's file is put right: lines `first` to `last` become `lines`; `last` before `first` inserts them.

    ``is_sure`` says that nothing but this can be meant; else the lines hold a <placeholder> for what the user knows.
    """

    file: str
    first: int
    last: int
    lines: tuple[str, ...]
    is_sure: bool = True


@dataclass(frozen=True)
class Command:
    """What puts one node right, for its shell, every value quoted: `now`, and `lasting` where a reboot would undo that.

    Each is one line; `lasting` may be a comment where a file of the site's own has to be edited. One that
    ``is_for_job`` sets variables where the job starts on that node: a login to it would forget them. ``row`` is what
    gave it, ``is_tried`` whether a test has typed that row's command on its fault and found it gone. ``paste`` is the
    line for the shell from which the run was started, with the ssh to the node; a comment where it needs a person.
    """

    node: str
    now: str
    lasting: str = ""
    is_for_job: bool = False
    row: str = ""
    is_tried: bool = True
    paste: str = ""


@dataclass(frozen=True)
class Finding:
    """One verdict of one check with one message, for all nodes that share them (in HOSTS order).

    ``blocked_by`` is the id of the check that stands behind an error which is only a consequence; "" elsewhere.
    ``proof`` names the earlier run whose measurement was judged, where this one did not measure again; "" elsewhere.
    ``edits`` together put the files right that it speaks of, ``commands`` the nodes.
    """

    check: str
    verdict: Verdict
    nodes: tuple[str, ...]
    message: str
    fix: str = ""
    where: tuple[Where, ...] = ()
    seconds: float = 0.0
    waived: bool = False
    blocked_by: str = ""
    edits: tuple[Edit, ...] = ()
    commands: tuple[Command, ...] = ()
    proof: str = ""

    @property
    def counted(self) -> Verdict:
        """The verdict that counts, and is shown: a waived fail is a warn."""
        return Verdict.WARN if self.waived and self.verdict is Verdict.FAIL else self.verdict


def worst(findings: Iterable[Finding]) -> Verdict:
    """The verdict over all findings, fail > error > warn > pass > skip; a waived fail is a warn, no finding a skip."""
    return max((finding.counted for finding in findings), key=SEVERITY.__getitem__, default=Verdict.SKIP)
