"""How does a pull request, an issue or a job's summary show the run?

Text of nodes, users and files stands in code alone: there GitHub reads no mention, link, HTML or markup in it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from preflight.judge.ledger.findings import Verdict
from preflight.report.causes import Cause, causes, nodes_text, worst_of_nodes
from preflight.report.changes import change_lines, heading
from preflight.report.columns import counted
from preflight.report.document import RunReport
from preflight.report.formats import commands
from preflight.report.formats.text import headline_parts
from preflight.report.groups import checks_by_verdict, groups
from preflight.report.language import ENGLISH, Language
from preflight.report.material import Material, in_language
from preflight.report.measurements import measurement_lines
from preflight.report.printable import printable
from preflight.said import said

SIZE_LIMIT_BYTES = 900_000  # GitHub drops a summary of more than 1024 KiB as a whole
SIGNS = {
    Verdict.FAIL: "❌", Verdict.ERROR: "❔", Verdict.WARN: "⚠", Verdict.PASS: "✅", Verdict.SKIP: "⏭",
}  # fmt: skip
TITLES = {Verdict.FAIL: "Fails", Verdict.ERROR: "Not measured", Verdict.WARN: "Warnings"}
CAUSES = 200  # cards of one verdict; the rest is counted
MESSAGES = 5  # of one card
MESSAGE_LIMIT = 4000
NODES_LIMIT = 200
NODE_ROWS = 200


def markdown_text(material: Material) -> str:
    """The run in GitHub's Markdown, what fails first, at most 900 KB."""
    report = material.report
    text = ""
    size = 0
    for block in _blocks(in_language(report, material.language), material.language):
        size += len(block.encode("utf-8"))
        if size > SIZE_LIMIT_BYTES - 200:
            return text + material.language.say("The rest did not fit here: see `report.json`.") + "\n"
        text += block
    return text


def code(text: str) -> str:
    """`text` as a code span: nothing in it is markup, not even a backtick."""
    shown = printable(text)
    if not shown.strip():
        return "`' '`" if shown else "`''`"
    fence = _fence(shown, least=1)
    # A space at both ends, which Markdown takes away again, keeps a backtick of the text off the fence.
    padding = " " if shown.startswith(("`", " ")) or shown.endswith(("`", " ")) else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def cell(text: str) -> str:
    r"""`text` as a code span inside a table, where a bar splits even code: written ``\|``, never after a backslash."""
    return re.sub(r"\\(?=\|)", r"\\ ", code(text)).replace("|", "\\|")


def block(text: str, *, indent: str = "") -> str:
    """`text` as a fenced block of code."""
    shown = printable(text, keep_newlines=True)
    fence = _fence(shown, least=3)
    return "".join(f"{indent}{line}\n" for line in (f"{fence}text", *shown.split("\n"), fence))


def _fence(text: str, *, least: int) -> str:
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)


def _blocks(report: RunReport, language: Language) -> Iterator[str]:
    word, detail = headline_parts(report)
    say = language.say
    sign = SIGNS[report.verdict if report.finished else Verdict.ERROR]
    yield said("## {sign} preflight: {say}\n\n{code}\n\n", sign, say(word), code(say(detail)))
    for verdict, title in TITLES.items():
        found = causes(report, verdict)
        if found:
            yield f"### {say(title)}\n\n"
            for cause in found[:CAUSES]:
                yield _card(report, cause, language)
            if len(found) > CAUSES:
                yield say(said("And {CAUSES} more: see `report.json`.\n\n", len(found) - CAUSES))
    yield from _counts(report, language)
    lines = list(measurement_lines(report))
    if lines:
        yield f"### {say('Measured')}\n\n" + block(language.lines("\n".join(lines))) + "\n"
    yield from _changes(report, language)
    yield from _nodes(report, language)
    yield from _about(report, language)


