"""What does a person read on the terminal when a run is over: can I start, and if not, what is wrong where?"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from preflight.judge.ledger.choice import Choice
from preflight.judge.ledger.findings import Verdict
from preflight.report.causes import NODES_WIDTH, Cause, aftermath, causes, nodes_text
from preflight.report.changes import change_lines, heading
from preflight.report.columns import counted
from preflight.report.document import INTERRUPTED_CODES, RunReport
from preflight.report.formats import commands
from preflight.report.formats.hostlists import HOSTFILE, nodelist, reasons
from preflight.report.groups import checks_by_verdict, groups, not_asked_text, unjudged_text
from preflight.report.language import ENGLISH, Language
from preflight.report.language.wrap import cut, width_of, wrapped
from preflight.report.material import in_language
from preflight.report.matrix import rows
from preflight.report.measurements import measurement_lines
from preflight.report.printable import printable
from preflight.said import joined, said

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
SKIPPED_CHECKS = 8  # named of those that were skipped for rare reasons
MESSAGES_A_CHECK = 2
GOOD_SCALING = 0.5  # of what each node does by itself; below it the headline says so
COMMANDS = 4  # lines of them, of one card
MESSAGE_LINES = 4
MESSAGE_LETTERS = 200  # of the one line of -q
CHANGES = 2  # of each kind
INDENT = 7


def summary(
    report: RunReport,
    *,
    directory: str = "",
    width: int = 80,
    colour: bool = False,
    language: Language = ENGLISH,
    told_apart: str = "",
    with_skips: bool = False,
) -> str:
    """The whole summary, ending in a newline: one screen for 3 nodes and for 300.

    `colour` is the caller's decision (a terminal, no NO_COLOR); lines keep to `width` except commands to paste. What
    was measured is left out where it is `told_apart`: bench, training or rehearsal, as the verb prints it below.
    """
    page = _Page(in_language(report, language), max(width, 40), colour, language)
    lines = [*page.headline(), ""]
    for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN):
        lines += page.causes(verdict)
    lines += page.counts(with_skips=with_skips or report.verdict is Verdict.SKIP)
    lines += page.measurements(told_apart)
    lines += page.changes()
    lines += page.footer(directory)
    return "\n".join(line for line, before in zip(lines, ["", *lines], strict=False) if line or before) + "\n"


def one_line(report: RunReport, *, directory: str = "", language: Language = ENGLISH) -> str:
    """The verdict, the first cause with its message, and where the rest is."""
    worst = next((found[0] for verdict in (Verdict.FAIL, Verdict.ERROR) if (found := causes(report, verdict))), None)
    first: list[str] = []
    if worst:
        message = worst.parts[0].message
        shown = " ".join(message.split())
        message = message if shown == message and len(shown) <= MESSAGE_LETTERS else shown[:MESSAGE_LETTERS]
        first = [said("{title}: {message}", printable(worst.title), printable(message))]
    text = language.say(joined([headline(report), *first]))
    return f"{text}{f'; {printable(directory)}' if directory else ''}\n"


def every_check(report: RunReport, language: Language = ENGLISH) -> str:
    """A line for each verdict of each check with its nodes, the worst check first."""
    lines = [
        f"{_label(finding.counted, language)}{printable(finding.check)}  "
        f"{language.say(nodes_text(report, finding.nodes, most=NODES_WIDTH))}"
        f"{language.say('  (waived)') if finding.waived else ''}"
        f"{f'  ({printable(finding.proof)})' if finding.proof else ''}"
        for row in rows(report)
        for finding in row.findings
    ]
    return "".join(f"{line}\n" for line in lines)


TELLING: dict[str, Callable[..., str]] = {
    "summary": summary,
    "line": lambda report, *, directory, language=ENGLISH, **_: one_line(
        report, directory=directory, language=language
    ),
    "checks": lambda report, *, language=ENGLISH, **how: (
        f"{every_check(report, language)}\n{summary(report, language=language, with_skips=True, **how)}"
    ),
}


def _label(verdict: Verdict, language: Language) -> str:
    """A verdict in its column."""
    label = str(verdict).upper() if language is ENGLISH else language.verdict(str(verdict))
    return label + " " * (INDENT - width_of(label))


def headline(report: RunReport) -> str:
    """The verdict in one plain line, as the first line of the summary."""
    return joined(headline_parts(report), "  ")


def headline_parts(report: RunReport) -> tuple[str, str]:
    """The word for the verdict, and what it is about."""
    return _word(report), _detail(report)


def _word(report: RunReport) -> str:
    if report.exit_code in INTERRUPTED_CODES:
        return "INTERRUPTED"
    return WORDS[report.verdict] if report.finished else "UNFINISHED"


def _detail(report: RunReport) -> str:
    checks = checks_by_verdict(report)
    parts: list[str] = []
    for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN):
        found = causes(report, verdict)
        count = len({check for cause in found if not cause.is_consequence for check in cause.checks})
        if count:
            text = _how_many(verdict, count)
            parts.append(text if parts else _where(report, verdict, count, text))
        more = len(checks[verdict]) - count
        if more > 0 and any(cause.is_consequence for cause in found):
            parts.append(_blocked(more, is_only=not parts))
    unjudged = unjudged_text(report)
    if unjudged:
        parts.append(unjudged)
    if not parts and report.verdict is Verdict.ERROR:
        parts.append("the run broke outside the checks")
    if not parts:
        passed = len(checks[Verdict.PASS])
        parts.append(said("{counted} passed", counted(passed, "check")) if passed else "no check applied")
    efficiency = report.training.scaling_efficiency if report.training is not None else None
    if efficiency is not None and efficiency < GOOD_SCALING:
        parts.append(said("ranks wait for each other: scaling efficiency {efficiency:.0%}", efficiency))
    if report.choice is not None and not report.choice.is_complete:
        parts.insert(
            0, said("{counted} good, {need} needed", counted(len(report.choice.nodes), "node"), report.choice.need)
        )
    result = said("{seconds}: {parts}", _seconds(report.run.seconds), joined(parts, ", "))
    if report.chosen:
        chosen = nodes_text(report, report.chosen, most=NODES_WIDTH)
        return said(
            "on {chosen} of {counted}, {chosen2}, {result}",
            len(report.chosen),
            counted(len(report.nodes), "node"),
            chosen,
            result,
        )
    return said("{nodes}, {result}", counted(len(report.nodes), "node"), result)


def _how_many(verdict: Verdict, count: int) -> str:
    """How many checks have a verdict."""
    many = count > 1
    if verdict is Verdict.ERROR:
        template = "{count} check{s} were not measured" if many else "{count} check{s} was not measured"
        return said(template, count, "s" if many else "")
    template = "{count} check{s} fail{s2}" if verdict is Verdict.FAIL else "{count} check{s} warn{s2}"
    return said(template, count, "s" if many else "", "" if many else "s")


def _blocked(count: int, *, is_only: bool) -> str:
    """How many checks could not be judged because of others, which the line names before."""
    if is_only:
        return _how_many(Verdict.ERROR, count)
    return said("{count} not measured because of it", count)


def _where(report: RunReport, verdict: Verdict, check_count: int, found_text: str) -> str:
    """What was found with the nodes that have the cause; those that only suffer from it where there is no other.

    "5 checks fail on all 3 nodes" would say that each of the five fails on each node: several have theirs in brackets.
    """
    found = causes(report, verdict)
    blamed = [cause for cause in found if not cause.is_consequence] or found
    guilty = list(dict.fromkeys(node for cause in blamed for node in cause.nodes))
    nodes = nodes_text(report, guilty, most=NODES_WIDTH)
    if check_count > 1 and len(guilty) > 1:
        return said("{found} (affected: {nodes})", found_text, nodes)
    return said("{found} on {nodes}", found_text, nodes)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


@dataclass(frozen=True)
class _Page:
    """The report at one width, with or without colours."""

    report: RunReport
    width: int
    colour: bool
    language: Language

    def headline(self) -> list[str]:
        word = _word(self.report)
        lines = self._wrapped(headline(self.report), first=0, rest=4)
        shown = self.language.say(word)
        verdict = self.report.verdict if word == WORDS[self.report.verdict] else Verdict.ERROR
        lines[0] = lines[0].replace(shown, self._painted(shown, verdict), 1)
        return lines

    def causes(self, verdict: Verdict) -> Iterator[str]:
        """Each thing that is wrong as: verdict, check, nodes; what was found; what to do."""
        every = causes(self.report, verdict)
        found = [cause for cause in every if not cause.is_consequence]
        for cause in found[: ROOM[verdict]]:
            yield from self._shared(cause) if cause.is_shared else self._own(cause)
        hidden = found[ROOM[verdict] :]
        if hidden:
            nodes = self._nodes(node for cause in hidden for node in cause.nodes)
            checks = {check for cause in hidden for check in cause.checks}
            yield from self._labelled(
                verdict, said("{counted} on {nodes}: see report.json", counted(len(checks), "more check"), nodes)
            )
        if len(found) < len(every):
            yield from self._labelled(verdict, aftermath(self.report))
        if every:
            yield ""

    def _shared(self, cause: Cause) -> Iterator[str]:
        """Many checks with the same words: one line."""
        nodes, message = self._nodes(cause.nodes), printable(cause.parts[0].message)
        title = printable(cause.title)
        yield from self._labelled(cause.verdict, said("{title} on {nodes}: {message}", title, nodes, message))
        yield from self._remedy(cause)

    def _own(self, cause: Cause) -> Iterator[str]:
        """One check; its messages with their nodes where it gave several."""
        waived = " (waived)" if cause.is_waived else ""
        heading = said("{title}  {nodes}{waived}", printable(cause.title), self._nodes(cause.nodes), waived)
        yield from self._labelled(cause.verdict, heading)
        is_one = len(cause.parts) == 1
        for part in cause.parts[:MESSAGES_A_CHECK]:
            text = printable(part.message, keep_newlines=True)
            text = text if is_one else said("{nodes}: {message}", self._nodes(part.nodes), text)
            yield from self._message(text, most=MESSAGE_LINES if is_one else 1)
        if len(cause.parts) > MESSAGES_A_CHECK:
            more = said(
                "... and {counted} in report.json", counted(len(cause.parts) - MESSAGES_A_CHECK, "more message")
            )
            yield f"{'':{INDENT}}{self.language.say(more)}"
        yield from self._remedy(cause)

    def _message(self, text: str, *, most: int) -> Iterator[str]:
        parts = text.split("\n") if "\n" in text else [text]
        lines = [line for part in parts for line in self._wrapped(part, first=INDENT, rest=INDENT)]
        yield from lines[:most]
        if len(lines) > most > 1:
            yield f"{'':{INDENT}}{self.language.say('... (more in report.json)')}"

    def _remedy(self, cause: Cause) -> Iterator[str]:
        for where in cause.where:
            yield f"{'':{INDENT}}at {printable(where.file)}:{where.line}"
        findings = [finding for part in cause.parts for finding in part.findings]
        lines = commands.lines(self.report, findings, most=COMMANDS, language=self.language)
        for fix in () if commands.is_mended(findings) else cause.fixes[:MESSAGES_A_CHECK]:
            # On one line, however long: it is there to be copied.
            yield f"{'':{INDENT}}{self.language.say('Fix')}: {printable(' '.join(fix.split()))}"
        for line in lines:
            yield f"{'':{INDENT}}  {line}"

    def _nodes(self, names: Iterable[str]) -> str:
        return nodes_text(self.report, names, most=NODES_WIDTH)

    def counts(self, *, with_skips: bool) -> Iterator[str]:
        """How many checks passed, do not apply and were not asked; with_skips also why each does not apply."""
        if with_skips:
            yield from self.skips()
        checks = checks_by_verdict(self.report)
        passed, skipped = len(checks[Verdict.PASS]), len(checks[Verdict.SKIP])
        if passed:
            reused = len({finding.check for finding in self.report.findings if finding.proof})
            text = counted(passed, "check")
            text = said("{counted}, {reused} of them not measured again", text, reused) if reused else text
            is_silent = skipped and not with_skips
            text = said("{checks}; {skipped} do not apply (-v says why)", text, skipped) if is_silent else text
            yield from self._labelled(Verdict.PASS, text)
        if self.report.ledger.not_asked:
            yield from self._wrapped(printable(not_asked_text(self.report)), first=INDENT, rest=INDENT)

    def skips(self) -> Iterator[str]:
        """One line a reason for what was skipped."""
        found = sorted(groups(self.report, Verdict.SKIP), key=lambda group: -len(group.checks))
        for group in found[: ROOM[Verdict.SKIP]]:
            count, message = counted(len(group.checks), "check"), printable(group.message)
            text = said("{title}: {message}", count, message)
            if len(group.nodes) != len(self.report.nodes):
                text = said("{title} on {nodes}: {message}", count, self._nodes(group.nodes), message)
            yield from self._labelled(Verdict.SKIP, text)
        rest = list(dict.fromkeys(check for group in found[ROOM[Verdict.SKIP] :] for check in group.checks))
        if rest:
            named = ", ".join(map(printable, rest[:SKIPPED_CHECKS]))
            more = (
                said(" and {SKIPPED_CHECKS} more (-v lists all)", len(rest) - SKIPPED_CHECKS)
                if len(rest) > SKIPPED_CHECKS
                else ""
            )
            text = said("{counted} for other reasons: {named}{more}", counted(len(rest), "check"), named, more)
            yield from self._labelled(Verdict.SKIP, text)

    def measurements(self, told_apart: str) -> Iterator[str]:
        """Mesh, bench and training, after a blank line; the rows of a table stay whole."""
        lines = list(measurement_lines(self.report, self.language, told_apart=told_apart))
        if lines:
            yield ""
        for line in lines:
            yield from [line] if line.startswith(" ") else self._under(line)

    def _under(self, line: str) -> list[str]:
        """A line that begins with what was measured, in its column of ten."""
        label, rest = line[:10], line[10:]
        if self.language is ENGLISH or label.strip() not in ("bench", "mesh"):  # others are whole sentences
            return self._wrapped(line, first=0, rest=10)
        translated = self.language.say(label.strip())
        text = f"{translated}{' ' * (10 - width_of(translated))}{self.language.say(rest)}"
        return wrapped(text, self.width, first=0, rest=10)

    def changes(self) -> Iterator[str]:
        """What is not as it was in the earlier run, a few lines of each kind."""
        if self.report.changes is not None:
            yield ""
            since = heading(self.report.changes, self.language.verdict)
            yield from self._wrapped(since, first=0, rest=10)
            for line in change_lines(self.report.changes, most=CHANGES, language=self.language):
                yield cut(line, self.width)
            yield ""

    def footer(self, directory: str) -> Iterator[str]:
        """Time, notes, where the rest is, and the exit code."""
        if self.report.stages:
            stages = self.report.stages.items()
            times = [f"{self.language.stage(printable(name))} {_seconds(spent)}" for name, spent in stages]
            if self.language is ENGLISH:
                yield from self._wrapped(said("time      {times}", ", ".join(times)), first=0, rest=10)
            else:
                label = self.language.say("time")
                yield from wrapped(
                    f"{label}{' ' * (10 - width_of(label))}{'，'.join(times)}", self.width, first=0, rest=10
                )
        for note in self.report.notes[:4]:
            yield from self._wrapped(said("note      {note}", printable(note)), first=0, rest=10)
        if len(self.report.notes) > 4:
            yield self.language.say(said("note      and {notes} more: see report.json", len(self.report.notes) - 4))
        if self.report.choice is not None:
            yield from self.choice(self.report.choice, directory)
        if directory:
            yield self.language.say(said("report    {directory}", printable(directory)))
        yield self.language.say(said("exit code {exit_code}", self.report.exit_code))

    def choice(self, choice: Choice, directory: str) -> Iterator[str]:
        """The nodes that were chosen, in the words of launchers and Slurm, and why each other one was not."""
        if choice.is_complete and directory:
            where = printable(f"{directory}/{HOSTFILE}")
            yield said(
                "{say}    --hosts=@{where}  sbatch --nodelist={nodelist}",
                self.language.say("chosen"),
                where,
                nodelist(choice.nodes),
            )
        for nodes, reason in reasons(choice):
            text = said("left out  {nodes}: {reason}", self._nodes(nodes), printable(reason))
            if self.language is not ENGLISH:
                label = self.language.say("left out")
                text = f"{label}{' ' * max(10 - width_of(label), 1)}{self._nodes(nodes)}：{self.language.say(reason)}"
            yield from self._wrapped(text, first=0, rest=10)

    def _labelled(self, verdict: Verdict, text: str) -> list[str]:
        lines = self._wrapped(text, first=INDENT, rest=INDENT + 2)
        lines[0] = self._painted(_label(verdict, self.language), verdict) + lines[0][INDENT:]
        return lines

    def _wrapped(self, text: str, *, first: int, rest: int) -> list[str]:
        # Words stay whole: a path or an address cut in two can be neither searched nor copied.
        if self.language is not ENGLISH:
            return wrapped(self.language.say(text), self.width, first=first, rest=rest)
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
