"""How many reported failures are told before the job, by tests that plant them raw? ``python -m tests.bench.field``.

Runs exactly the tests of tests/field/reported.py and prints what became of each row: caught by a fail, warned of, or
missed. Ends with 1 below 80 %, and where a test of a row failed or could not run here; ``--only G026,G04`` takes those
rows, and does not judge the share.
"""

from __future__ import annotations

import argparse
import sys

import pytest

from tests.field.reported import ROWS, WANTED, Row

WORDS = {"fail": "caught", "warn": "warned", "": "missed"}


class Outcomes:
    """A plugin that keeps what became of every test: "passed", "failed" or "skipped", and the reason of the last."""

    def __init__(self) -> None:
        self.of: dict[str, tuple[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self.of[report.nodeid] = (report.outcome, why)

    def trouble(self, test: str) -> str:
        """Why a test does not show its row, "" where it does; of a name without brackets all its cases count."""
        held = [found for name, found in self.of.items() if name == test or name.startswith(f"{test}[")]
        bad = [f"{outcome}: {why}".rstrip(": ") for outcome, why in held if outcome != "passed"]
        return bad[0] if bad else "" if held else "did not run"


def became(row: Row, outcomes: Outcomes) -> tuple[str, str]:
    """The word for a row, and why it is not better."""
    troubles = [f"{test} {trouble}" for test in row.tests if (trouble := outcomes.trouble(test))]
    return ("NOT SHOWN", "; ".join(troubles)) if troubles else (WORDS[row.verdict], row.why)


def main() -> int:
    """Run, print and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="beginnings of names, comma-separated")
    chosen = tuple(parser.parse_args().only.split(","))
    rows = [row for row in ROWS if row.id.startswith(chosen)]
    tests = list(dict.fromkeys(test for row in rows for test in row.tests))
    outcomes = Outcomes()
    if tests:  # -m '': those that an ordinary run leaves out, too
        pytest.main(["-q", "--no-header", "--tb=short", "-m", "", "-n0", "-p", "no:cacheprovider", *tests], [outcomes])
    found = {row.id: became(row, outcomes) for row in sorted(rows, key=lambda row: row.id)}
    for name, (word, why) in found.items():
        print(f"{name} {word:9} {why}".rstrip())
    words = [word for word, _ in found.values()]
    counts = ", ".join(f"{words.count(word)} {word}" for word in ("caught", "warned", "missed", "NOT SHOWN"))
    share = words.count("caught") / len(rows) if rows else 0.0
    print(f"{len(rows)} reported failures: {counts}; {100 * share:.1f} % are a fail before the job")
    return 1 if "NOT SHOWN" in words or (share < WANTED and chosen == ("",)) else 0


if __name__ == "__main__":
    sys.exit(main())
