"""What is found in the launch cases, logs and broken clusters of the tests? ``python -m tests.found`` writes it.

Of each finding about a launch file, alone, beside the facts of nodes, or broken in one place: verdict and rule, the
lines it points at, the nodes, the values of its sentence and of its fix, and what it would edit; of each start all its
fields. Of each log, alone and in other circumstances: the causes, their lines, ranks and nodes. Of each broken cluster,
and where more of its nodes are broken: the verdicts, the values and the commands that an operator is given. Of each
rehearsal that went wrong: the causes, their nodes, lines and names. Of each fact that is missing or another one: which
checks speak of it. Of the options, of jobs that are started and of what is measured: what tests/job/*/listed.py say. No
wording stands there, so a better sentence changes nothing, and a wrong number, line, rank, edit or command does. The
case of the same name in tests/data/launch/ or tests/diagnose/logs/, or the rows of the check in tests/checks/, say
whether a line is right.

The tests of launch files list themselves what comes of the files that they make (tests.launch.listing), words and all.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import groupby, islice
from operator import itemgetter
from string import ascii_letters
from typing import Any
from zlib import crc32

import msgspec

from preflight.diagnose import diagnose, diagnose_texts
from preflight.diagnose.cause import Cause
from preflight.diagnose.causes import CAUSES, SUBJECTS
from preflight.diagnose.found import Diagnosis, Evidence
from preflight.diagnose.hanging.stuck import compare
from preflight.diagnose.outcome import COLLECT
from preflight.facts.results.rehearsal import Rehearsal
from preflight.job.measure.rehearsal.judged import judged as judged_rehearsal
from preflight.judge.ledger.findings import Command, Finding, Verdict
from preflight.launch.read import read_texts
from preflight.launch.rules.check import check_texts
from preflight.said import Said, values_in
from preflight.said.errors import UsageError
from preflight.testing import FakeRun
from tests.checks import spread, unlike
from tests.checks.samples import Broken, check, checks, judge
from tests.diagnose import altered, test_logs
from tests.diagnose.causes import examples
from tests.diagnose.hanging import moments
from tests.house import ROOT
from tests.job.measure.rehearsal import broken as rehearsals
from tests.job.measure.rehearsal.stories import LIMITS
from tests.judge.commands.test_every_check import rows
from tests.judge.commands.typed import as_root
from tests.launch import faults, nodes, told, truth

FOLDER = ROOT / "tests" / "data" / "said"
Sections = dict[str, Callable[[], Iterator[str]]]  # part of a table -> its lines
# Of a text with words in it: options, commands, variables, numbers and paths.
CODE = re.compile(r"\S*[\d=$_/]\S*|--\S+")
# Clusters on which the launch cases are judged, each case on one of them.
OLD = {"accelerate": "0.2.1", "lightning": "1.9.0", "transformers": "4.20.0", "vllm": "0.2.0"}
CLUSTERS = (
    nodes.cluster(2, hcas=("mlx5_0",)),
    nodes.cluster(4, gpus=4, interfaces=("eth0", "eth1"), packages=("accelerate",), listening=(29500,)),
    nodes.cluster_of(nodes.node(0, gpus=0), nodes.node(1, gpus=0, packages=())),
    nodes.cluster(2, model="Tesla V100-SXM2-32GB", hcas=("mlx5_0",), packages=OLD, conf=(("NCCL_IB_USE_INLINE", "1"),)),
    nodes.cluster_of(nodes.node(0, interfaces=("ib0", "eth0")), *(nodes.node(place, gpus=2) for place in (1, 2))),
    # of which each lacks what another one tells
    nodes.cluster_of(
        *(
            nodes.without(nodes.node(place, hcas=("mlx5_0",)), *lost)
            for place, lost in enumerate(
                [("gpu", "ports"), ("network", "software"), ("rdma", "identity", "environment"), ()]
            )
        )
    ),
)
MEASURED = ("bench", "mesh", "reach", "rehearse", "training")  # subjects of checks that look at no facts
KNOWN = {cause.name: cause for cause in CAUSES}
EACH = 5  # right files in which one kind of fault is made


def of_launch_cases() -> Sections:
    """Each case with what was found in it."""
    return by_source(lambda texts: [line for one in check_texts(texts)[0] for line in as_found(one)])


def of_starts() -> Sections:
    """Each case with what was read of it."""
    return by_source(lambda texts: told.of_files(read_texts(texts)))


def of_cases_on_nodes() -> Sections:
    """Each case with what is found beside the facts of a cluster, and not in the files alone."""

    def on_nodes(texts: dict[str, str]) -> Iterator[str]:
        cluster = CLUSTERS[crc32("".join(texts.values()).encode()) % len(CLUSTERS)]
        alone = {(one.check, one.message) for one in check_texts(texts)[0]}
        found = check_texts(texts, cluster)[0]
        yield from (line for one in found if (one.check, one.message) not in alone for line in as_found(one))

    return by_source(on_nodes)


def by_source(read: Callable[[dict[str, str]], Iterable[str]]) -> Sections:
    """The launch cases of each file; of a case of one file the name is left out."""

    def lines(cases: tuple[truth.Case, ...]) -> Iterator[str]:
        for case in cases:
            found: list[str] = []
            with suppress(UsageError):
                found = list(read(case.texts))
            if found:
                (file, *others) = case.texts
                yield f"=== {case.name}"
                yield from found if others else (line.replace(f"{file}:", ":") for line in found)

    sources = groupby(truth.cases(), key=lambda case: case.source)
    return {source: partial(lines, tuple(cases)) for source, cases in sources}


def of_faults() -> Sections:
    """Each kind of fault in some right files, and what is found in them then."""
    good = [case for case in truth.cases() if not case.musts]

    def lines(fault: faults.Fault) -> Iterator[str]:
        start = crc32(fault.name.encode()) % len(good)  # other files for other kinds
        made = ((case, texts) for case in good[start:] + good[:start] for _, texts in faults.broken(case, fault))
        for case, texts in islice(made, EACH):
            yield f"=== {case.source}: {case.name}"
            with suppress(UsageError):
                yield from (line for one in check_texts(texts)[0] for line in as_found(one))

    return {fault.name: partial(lines, fault) for fault in faults.FAULTS}


def as_found(finding: Finding) -> Iterator[str]:
    """A finding, how it is put right, and its edits."""
    places = [f"{where.file}:{where.line}" for where in finding.where]
    seen = {*places, *(where.file for where in finding.where)}
    rule = finding.check.removeprefix("launch.")
    said = [one for one in values(finding.message) if one not in seen]
    yield " ".join([str(finding.verdict), rule, *places, *of_nodes(finding), *said])
    fix = [one for one in values(finding.fix) if one not in {*said, *seen}]
    yield from [f"  fix {' '.join(fix)}"] * bool(fix)
    for edit in finding.edits:
        yield f"  {edit.file}:{edit.first}-{edit.last}{'' if edit.is_sure else ' perhaps'} -> {' / '.join(edit.lines)}"


def of_nodes(finding: Finding) -> list[str]:
    """The nodes that it names."""
    return [f"on {','.join(finding.nodes)}"] * bool(finding.nodes)


def values(text: Any) -> Iterator[str]:
    """What stands in a sentence and in those within it, without their words."""
    if isinstance(text, Said):
        for part in (*text.parts, *text.values.values()):
            yield from values(part)
    elif not isinstance(text, str) or is_telling(text):
        yield str(text)
    else:
        yield from CODE.findall(text)


def is_telling(value: str) -> bool:
    """Is it a name, number or place, and not words of English or the ending of one?"""
    return len(value) > 2 and (" " not in value or not set(value) & set(ascii_letters))


def of_logs() -> Sections:
    """Each log with what was found in it, the lines that speak of that, and the job."""

    def lines(logs: list[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
        for name, log in logs:
            if found := list(diagnosed(diagnose(list(log)))):
                yield from [f"=== {name}", *found]

    logs = ((*name.split(": ", 1), log) for name, (_, log) in test_logs.logs().items())
    return {
        source: partial(lines, [(name, log) for _, name, log in many])
        for source, many in groupby(logs, key=itemgetter(0))
    }


def of_altered_logs() -> Sections:
    """Each log in other circumstances: what is said of it then, and was not before."""
    logs = test_logs.logs()

    def lines(many: list[tuple[str, str, str, dict[str, str]]]) -> Iterator[str]:
        for (source, name), ways in groupby(many, key=itemgetter(0, 1)):
            before = set(diagnosed(diagnose(list(logs[f"{source}: {name}"][1]))))
            for _, _, how, files in ways:
                told = (line for line in diagnosed(diagnose_texts(files)) if line not in before)
                yield from [f"=== {name}: {how}", *told]

    return {source: partial(lines, list(many)) for source, many in groupby(altered.altered(), key=itemgetter(0))}


def of_hanging_ranks() -> Sections:
    """Ranks that do this and that at one moment: who is named, with the sentence's values."""

    def lines(many: list[tuple[str, dict[str, Any]]]) -> Iterator[str]:
        for words, ranks in many:
            stuck = compare(ranks)
            told = [" ".join(one.name for one in stuck.guilty), numbers(stuck.missing), *values(stuck.verdict)]
            groups = "/".join(str(len(group)) for group in stuck.groups)
            traits = [name for name in ("goes_on", "hangs") if getattr(stuck, name)]
            yield f"{words}: {groups} {' '.join([*traits, *filter(None, told)])}"

    made = groupby(moments.moments(), key=itemgetter(0))
    return {first: partial(lines, [(words, ranks) for _, words, ranks in many]) for first, many in made}


