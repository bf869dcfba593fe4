"""How are the facts of all nodes shown side by side?"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from preflight.facts import decode
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.job.collect import record, subjects
from preflight.job.options.options import Options
from preflight.reach.hosts import fold
from preflight.report.columns import counted
from preflight.report.files import print_json
from preflight.report.language import Language
from preflight.report.language.wrap import width_of, wrapped
from preflight.report.printable import printable
from preflight.run import recording
from preflight.run.folder import dry_run_text, language_of
from preflight.run.live import Run
from preflight.said import heard, said

NOWHERE = "not reported by any node"
# A cell that holds no value of the node's but a word of ours, or why there is no value.
OWN_CELL = re.compile(r"(?<=  )(?:none|none seen|not asked|each its own \(see --json\)|all \d+|\([^()]*\))(?= *$|  )")
MOST_COLUMNS = 4  # nodes side by side; of more each value is shown once


def show_facts(options: Options) -> int:
    """Collect and print the facts of every node; 3 when one could not be reached, or what it said not be read."""
    run = Run(options)
    if options.dry_run:
        print(language_of(options).lines(dry_run_text(options, run.hosts)))
        return 0
    lost: dict[str, str] = {}
    if options.record:
        recording.prepare(options.record)
    try:
        run.open()
        if options.record:
            lost = _record(run, options.record)
    finally:
        run.close()
    if options.record:
        nodes = counted(len(run.documents) - len(lost), "node")
        print(language_of(options).say(said("{nodes} recorded in {record}/", nodes, options.record)), file=sys.stderr)
    if options.json:
        documents = {name: json.loads(decode.encode(document)) for name, document in run.documents.items()}
        print_json(documents, options.json)
    else:
        width = shutil.get_terminal_size((120, 24)).columns
        print(_within(spoken_table(run.cluster, language_of(options)), width))
    for name, reason in run.failures.items():
        print(f"{name}: {printable(language_of(options).say(said('not reached: {reason}', reason)))}", file=sys.stderr)
    unread = {node.name: failed_subjects(node) for node in run.cluster}
    for name, reasons in unread.items():
        for reason in reasons:
            print(f"{name}: {printable(language_of(options).say(reason))}", file=sys.stderr)
    for name, reason in lost.items():
        print(said("{name}: not recorded: {reason}", name, printable(reason)), file=sys.stderr)
    return 3 if run.failures or lost or any(unread.values()) else 0


def failed_subjects(node: NodeFacts) -> list[str]:
    """Which subjects a node that answered did not report, though it was asked, and why."""
    return [
        f"{subject}: {why.missing}"
        for subject, why in node.missing.items()
        if subject in subjects.ASKED and why.kind == "failed"
    ]


def _record(run: Run, folder: Path) -> dict[str, str]:
    """Write a folder for each node that answered; node -> why that failed."""
    sessions = {name: run.fleet.sessions[name] for name in run.documents}
    work = record.collect(sessions, key=secrets.token_hex(32))
    recorded, failed = run.fleet.run(work, seconds=record.SECONDS + 5.0)
    for name, entries in recorded.items():
        recording.write(entries, folder / recording.folder_name(name))
    return failed


def spoken_table(cluster: Cluster, language: Language) -> str:
    """The facts of all nodes as a table, in a language."""
    with heard() as sentences:
        table = _facts_table(cluster)
    return _spoken(table, language, {str.__str__(one): language.say(one) for one in sentences})


def _spoken(text: str, language: Language, cells: Mapping[str, str]) -> str:
    """The table with its first column, which has our words, in another language, and the lines below it."""
    if language.name == "en":
        return text
    table, _, below = text.partition("\n\n")
    lines = table.split("\n")
    width = len(lines[1].partition(" ")[0])
    titles = [line[:width].rstrip() for line in lines]
    shown = [language.say(title.removesuffix(" *")) + " *" * title.endswith(" *") for title in titles]
    room = max(map(width_of, [shown[0], *shown[2:]]))
    shown[1] = "-" * room
    table = "\n".join(
        f"{title}{' ' * (room - width_of(title))}{_cells(line[width:], language, cells)}"
        for title, line in zip(shown, lines, strict=True)
    )
    heading, *reasons = below.split("\n")
    lines = [f"  {'、'.join(map(language.say, titles))}{why}" for titles, why in map(_parts(language), reasons)]
    return "\n".join([table, "", f"{language.say(heading.removesuffix(':'))}：", *lines]) if below else table


def _within(text: str, width: int) -> str:
    """The table, and below it what is not known, in lines of that width."""
    table, gap, below = text.partition("\n\n")
    heading, *reasons = below.split("\n")
    folded = [line for reason in reasons for line in wrapped(reason.strip(), width, first=2, rest=4)]
    return "\n".join([f"{table}{gap}{heading}", *folded])


def _cells(line: str, language: Language, cells: Mapping[str, str]) -> str:
    """The cells of a line, those of our own words in the language, where the columns stay as wide as they are."""

    def translated(found: re.Match[str]) -> str:
        word, width = cells.get(found[0]) or language.say(found[0]), len(found[0])
        if not line[found.end() :].strip():
            return word
        return word + " " * (width - width_of(word)) if width_of(word) <= width else found[0]

    return OWN_CELL.sub(translated, line)


def _parts(language: Language) -> Callable[[str], tuple[list[str], str]]:
    """What a line says is not known for a reason, and that reason in brackets of the language."""

    def parted(line: str) -> tuple[list[str], str]:
        titles, bracket, reason = line.strip().partition(" (")
        return titles.split(", "), f"（{language.say(reason.removesuffix(')'))}）" if bracket else ""

    return parted


def _facts_table(cluster: Cluster) -> str:
    """A column for each of a few nodes; of many, each value once with the nodes that have it."""
    from tabulate import tabulate

    from preflight.report.facts import compared, row_values

    facts = {node.name: {title: printable(text) for title, text in row_values(node).items()} for node in cluster}
    nowhere: dict[str, list[str]] = {}  # reason -> what is not known for it
    rows = []
    for row in compared(facts):
        title = f"{row.title} *" if row.differs else row.title
        if all(value.startswith("(") for value, _ in row.values):
            nowhere.setdefault(row.values[0][0], []).append(row.title)
        elif len(facts) <= MOST_COLUMNS:
            rows.append([title, *(facts[name][row.title] for name in facts)])
        elif row.is_own and len(row.values) > MOST_COLUMNS:
            rows.append([title, "each its own (see --json)", said("all {facts}", len(facts))])
        else:
            of_nodes = [
                (value, said("all {facts}", len(facts)) if len(names) == len(facts) else fold(names))
                for value, names in row.values
            ]
            rows += [[title if i == 0 else "", *pair] for i, pair in enumerate(of_nodes)]
    names = list(facts) if len(facts) <= MOST_COLUMNS else ["value", "nodes"]
    widths = max((shutil.get_terminal_size((120, 24)).columns - 26) // max(len(names), 1), 18)
    table = tabulate(
        rows, headers=["fact (* differs)", *names], disable_numparse=True, maxcolwidths=[None, *[widths] * len(names)]
    )
    if not nowhere:
        return str(table)
    lines = "".join(f"\n  {', '.join(titles)} {reason}" for reason, titles in nowhere.items())
    return f"{table}\n\n{NOWHERE}:{lines}"
