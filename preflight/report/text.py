"""What does a person read on the terminal when a run is over: can I start, and if not, what is wrong where?"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from preflight.findings import Verdict
from preflight.hosts import fold
from preflight.report.changes import change_lines, heading
from preflight.report.groups import Group, checks_by_verdict, groups
from preflight.report.measurements import measurement_lines
from preflight.report.printable import printable
from preflight.report.run import INTERRUPTED_CODES, RunReport

WORDS = {
    Verdict.PASS: "GO",
    Verdict.WARN: "GO, WITH WARNINGS",
    Verdict.FAIL: "NO-GO",
    Verdict.ERROR: "NOT MEASURED",
    Verdict.SKIP: "NOTHING JUDGED",
}
COLOURS = {Verdict.PASS: 32, Verdict.WARN: 33, Verdict.FAIL: 31, Verdict.ERROR: 35, Verdict.SKIP: 2}
# How many groups of each verdict a screen has room for; the rest is counted, and in report.json.
ROOM = {Verdict.FAIL: 5, Verdict.ERROR: 3, Verdict.WARN: 3, Verdict.SKIP: 3}
MESSAGES_A_CHECK = 2
MESSAGE_LINES = 4
NODES_WIDTH = 60
CHANGES = 2  # of each kind
INDENT = 7


def summary(report: RunReport, *, directory: str = "", width: int = 80, colour: bool = False) -> str:
    """The whole summary, ending in a newline: one screen for 3 nodes and for 300.

    `colour` is the caller's decision (a terminal, no NO_COLOR); lines keep to `width` except commands to paste.
    """
    page = _Page(report, max(width, 40), colour)
    lines = [*page.headline(), ""]
    for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN):
        lines += page.causes(verdict)
    lines += page.counts()
    lines += page.measurements()
    lines += page.changes()
    lines += page.footer(directory)
    return "\n".join(lines) + "\n"


def headline(report: RunReport) -> str:
    """The verdict in one plain line, as the first line of the summary."""
    return f"{_word(report)}  {_detail(report)}"


def _word(report: RunReport) -> str:
    if report.exit_code in INTERRUPTED_CODES:
        return "INTERRUPTED"
    return WORDS[report.verdict] if report.finished else "UNFINISHED"


def _detail(report: RunReport) -> str:
    checks = checks_by_verdict(report)
    told: list[str] = []
    for verdict, words in (
        (Verdict.FAIL, ("fails", "fail")),
        (Verdict.ERROR, ("was not measured", "were not measured")),
        (Verdict.WARN, ("warns", "warn")),
    ):
        count = len(checks[verdict])
        if count:
            text = f"{_count(count, 'check')} {words[count > 1]}"
            told.append(f"{text} on {_guilty(report, verdict)}" if not told else text)
    if report.ledger.judged < report.ledger.expected:
        told.append(
            f"{report.ledger.expected - report.ledger.judged} of {report.ledger.expected} cells have no verdict"
        )
    if not told and report.verdict is Verdict.ERROR:
        told.append("the run broke outside the checks")
    if not told:
        passed = len(checks[Verdict.PASS])
        told.append(f"{_count(passed, 'check')} passed" if passed else "no check applied")
    return f"{_count(len(report.nodes), 'node')}, {_seconds(report.run.seconds)}: {', '.join(told)}"


def _guilty(report: RunReport, verdict: Verdict) -> str:
    """The nodes with the cause; those that only suffer from it where there is no other."""
    found = groups(report, verdict)
    causes = [group for group in found if not group.is_consequence] or found
    return _nodes(report, (node for group in causes for node in group.nodes))


def _nodes(report: RunReport, names: Iterable[str]) -> str:
    named = list(dict.fromkeys(names))
    if not named:
        return "no node"
    if len(named) > 2 and len(named) == len(report.nodes):
        return f"all {len(named)} nodes"
    folded = printable(fold(named))
    if len(folded) <= NODES_WIDTH:
        return folded
    return f"{folded[: NODES_WIDTH - 20]}... ({len(named)} nodes)"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def _is_folded(group: Group) -> bool:
    """Whether a line is enough: there is nothing of its own to repair, or many checks say the same."""
    return group.is_consequence or len(group.checks) > 1


@dataclass(frozen=True)
class _Page:
    """The report at one width, with or without colours."""

    report: RunReport
    width: int
    colour: bool

    def headline(self) -> list[str]:
        word = _word(self.report)
        lines = self._wrapped(headline(self.report), first=0, rest=4)
        verdict = self.report.verdict if word == WORDS[self.report.verdict] else Verdict.ERROR
        lines[0] = lines[0].replace(word, self._painted(word, verdict), 1)
        return lines

    def causes(self, verdict: Verdict) -> Iterator[str]:
        """Each thing that is wrong as: verdict, check, nodes; what was found; what to do."""
        alike: dict[str, list[Group]] = {}
        for group in groups(self.report, verdict):
            alike.setdefault(group.message if _is_folded(group) else group.checks[0], []).append(group)
        shown, hidden = list(alike.values())[: ROOM[verdict]], list(alike.values())[ROOM[verdict] :]
        for same in shown:
            if _is_folded(same[0]):
                for group in same:
                    yield from self._consequence(group)
            else:
                yield from self._cause(same)
        if hidden:
            nodes = _nodes(self.report, (node for same in hidden for group in same for node in group.nodes))
            checks = {check for same in hidden for group in same for check in group.checks}
            yield from self._labelled(verdict, f"{_count(len(checks), 'more check')} on {nodes}: see report.json")
        if alike:
            yield ""

    def _consequence(self, group: Group) -> Iterator[str]:
        """Many checks with the same words, on one line."""
        subject = printable(group.checks[0]) if len(group.checks) == 1 else f"{len(group.checks)} checks"
        nodes = _nodes(self.report, group.nodes)
        yield from self._labelled(group.verdict, f"{subject} on {nodes}: {printable(group.message)}")
        yield from self._remedy(group)

    def _cause(self, same: list[Group]) -> Iterator[str]:
        """One check; its messages with their nodes where it gave several."""
        nodes = _nodes(self.report, (node for group in same for node in group.nodes))
        waived = " (waived)" if same[0].is_waived else ""
        yield from self._labelled(same[0].verdict, f"{printable(same[0].checks[0])}  {nodes}{waived}")
        remedies: dict[tuple[str, ...], None] = {}
        for group in same[:MESSAGES_A_CHECK]:
            who = f"{_nodes(self.report, group.nodes)}: " if len(same) > 1 else ""
            text = f"{who}{printable(group.message, keep_newlines=True)}"
            yield from self._message(text, most=1 if len(same) > 1 else MESSAGE_LINES)
            remedies[tuple(self._remedy(group))] = None
        if len(same) > MESSAGES_A_CHECK:
            yield f"{'':{INDENT}}... and {_count(len(same) - MESSAGES_A_CHECK, 'more message')} in report.json"
        for remedy in remedies:
            yield from remedy

    def _message(self, text: str, *, most: int) -> Iterator[str]:
        lines = [line for part in text.split("\n") for line in self._wrapped(part, first=INDENT, rest=INDENT)]
        yield from lines[:most]
        if len(lines) > most > 1:
            yield f"{'':{INDENT}}... (more in report.json)"

    def _remedy(self, group: Group) -> Iterator[str]:
        for where in dict.fromkeys(where for finding in group.findings for where in finding.where):
            yield f"{'':{INDENT}}at {printable(where.file)}:{where.line}"
        if group.fix:
            # On one line, however long: it is there to be copied.
            yield f"{'':{INDENT}}Fix: {printable(' '.join(group.fix.split()))}"

    def counts(self) -> Iterator[str]:
        """One line a reason for what was skipped, then how many passed and how many nobody asked."""
        found = sorted(groups(self.report, Verdict.SKIP), key=lambda group: -len(group.checks))
        for group in found[: ROOM[Verdict.SKIP]]:
            part = "" if len(group.nodes) == len(self.report.nodes) else f" on {_nodes(self.report, group.nodes)}"
            text = f"{_count(len(group.checks), 'check')}{part}: {printable(group.message)}"
            yield from self._labelled(Verdict.SKIP, text)
        rest = {check for group in found[ROOM[Verdict.SKIP] :] for check in group.checks}
        if rest:
            yield from self._labelled(Verdict.SKIP, f"{_count(len(rest), 'check')} for other reasons")
        passed = len(checks_by_verdict(self.report)[Verdict.PASS])
        if passed:
            yield from self._labelled(Verdict.PASS, _count(passed, "check"))
        if self.report.ledger.not_asked:
            asked = (
                f"{_count(self.report.ledger.not_asked, 'check')} not asked (profile {printable(self.report.profile)})"
            )
            yield f"{'':{INDENT}}{asked}"

    def measurements(self) -> Iterator[str]:
        """Mesh, bench and training, after a blank line; the rows of a table stay whole."""
        lines = list(measurement_lines(self.report))
        if lines:
            yield ""
        for line in lines:
            yield from [line] if line.startswith(" ") else self._wrapped(line, first=0, rest=10)

    def changes(self) -> Iterator[str]:
        """What is not as it was in the earlier run, a few lines of each kind."""
        if self.report.changes is not None:
            yield ""
            yield from self._wrapped(heading(self.report.changes), first=0, rest=10)
            for line in change_lines(self.report.changes, most=CHANGES):
                yield line if len(line) <= self.width else f"{line[: self.width - 3]}..."
            yield ""

    def footer(self, directory: str) -> Iterator[str]:
        """Time, notes, where the rest is, and the exit code."""
        if self.report.stages:
            told = ", ".join(f"{printable(name)} {_seconds(spent)}" for name, spent in self.report.stages.items())
            yield from self._wrapped(f"time      {told}", first=0, rest=10)
        for note in self.report.notes[:4]:
            yield from self._wrapped(f"note      {printable(note)}", first=0, rest=10)
        if len(self.report.notes) > 4:
            yield f"note      and {len(self.report.notes) - 4} more: see report.json"
        if directory:
            yield f"report    {printable(directory)}"
        yield f"exit code {self.report.exit_code}"

    def _labelled(self, verdict: Verdict, text: str) -> list[str]:
        lines = self._wrapped(text, first=INDENT, rest=INDENT + 2)
        lines[0] = self._painted(f"{str(verdict).upper():<{INDENT}}", verdict) + lines[0][INDENT:]
        return lines

    def _wrapped(self, text: str, *, first: int, rest: int) -> list[str]:
        # Words stay whole: a path or an address cut in two can be neither searched nor copied.
        return textwrap.wrap(
            text,
            self.width,
            initial_indent=" " * first,
            subsequent_indent=" " * rest,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [" " * first]

    def _painted(self, text: str, verdict: Verdict) -> str:
        return f"\x1b[{COLOURS[verdict]}m{text}\x1b[0m" if self.colour else text