def diagnosed(found: Diagnosis) -> Iterator[str]:
    """A diagnosis, line by line."""
    for word, some in (("cause", found.causes), ("after", found.consequences), ("note", found.notes)):
        for one in some:
            told = [word, one.cause.name, *graded(one.cause), *map(at, one.evidence)]
            told += [f"{one.count}x"] * (one.count != len(one.evidence))
            told += [f"of {numbers(one.ranks)}"] * bool(one.ranks) + [f"on {' '.join(one.nodes)}"] * bool(one.nodes)
            traits = ("survived", "is_after_end", "is_aftermath", "is_parting", "is_warning", "is_mild")
            told += [name for name in traits if getattr(one, name)] + [f"later {one.later}"] * bool(one.later)
            yield " ".join([*told, *values(one.detail)])
            if one.cause.name not in KNOWN:  # it is told in the words of the line
                yield f"  {one.cause.meaning.partition(': ')[2]}"
    if found.collect:
        yield f"collect {'; '.join(collected(found.collect))}"
    for word, what in (("job", found.job), ("outcome", found.outcome)):
        if told := list(of_fields(what)):
            yield " ".join([word, *told])
    yield from (f"gap {gap.file} {gap.is_read}" for gap in found.gaps)


def graded(cause: Cause) -> list[str]:
    """The kind and weight that a cause counts with here, where that is not what it is by itself."""
    usual = KNOWN.get(cause.name)
    is_usual = usual is not None and (cause.kind, cause.weight) == (usual.kind, usual.weight)
    return [] if is_usual else [f"{cause.kind.name.lower()}:{cause.weight}"]


