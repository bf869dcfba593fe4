"""What is said of the launch files and logs that the tests have, word for word? ``python -m tests.said`` writes it.

Other tests say which rule or cause speaks; tests/data/said/ has everything that a person reads then, and its diff shows
what a change of the code changes for people. What was read of a launch file stands there as a digest.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from itertools import groupby
from typing import Any

from preflight.diagnose import diagnose
from preflight.diagnose.found import Diagnosis
from preflight.errors import UsageError
from preflight.facts.cluster import Cluster
from preflight.launch.field import Sourced, Unknown
from preflight.launch.launcher import Launcher
from preflight.launch.rules.check import check_texts
from preflight.ledger.findings import Where
from tests.diagnose import test_logs
from tests.house import ROOT
from tests.launch import truth
from tests.launch.nodes import cluster

FOLDER = ROOT / "tests" / "data" / "said"
SENTENCES = "sentences.txt"
SHORTEST_SCRIPT = 12


def short(value: Any) -> str:
    """A value in one line, without what is as it always is."""
    if isinstance(value, Where):
        return f"{value.file}:{value.line}"
    if isinstance(value, Launcher):
        return value.name
    if isinstance(value, Sourced):
        mark = {"written": "", "tool": " by the tool", "environment": " or as set"}[value.origin]
        return f"{short(value.value)}@{value.line}{mark}"
    if isinstance(value, Unknown):
        kinds = [name for name in ("varies", "in_container", "hidden") if getattr(value, name)]
        return f"?{value.expression!r}@{value.line}{''.join(f' {kind}' for kind in kinds)}"
    if is_dataclass(value):
        told = ((one.name, getattr(value, one.name), one) for one in fields(value))
        return " ".join(f"{name}={short(held)}" for name, held, one in told if not is_usual(held, one))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {short(held)}" for key, held in sorted(value.items())) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(short, value)) + "]"
    return repr(value) if isinstance(value, str) else str(value)


def is_usual(value: Any, one: Any) -> bool:
    """Is a field as it is where nothing is given?"""
    usual = one.default_factory() if one.default_factory is not MISSING else one.default
    return usual is not MISSING and value == usual


def digest(text: str) -> str:
    """Eight letters that are others for another text: what is read of a file is too much to write down."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def of_launch_files() -> Iterator[tuple[str, str]]:
    """A file's name and text for each file of cases: every finding, every plan, and why nothing was read."""
    for source, cases in groupby(truth.cases(), key=lambda case: case.source):
        lines = []
        for case in cases:
            lines.append(f"=== {case.name}")
            try:
                findings, files = check_texts(case.texts)
            except UsageError as error:
                lines.append(f"refused: {error}")
                continue
            for one in findings:
                places = " ".join(map(short, one.where))
                lines += [f"{one.verdict} {one.check} {places}", f"  {one.message}"]
                lines += [f"  fix: {one.fix}"] * bool(one.fix) + [f"  edit: {short(edit)}" for edit in one.edits]
            lines += [f"plan: {plan.launcher.name} {digest(short(plan))}" for plan in files.plans]
        yield f"launch-{source}", "\n".join(lines) + "\n"


def sentences() -> Iterator[str]:
    """Each sentence once that is said of a parameter of a test, or of the cases because the nodes do not fit them."""
    nodes = cluster(3, gpus=4, listening=(29500,), interfaces=("eth0", "eth1"), packages=())
    said = set().union(*(about(texts) for texts in parameters()))
    for case in truth.cases():
        said |= about(case.texts, nodes) - about(case.texts)
    yield from sorted(said)


def about(texts: Mapping[str, str], nodes: Cluster | None = None) -> set[str]:
    """The sentences about launch files, each in one line."""
    with suppress(UsageError):
        found = check_texts(texts, nodes)[0]
        return {f"{one.verdict} {one.check}: {one.message} | {one.fix}".replace("\n", " / ") for one in found}
    return set()


def parameters() -> Iterator[dict[str, str]]:
    """Texts by file name, and longer texts as those of a script, in the lists of parameters under tests/launch."""
    for path in sorted((ROOT / "tests/launch").rglob("test_*.py")):
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for name, function in sorted(vars(module).items()):
            for mark in getattr(function, "pytestmark", ()) if name.startswith("test_") else ():
                for value in flat(mark.args) if mark.name == "parametrize" else ():
                    if isinstance(value, str) and len(value) > SHORTEST_SCRIPT:
                        yield {"n.sh": value}
                    elif isinstance(value, dict) and all(isinstance(one, str) for one in (*value, *value.values())):
                        yield value


def flat(values: Any) -> Iterator[Any]:
    """The values in lists of lists, and in pytest.param."""
    for value in values if isinstance(values, (list, tuple)) else values.values:
        if isinstance(value, (list, tuple)) or type(value).__name__ == "ParameterSet":
            yield from flat(value)
        else:
            yield value


def of_logs() -> Iterator[tuple[str, str]]:
    """The same of each file of logs, and the words of every cause that speaks in one of them."""
    words: dict[str, str] = {}
    for source, logs in groupby(test_logs.logs().items(), key=lambda log: log[0].partition(":")[0]):
        lines = []
        for name, (_, log) in logs:
            found = diagnose(list(log))
            lines += [f"=== {name.partition(': ')[2]}", *diagnosed(found)]
            for one in (*found.causes, *found.consequences, *found.notes):
                cause = one.cause
                words[cause.name] = (
                    f"{cause.name} {cause.kind.name} {cause.check}\n  {cause.meaning}\n  fix: {cause.fix}"
                )
        yield f"logs-{source}.txt", "\n".join(lines) + "\n"
    yield "logs-words.txt", "\n".join(words[name] for name in sorted(words)) + "\n"


def diagnosed(found: Diagnosis) -> Iterator[str]:
    """A diagnosis, line by line."""
    for kind in ("causes", "consequences", "notes"):
        for one in getattr(found, kind):
            lines = " ".join(f"{seen.line}{f'/{seen.rank}' * (seen.rank >= 0)}" for seen in one.evidence)
            yield f"{kind}: {one.cause.name} {one.count}x {one.where} lines {lines} {one.detail}".rstrip()
    yield f"job: {short(found.job)}".rstrip()
    if found.collect:
        yield f"collect: {digest(short(found.collect))}"


def written(pattern: str) -> dict[str, str]:
    """What was written down, by the names of files."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob(pattern))}


def main() -> None:
    """Write all of it."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.txt"):
        path.unlink()
    for name, text in (*of_launch_files(), *of_logs()):
        (FOLDER / name).write_text(text, encoding="utf-8")
    (FOLDER / SENTENCES).write_text("\n".join(sentences()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
