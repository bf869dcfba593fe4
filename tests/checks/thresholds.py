"""At which figure of a node does each check begin to speak? ``python -m tests.checks.thresholds`` finds it.

Where tests/data/said/planted.txt tells that a check speaks of another figure of one field, the edge lies between that
figure and the one that is well. It is written to tests/data/said/edges.txt: check, field, the last figure that is well
and the first that is not, as near to it as a whole number or a billionth may be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from preflight.judge.ledger.findings import Verdict
from preflight.testing import FakeRun
from tests import found as said
from tests import planted
from tests.checks.samples import check, judge

FILE = said.FOLDER / "edges.txt"
BASES = ("roce", "full", "infiniband")
MEASURED = ("bench", "training")  # in place of a subject, what a run measured: each figure needs a run of its own
FIRST, BOTH = "first", "both"
KINDS = ("node", "cluster", "ending")
# Checks that compare nodes speak of any difference: they have no edge.
COMPARING = re.compile(r"same|alike|agree|unique|in_step|drifted|one_id|_every_other|near|names_on")
WORDS = ("0", "half", "one more", "twice")
ROUNDS = 12
BAD = (Verdict.WARN, Verdict.FAIL)


@dataclass(frozen=True)
class Edge:
    """One check, and two figures of one field of a subject."""

    base: str
    check: str
    subject: str
    field: str
    well: float
    bad: float

    def __str__(self) -> str:
        return f"{self.base} {self.check} {self.subject} {self.field} {self.well!r} {self.bad!r}"


def listed() -> Iterator[Edge]:
    """The edges that were written down."""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        base, name, subject, field, well, bad = line.split(" ")
        yield Edge(base, name, subject, field, number(well), number(bad))


def number(text: str) -> float:
    """A whole one where it is written so."""
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def value_of(facts: Any, parts: list[str]) -> Any:
    """What stands in a field, however deep: of a list in its last item or its `first`, of a table in its first."""
    if isinstance(facts, dict):
        return value_of(next(iter(facts.values())), parts)
    if isinstance(facts, tuple) and not planted.is_named(facts):
        return value_of(facts[0], parts[1:]) if parts[:1] == [FIRST] else value_of(facts[-1], parts)
    return value_of(getattr(facts, parts[0]), parts[1:]) if parts else facts


def with_value(facts: Any, parts: list[str], value: float) -> Any:
    """The facts with another figure there."""
    if isinstance(facts, dict):
        key = next(iter(facts))
        return {**facts, key: with_value(facts[key], parts, value)}
    if isinstance(facts, tuple) and not planted.is_named(facts):
        if parts[:1] == [FIRST]:
            return (with_value(facts[0], parts[1:], value), *facts[1:])
        return (*facts[:-1], with_value(facts[-1], parts, value))
    if not parts:
        return value
    changed = {parts[0]: with_value(getattr(facts, parts[0]), parts[1:], value)}
    return facts._replace(**changed) if planted.is_named(facts) else msgspec.structs.replace(facts, **changed)


def spoken(healthy: FakeRun, name: str, held: Iterable[tuple[str, str, float]]) -> list[bool]:
    """Whether a check speaks of each of some figures (subject, field, figure), one on each node but the first."""
    run, every = healthy, list(held)
    if every and every[0][0] in MEASURED:
        return [speaks_of_measured(healthy, name, *one) for one in every]
    for node, (subject, field, value) in zip(healthy.names[1:], every, strict=False):
        run = run.with_subject(node, subject, with_value(run.subjects[node][subject], field.split("."), value))
    blamed = {node for one in judge(name, run) if one.verdict in BAD for node in one.nodes}
    return [node in blamed for node in healthy.names[1 : len(every) + 1]]


def speaks_of_measured(healthy: FakeRun, name: str, kind: str, field: str, value: float) -> bool:
    """Whether a check speaks where one figure of what was measured is another."""
    measured = with_value(getattr(healthy, f"measured_{kind}"), field.split("."), value)
    return any(one.verdict in BAD for one in judge(name, replace(healthy, **{f"measured_{kind}": measured})))


def starts() -> Iterator[tuple[str, str, str, str, str]]:
    """Base, check, subject, field and word of the figures of which a check is known to speak."""
    for head, lines in said.listed("planted").items():
        base, subject, *kind = head.split(" ")
        if base not in BASES or (kind != ["changed"] and subject not in MEASURED):
            continue
        for line in lines:
            spoken_of, arrow, fields = line.rpartition(" <- ")
            words = spoken_of.split(" ")
            if arrow and words[0] in ("warn", "fail") and (subject in MEASURED or is_asked(words[1])):
                for field, _, word in (one.partition("=") for one in fields.split("; ")):
                    if word in WORDS and BOTH not in field.split("."):
                        yield base, words[1], subject, field, word


def is_asked(name: str) -> bool:
    """Does a check judge each node by itself?"""
    return check(name).kind in KINDS and COMPARING.search(name) is None


def edge(base: str, name: str, subject: str, field: str, word: str) -> Edge | None:
    """Where between what is well and the figure of that word the check begins to speak; None where it is no figure."""
    is_measured = subject in MEASURED
    healthy = planted.cluster_of(base, size_of(subject))
    held = getattr(healthy, f"measured_{subject}") if is_measured else healthy.subjects["node2"][subject]
    well = value_of(held, field.split("."))
    if isinstance(well, bool) or not isinstance(well, int | float):
        return None
    bad = type(well)(dict(planted.others(well)).get(word, well))
    for _ in range(ROUNDS * (3 if is_measured else 1)):
        if well == bad or (isinstance(well, int) and abs(bad - well) == 1):
            break
        if isinstance(well, float) and abs(bad - well) <= 1e-9 * max(abs(bad), abs(well)):
            break
        values = between(well, bad, 3 if is_measured else planted.NODES - 1)
        heard = spoken(healthy, name, [(subject, field, value) for value in values])
        first = heard.index(True) if True in heard else len(values)
        well, bad = ([well, *values][first], [*values, bad][first])
    return Edge(base, name, subject, field, well, bad)


def size_of(subject: str) -> int:
    """How many nodes a cluster has, of which each may have another figure."""
    return planted.SMALL if subject in MEASURED else planted.NODES


def between(well: float, bad: float, most: int) -> list[float]:
    """Figures between two, and the round one that is nearest to the second, in order."""
    if isinstance(well, int) and isinstance(bad, int):
        step = 1 if bad > well else -1
        count = min(most, abs(bad - well) - 1)
        return sorted(
            {well + step * (abs(bad - well) * n // (count + 1)) for n in range(1, count + 1)} - {well, bad},
            reverse=step < 0,
        )
    made = [well + (bad - well) * n / most for n in range(1, most)]
    round_one = float(f"{bad:.3g}")
    low, high = min(well, bad), max(well, bad)
    made += [round_one] * (low < round_one < high)
    return sorted(set(made), reverse=bad < well)


def main() -> None:
    """Write all of them."""
    every: dict[tuple[str, str, str, str], Edge] = {}
    for base, name, subject, field, word in starts():
        found = edge(base, name, subject, field, word)
        if found is not None and found.well != found.bad:
            direction = str(found.bad > found.well)
            key = (name, subject, field, direction)
            if key not in every:
                every[key] = found
                print(found, flush=True)
    FILE.write_text("".join(f"{one}\n" for one in every.values()), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
