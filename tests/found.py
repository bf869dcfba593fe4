"""What is found in the launch cases, logs and broken clusters of the tests? ``python -m tests.found`` writes it.

Of each finding about a launch file: verdict and rule, the lines it points at, the values of its sentence and what it
would edit; of a case without one: the fields of each start. Of each log: the causes, their lines, ranks and nodes. Of
each broken cluster: the commands that an operator is given. No wording stands there, so a better sentence changes
nothing, and a wrong number, line, rank, edit or command does. The case of the same name in tests/data/launch/ or
tests/diagnose/logs/, or the rows of the check in tests/checks/, say whether a line is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from string import ascii_letters
from typing import Any

from preflight.diagnose import diagnose
from preflight.diagnose.found import Diagnosis
from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Sourced, Unknown
from preflight.launch.plan import Plan
from preflight.launch.rules.check import check_texts
from preflight.said import Said
from preflight.said.errors import UsageError
from tests.checks.samples import judge
from tests.diagnose import test_logs
from tests.house import ROOT
from tests.judge.commands.test_every_check import rows
from tests.judge.commands.typed import as_root
from tests.launch import truth

FOLDER = ROOT / "tests" / "data" / "said"
FIELDS = {
    "nodes": "nodes",
    "fewest_nodes": "least",
    "processes_per_node": "each",
    "world_size": "world",
    "rank": "rank",
    "local_rank": "local",
    "master_address": "address",
    "master_port": "port",
    "node_rank": "node",
}


def of_launch_cases() -> Iterator[str]:
    """Each case with what was found in it, or read of it; of one file the name is left out."""
    for source, cases in groupby(truth.cases(), key=lambda case: case.source):
        yield f"##### {source}"
        for case in cases:
            lines: list[str] = []
            with suppress(UsageError):
                findings, files = check_texts(case.texts)
                lines = [line for one in findings for line in as_found(one)] or [*of_nodes(map(as_read, files.plans))]
            if lines:
                (file, *others) = case.texts
                yield f"=== {case.name}"
                yield from lines if others else (line.replace(f"{file}:", ":") for line in lines)


def as_read(plan: Plan) -> str:
    """A start: where it stands, and its fields, each with the line where that is another one."""
    told = [f"{plan.launcher.name} {plan.where.file}:{plan.where.line}"]
    for name, word in FIELDS.items():
        field = getattr(plan, name)
        if field is not None and not is_usual(plan, name, field):
            value = "?" if isinstance(field, Unknown) else field.value
            told.append(f"{word}={value}" + f"@{field.line}" * (field.line != plan.where.line))
    return " ".join(told)


def is_usual(plan: Plan, name: str, field: Sourced | Unknown) -> bool:
    """Is a field what the tool takes where nothing is written, or the product or copy of others?"""
    if isinstance(field, Unknown):
        return name == "fewest_nodes"
    nodes, each = plan.nodes, plan.processes_per_node
    if name == "world_size" and isinstance(nodes, Sourced) and isinstance(each, Sourced):
        return field.value == nodes.value * each.value
    return field.origin == "tool" or (name == "fewest_nodes" and field == nodes)


def of_nodes(starts: Iterable[str]) -> Iterator[str]:
    """Starts in a row that differ in their node alone, as one."""
    for told, many in groupby((start.partition(" node=") for start in starts), key=itemgetter(0)):
        nodes = [node for _, _, node in many]
        yield told + (f" node={' '.join(nodes)}" if any(nodes) else f" {len(nodes)}x" * (len(nodes) > 1))


def as_found(finding: Finding) -> Iterator[str]:
    """A finding and its edits."""
    places = [f"{where.file}:{where.line}" for where in finding.where]
    seen = {*places, *(where.file for where in finding.where)}
    rule = finding.check.removeprefix("launch.")
    yield " ".join([str(finding.verdict), rule, *places, *(one for one in values(finding.message) if one not in seen)])
    for edit in finding.edits:
        yield f"  {edit.file}:{edit.first}-{edit.last}{'' if edit.is_sure else ' perhaps'} -> {' / '.join(edit.lines)}"


def values(text: Any) -> Iterator[str]:
    """What stands in a sentence and in those within it, without their words."""
    if isinstance(text, Said):
        for part in (*text.parts, *text.values.values()):
            yield from values(part)
    elif not isinstance(text, str) or is_telling(text):
        yield str(text)


def is_telling(value: str) -> bool:
    """Is it a name, number or place, and not words of English or the ending of one?"""
    return len(value) > 2 and (" " not in value or not set(value) & set(ascii_letters))


def of_logs() -> Iterator[str]:
    """Each log with what was found in it, the lines that speak of that, and the job."""
    logs = ((*name.split(": ", 1), log) for name, (_, log) in test_logs.logs().items())
    for source, many in groupby(logs, key=itemgetter(0)):
        yield f"##### {source}"
        for _, name, log in many:
            if lines := list(diagnosed(diagnose(list(log)))):
                yield from [f"=== {name}", *lines]


def diagnosed(found: Diagnosis) -> Iterator[str]:
    """A diagnosis, line by line."""
    for word, some in (("cause", found.causes), ("after", found.consequences), ("note", found.notes)):
        for one in some:
            told = [word, one.cause.name, *(str(seen.line) for seen in one.evidence)]
            told += [f"{one.count}x"] * (one.count != len(one.evidence))
            told += [f"of {numbers(one.ranks)}"] * bool(one.ranks) + [f"on {' '.join(one.nodes)}"] * bool(one.nodes)
            yield " ".join([*told, *values(one.detail)])
    job = found.job
    told = [f"world {job.world_size}"] * bool(job.world_size) + [f"silent {numbers(job.silent)}"] * bool(job.silent)
    told += [f"runs {job.runs}"] * (job.runs > 1) + ["ended"] * job.has_ended
    told += [
        f"{hang.sequence} {hang.operation} of {numbers(hang.waiting)} not {numbers(hang.missing)}"
        for hang in [job.hang]
        if hang
    ]
    if told:
        yield " ".join(["job", *told])


def of_broken_clusters() -> Iterator[str]:
    """Each check with the commands for every cluster that the tests break for it."""
    held = [(row.name, row.run) for row in rows()]
    for name, many in groupby(sorted(held, key=itemgetter(0)), key=itemgetter(0)):
        typed = [line for _, run in many for line in as_typed(judge(name, as_root(run)))]
        if typed:
            yield from [f"=== {name}", *dict.fromkeys(typed)]


def as_typed(findings: Iterable[Finding]) -> Iterator[str]:
    """Node, the command for now and the one that lasts; what is a remark and no command is left out."""
    for command in (command for finding in findings for command in finding.commands):
        ways = [way for way in (command.now, command.lasting) if way and not way.startswith("#")]
        yield f"{command.node}: {' || lasting: '.join(ways)}"


def numbers(ranks: Iterable[int]) -> str:
    """Ranks, in few letters."""
    return ",".join(map(str, ranks))


TABLES = {"commands": of_broken_clusters, "launch": of_launch_cases, "logs": of_logs}


def main() -> None:
    """Write all of it."""
    FOLDER.mkdir(exist_ok=True)
    for name, lines in TABLES.items():
        (FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")


if __name__ == "__main__":
    main()