def collected(steps: Iterable[str]) -> Iterator[str]:
    """What to gather next: of what is always asked for only that it is."""
    for step in steps:
        told = "usual" if step in COLLECT else " ".join(values(step)) or "more"
        if told != "usual" or step == COLLECT[0]:
            yield told


def at(seen: Evidence) -> str:
    """The line, when it was printed and at which stage of the job."""
    when = f"@{seen.seconds:.10g}" if seen.seconds >= 0 else ""
    return f"{seen.line}{when}{f'/{seen.stage.name.lower()}' if seen.stage else ''}"


def of_fields(value: Any) -> Iterator[str]:
    """The fields of a value that say something, without their words."""
    for one in msgspec.structs.fields(value) if isinstance(value, msgspec.Struct) else dataclasses.fields(value):
        held, usual = getattr(value, one.name), one.default
        if held and held != usual:
            yield f"{one.name}={' '.join(of_value(held))}"


def of_value(value: Any) -> Iterator[str]:
    """What stands in a value, however deep."""
    if dataclasses.is_dataclass(value):
        yield f"({' '.join(of_fields(value))})"
    elif isinstance(value, dict):
        yield from (f"{key}:{' '.join(of_value(held))}" for key, held in value.items())
    elif isinstance(value, tuple | list):
        for part in value:
            yield from of_value(part)
    elif isinstance(value, str):
        yield from values(value)
    else:
        yield str(value)