def _card(report: RunReport, cause: Cause, language: Language) -> str:
    say = language.say
    nodes = say(nodes_text(report, cause.nodes, most=NODES_LIMIT))
    waived = f" {say('(waived)')}" if cause.is_waived else ""
    on = _on(language)
    title = code(cause.title) if len(cause.checks) == 1 else say(cause.title)
    if cause.is_consequence:
        return (
            f"- {SIGNS[cause.verdict]} {title} {on} {code(nodes)}: {code(cause.parts[0].message[:MESSAGE_LIMIT])}\n\n"
        )
    text = f"- {SIGNS[cause.verdict]} **{title}** {on} {code(nodes)}{waived}\n\n"
    for part in cause.parts[:MESSAGES]:
        if len(cause.parts) > 1:
            text += f"  {code(say(nodes_text(report, part.nodes, most=NODES_LIMIT)))}:\n\n"
        text += block(part.message[:MESSAGE_LIMIT], indent="  ") + "\n"
    if len(cause.parts) > MESSAGES:
        more = say(said("And {counted} in `report.json`.", counted(len(cause.parts) - MESSAGES, "more message")))
        text += f"  {more}\n\n"
    for where in cause.where[:MESSAGES]:
        text += f"  {say('At')} {code(f'{where.file}:{where.line}')}\n\n"
    for fix in cause.fixes[:MESSAGES]:
        text += f"  {say('Fix')}:\n\n" + block(fix[:MESSAGE_LIMIT], indent="  ") + "\n"
    typed = commands.lines(
        report, [finding for part in cause.parts for finding in part.findings], most=MESSAGES, language=language
    )
    if typed:
        text += block("\n".join(line[:MESSAGE_LIMIT] for line in typed), indent="  ") + "\n"
    return text


def _on(language: Language) -> str:
    return "on" if language is ENGLISH else "·"


def _counts(report: RunReport, language: Language) -> Iterator[str]:
    say = language.say
    yield f"### {say('All checks')}\n\n| {say('verdict')} | {say('checks')} |\n|---|---:|\n"
    for verdict, checks in reversed(checks_by_verdict(report).items()):
        yield f"| {SIGNS[verdict]} {language.verdict(str(verdict))} | {len(checks)} |\n"
    yield f"| {say('not asked')} | {report.ledger.not_asked} |\n\n"
    skipped = groups(report, Verdict.SKIP)
    for group in skipped[:CAUSES]:
        number = say(counted(len(group.checks), "check"))
        nodes = say(nodes_text(report, group.nodes, most=NODES_LIMIT))
        yield f"- {SIGNS[Verdict.SKIP]} {number} {_on(language)} {code(nodes)}: {code(group.message[:MESSAGE_LIMIT])}\n"
    if skipped:
        yield "\n"


def _changes(report: RunReport, language: Language) -> Iterator[str]:
    if report.changes is not None:
        since = language.say(heading(report.changes, language.verdict))
        lines = [since, *change_lines(report.changes, most=CAUSES, language=language)]
        yield f"### {language.say('What has changed')}\n\n" + block("\n".join(lines)) + "\n"


def _nodes(report: RunReport, language: Language) -> Iterator[str]:
    say = language.say
    worst = worst_of_nodes(report)
    order = list(Verdict)
    named = sorted(report.nodes, key=lambda node: -order.index(worst[node]))
    yield f"<details><summary>{say('Nodes')}</summary>\n\n"
    yield f"| {say('node')} | {say('address')} | {say('worst verdict')} |\n|---|---|---|\n"
    for node in named[:NODE_ROWS]:
        info = report.nodes[node]
        verdict = f"{SIGNS[worst[node]]} {language.verdict(str(worst[node]))}" if info.reached else say("not reached")
        yield f"| {cell(node)} | {cell(info.address)} | {verdict} |\n"
    if len(named) > NODE_ROWS:
        yield f"\n{say(said('And {NODE_ROWS} more.', len(named) - NODE_ROWS))}\n"
    yield "\n</details>\n\n"


def _about(report: RunReport, language: Language) -> Iterator[str]:
    say = language.say
    yield f"<details><summary>{say('The run')}</summary>\n\n"
    yield block(shlex.join(report.run.command)[:MESSAGE_LIMIT]) + "\n"
    rows = {
        "run": report.run.id,
        "started": report.run.started,
        "seconds": f"{report.run.seconds:.1f}",
        "version": report.run.version,
        "profile": report.profile,
        "exit code": str(report.exit_code),
        **{said("stage {name}", name): f"{spent:.1f} s" for name, spent in report.stages.items()},
    }
    yield f"| {say('what')} | {say('value')} |\n|---|---|\n"
    yield "".join(f"| {cell(say(name))} | {cell(value)} |\n" for name, value in rows.items()) + "\n"
    for note in report.notes[:CAUSES]:
        yield f"- {code(note[:MESSAGE_LIMIT])}\n"
    yield "\n</details>\n"
