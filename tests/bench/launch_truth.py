"""How much of what is said about launch files is true, and how much of what is wrong with them is said?

python -m tests.bench.launch_truth            a table over tests/data/launch/*.txt
python -m tests.bench.launch_truth sbatch     the files whose names hold this word
"""

from __future__ import annotations

import sys
from collections import Counter

from preflight.launch.rules.check import check_texts
from preflight.said.errors import UsageError
from tests.launch import truth

PRECISION, RECALL = 0.95, 0.85


def main() -> int:
    """Print what is false and missing, and a row for each file of cases; 1 where a goal is missed."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    counts: dict[str, Counter[str]] = {}
    for case in truth.cases():
        if word not in case.source:
            continue
        try:
            findings = check_texts(case.texts)[0]
        except UsageError as error:
            print(f"{case.source}: {case.name}: refused: {error}")
            findings = ()
        scored = truth.score(case, findings)
        row = counts.setdefault(case.source, Counter())
        row.update(cases=1, good=not case.musts, found=len(scored.found), missed=len(scored.missed))
        row.update(false=len(scored.false))
        for missed in scored.missed:
            print(f"{case.source}: {case.name}: missed {missed}")
        for false in scored.false:
            print(f"{case.source}: {case.name}: false {false}")
    total = sum(counts.values(), Counter())
    print(
        f"{'file':<20} {'cases':>6} {'good':>6} {'found':>6} {'missed':>7} {'false':>6} {'precision':>10} {'recall':>7}"
    )
    for name, row in (*sorted(counts.items()), ("all", total)):
        shown = " ".join(
            f"{row[key]:>{wide}}" for key, wide in (("cases", 6), ("good", 6), ("found", 6), ("missed", 7))
        )
        print(f"{name:<20} {shown} {row['false']:>6} {precision(row):>10.1%} {recall(row):>7.1%}")
    return 0 if precision(total) >= PRECISION and recall(total) >= RECALL else 1


def precision(row: Counter[str]) -> float:
    """The share of what was told that is true."""
    told = row["found"] + row["false"]
    return row["found"] / told if told else 1.0


def recall(row: Counter[str]) -> float:
    """The share of what is wrong that was told."""
    wrong = row["found"] + row["missed"]
    return row["found"] / wrong if wrong else 1.0


if __name__ == "__main__":
    sys.exit(main())