def of_lines() -> Sections:
    """Each line by which a cause is known, subject by subject: what is found in it alone, equal ones in a row once."""
    subject_of = {cause.name: subject for subject, causes in SUBJECTS.items() for cause in causes}

    def lines(some: list[str]) -> Iterator[str]:
        for found, many in groupby(" | ".join(diagnosed(diagnose([line]))) for line in some):
            yield f"{len(list(many))}x {found}"

    of: dict[str, list[str]] = defaultdict(list)
    for cause, line in examples.examples():
        of[subject_of.get(cause, "signals")].append(line)
    return {subject: partial(lines, some) for subject, some in sorted(of.items())}


def of_broken_clusters() -> Sections:
    """Each check with what it says of every cluster that the tests break for it, and the commands."""

    def lines(broken: list[Broken]) -> Iterator[str]:
        for name, many in groupby(broken, key=lambda row: row.name):
            runs = [run for row in many for run in (row.run, as_root(row.run))]
            typed = [line for run in runs for one in judge(name, run) for line in as_judged(one)]
            yield from [f"=== {name}", *dict.fromkeys(typed)]

    held = sorted(rows(), key=lambda row: row.name)
    by_subject = groupby(held, key=lambda row: row.name.partition(".")[0])
    return {subject: partial(lines, list(many)) for subject, many in by_subject}


def of_spread_faults() -> Sections:
    """Each check with what it says where more nodes have the fault, or other systems: what is new of it each time."""

    def lines(broken: list[Broken]) -> Iterator[str]:
        for name, many in groupby(broken, key=lambda row: row.name):
            held = list(many)
            told = {line for row in held for line in as_spread(judge(name, row.run))}
            for how, run in (made for row in held for made in (*spread.spreads(row), *spread.platforms(row))):
                if new := [line for line in as_spread(judge(name, run)) if line not in told]:
                    yield from [f"=== {name}, {how}", *new]
                    told |= set(new)

    every = sorted(rows(), key=lambda row: row.name)
    by_subject = groupby(every, key=lambda row: row.name.partition(".")[0])
    return {subject: partial(lines, list(many)) for subject, many in by_subject if subject not in MEASURED}


def of_unlike_clusters() -> Sections:
    """Each cluster of unlike nodes with what the checks of nodes say of it, and not of that which it was made from."""

    def lines(make: Callable[[], FakeRun], usual: Callable[[], FakeRun]) -> Iterator[str]:
        run, alike = make(), usual()
        for name in [name for name in checks() if check(name).kind in ("node", "cluster", "ending")]:
            before = {of_all(line, alike) for line in as_spread(judge(name, alike))}
            told = [of_all(line, run) for line in as_spread(judge(name, run))]
            if new := [line for line in told if line not in before]:
                yield from [f"=== {name}", *new]

    return {name: partial(lines, *made) for name, made in unlike.UNLIKE.items()}


def of_all(line: str, run: FakeRun) -> str:
    """The line, without the names where it is of all nodes."""
    return line.replace(f"on {','.join(run.names)}", "on all")


def as_spread(findings: list[Finding]) -> Iterator[str]:
    """What is no pass, each command with the nodes that are given it."""
    for one in findings:
        if one.verdict is not Verdict.PASS:
            told = list(values(one.message))
            yield " ".join([str(one.verdict), *of_nodes(one), *told])
            yield from as_advised(one, told)
            of: dict[str, list[str]] = defaultdict(list)
            for command in one.commands:
                of[typed(command)].append(command.node)
            yield from (f"  {','.join(nodes)}: {way}" for way, nodes in of.items() if way)


def typed(command: Command) -> str:
    """What to type now and what lasts, without mere remarks."""
    return " || lasting: ".join(way for way in (command.now, command.lasting) if way and not way.startswith("#"))


def of_planted_facts() -> Sections:
    """Each field of a node's facts that is missing or another one, and the checks that speak of it then."""
    from tests import planted  # which has our `values`

    return planted.sections()


def of_job(part: str) -> Sections:
    """What tests/job/PART/listed.py says of a part of a job."""
    sections: Callable[[], Sections] = import_module(f"tests.job.{part}.listed").sections  # it has our `values`
    return sections()


