"""Can a ledger that passes be damaged so that it passes still? ``python -m tests.bench.ledger``: 10,000 ways.

A cell's verdict is lost, taken back, doubled, moved to another node or check, made worse, or of another type; a whole
finding goes, or the cell it belongs to. Whatever is done, the exit code must not be 0.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.ledger import Ledger

MUTATIONS = 10_000


def passing(chance: random.Random) -> Ledger:
    """A ledger of some checks on some nodes, all of them judged, none of them badly."""
    ledger = Ledger()
    nodes = [f"node{number}" for number in range(1, chance.randint(1, 6) + 1)]
    for number in range(chance.randint(1, 12)):
        check = f"a.check_{number}"
        ledger.expect(check, nodes)
        split = chance.randint(0, len(nodes))
        good = Verdict.PASS if not number else chance.choice((Verdict.PASS, Verdict.WARN, Verdict.SKIP))
        for part, verdict in ((nodes[:split], good), (nodes[split:], Verdict.PASS)):
            if part:
                ledger.record(Finding(check, verdict, tuple(part), "m"))
    return ledger


def lose_finding(ledger: Ledger, chance: random.Random) -> None:
    """What was recorded is gone from the list."""
    ledger._recorded.pop(chance.randrange(len(ledger._recorded)))


def lose_cell(ledger: Ledger, chance: random.Random) -> None:
    """A cell has no verdict any more."""
    check = chance.choice(sorted(ledger._open))
    ledger._open[check].add(chance.choice(sorted(ledger.expected[check])))


def expect_more(ledger: Ledger, chance: random.Random) -> None:
    """A further cell should have been judged."""
    check = chance.choice(sorted(ledger.expected))
    node = chance.choice(sorted(ledger.expected[check]))
    ledger.expect(*chance.choice([(check, ["another"]), ("another.check", [node])]))


def expect_less(ledger: Ledger, chance: random.Random) -> None:
    """What was judged was never expected."""
    check = chance.choice(sorted(ledger.expected))
    ledger.expected[check] -= {chance.choice(sorted(ledger.expected[check]))}


def change(**fields: Callable[[Finding, random.Random], Any]) -> Callable[[Ledger, random.Random], None]:
    """A finding says something else."""

    def mutate(ledger: Ledger, chance: random.Random) -> None:
        place = chance.randrange(len(ledger._recorded))
        finding = ledger._recorded[place]
        ledger._recorded[place] = replace(finding, **{name: make(finding, chance) for name, make in fields.items()})

    return mutate


def fewer_nodes(finding: Finding, chance: random.Random) -> tuple[str, ...]:
    """One node is left out."""
    gone = chance.choice(finding.nodes)
    return tuple(node for node in finding.nodes if node != gone)


def record_twice(ledger: Ledger, chance: random.Random) -> None:
    """A second verdict of a cell, which must be refused or count."""
    finding = chance.choice(ledger._recorded)
    ledger.record(replace(finding, verdict=chance.choice((Verdict.PASS, Verdict.SKIP)), nodes=finding.nodes[:1]))


MUTATIONS_OF = {
    "finding lost": lose_finding,
    "cell lost": lose_cell,
    "cell added": expect_more,
    "cell never expected": expect_less,
    "made worse": change(verdict=lambda _, chance: chance.choice((Verdict.FAIL, Verdict.ERROR))),
    "of another node": change(nodes=lambda finding, _: (*finding.nodes[1:], "elsewhere")),
    "of one node less": change(nodes=fewer_nodes),
    "of one node more": change(nodes=lambda finding, _: (*finding.nodes, "elsewhere")),
    "of another check": change(check=lambda finding, _: finding.check + "_"),
    "recorded twice": record_twice,
}


def survivor(seed: int) -> str:
    """What was done to a ledger that passes all the same; "" where it no longer does."""
    chance = random.Random(seed)
    ledger = passing(chance)
    if ledger.exit_code() != 0:
        return f"seed {seed}: the ledger did not pass to begin with"
    name = chance.choice(sorted(MUTATIONS_OF))
    try:
        MUTATIONS_OF[name](ledger, chance)
    except (ValueError, TypeError):  # the ledger refused it
        return ""
    return f"seed {seed}: {name}" if ledger.exit_code() == 0 else ""


def main() -> int:
    """Damage as many ledgers as asked for; 1 where one passes all the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=MUTATIONS)
    count = parser.parse_args().count
    found = [words for seed in range(count) if (words := survivor(seed))]
    print("\n".join([*found[:20], f"{count} damaged ledgers, {len(found)} pass"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