def as_judged(finding: Finding) -> Iterator[str]:
    """Verdict, nodes and values; for each node the command for now and the one that lasts, without mere remarks."""
    told = list(values(finding.message))
    rows = dict.fromkeys(values_in(finding.message, "about"))  # of tables, by which commands are looked up
    about = [f"({', '.join(map(str, rows))})"] * bool(rows)
    yield " ".join([str(finding.verdict), *about, *of_nodes(finding), *told])
    yield from as_advised(finding, told)
    yield from (f"  {command.node}: {typed(command)}" for command in finding.commands)


def as_advised(finding: Finding, told: list[str]) -> Iterator[str]:
    """What the advice names, and the finding did not."""
    fix = [one for one in values(finding.fix) if one not in told]
    yield from [f"  fix {' '.join(fix)}"] * bool(fix)


def of_rehearsals() -> Sections:
    """Each rehearsal in which one thing went wrong: its causes, and what else differs from the one before it."""

    def lines(some: dict[str, rehearsals.Broken]) -> Iterator[str]:
        before: list[str] = []
        for name, make in some.items():
            story, cast = make()
            found = judged_rehearsal(story, cast, dict.fromkeys(story.nodes, LIMITS), backend="gloo")
            came = list(as_come(found))
            yield from [f"=== {name}", *as_rehearsed(found), *(line for line in came if line not in before)]
            before = came

    return {subject: partial(lines, some) for subject, some in rehearsals.BROKEN.items()}


def as_rehearsed(found: Rehearsal) -> Iterator[str]:
    """The causes, each with the lines and names that it is about."""
    for cause in found.causes:
        traits = [name for name in ("is_advisory", "is_unmeasured") if getattr(cause, name)]
        yield " ".join([f"{cause.about} on {','.join(cause.nodes)}", *traits, *values(cause.message)])
        fix = list(values(cause.fix))
        yield from [f"  fix {' '.join(fix)}"] * bool(fix)
        about = [*(f"{file}:{line}" for file, line in cause.where), *cause.names]
        yield from [f"  about {' '.join(about)}"] * bool(about)


def as_come(found: Rehearsal) -> Iterator[str]:
    """What could not be judged, how far each script and rank came, and how long that took."""
    for about, reasons in found.unjudged.items():
        yield f"unjudged {about} {' '.join(f'{node}:{why}' for node, why in reasons.items())}"
    for script in found.scripts:
        yield f"script {' '.join(of_fields(script))}"
    for rank in found.ranks:
        yield f"rank {' '.join(of_fields(rank))}"


def numbers(ranks: Iterable[int]) -> str:
    """Ranks, in few letters."""
    return ",".join(map(str, ranks))


TABLES: dict[str, Callable[[], Sections]] = {
    "altered": of_altered_logs,
    "gathered": partial(of_job, "collect"),
    "clusters": of_broken_clusters,
    "faults": of_faults,
    "hangs": of_hanging_ranks,
    "launch": of_launch_cases,
    "lines": of_lines,
    "logs": of_logs,
    "measured": partial(of_job, "measure"),
    "nodes": of_cases_on_nodes,
    "options": partial(of_job, "options"),
    "planted": of_planted_facts,
    "ranked": partial(of_job, "ranks"),
    "rehearsals": of_rehearsals,
    "spread": of_spread_faults,
    "started": partial(of_job, "start"),
    "starts": of_starts,
    "unlike": of_unlike_clusters,
}


def listed(name: str) -> dict[str, list[str]]:
    """A table as it was written: section -> lines."""
    _, *parts = f"\n{(FOLDER / f'{name}.txt').read_text(encoding='utf-8')}".split("\n##### ")
    return {head: lines for head, *lines in (part.removesuffix("\n").split("\n") for part in parts)}


def main() -> None:
    """Write all of it, or the tables that are named."""
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or TABLES:
        held = ((head, "\n".join(part())) for head, part in TABLES[name]().items())
        text = "".join(f"##### {head}\n{lines}\n" for head, lines in held)
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8", newline="\n")
    # pytest rewrites what it imports itself: nothing of that may have been imported before
    subprocess.run([sys.executable, "-c", "from tests.launch import listing; listing.write()"], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
