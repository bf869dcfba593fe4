"""Checks with a body of our own, and what the judge makes of them over a healthy cluster."""

from __future__ import annotations

from preflight.judge.check import Check
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.settings import Settings
from preflight.run.suite.judge import Judge
from preflight.testing import FakeRun, healthy

ALL = ("node1", "node2", "node3")


def check(function, *, kind: str = "node", name: str = "site.subject", **more) -> Check:
    """A check of one argument, the fixture of its kind."""
    return Check(name, function, (kind,), kind, **more)


def raising(error: BaseException, *, on: tuple[str, ...] = ALL):
    """A check of each node that raises on some of them."""

    def body(node):
        """It holds.

        Why it matters.
        Fix: mend
          it.
        """
        if node.name in on:
            raise error

    return body


def findings(asked: Check, run: FakeRun | None = None, ledger: Ledger | None = None, **more) -> list[Finding]:
    return Judge(run or healthy(), ledger or Ledger(), Settings(), **more).judge(asked)


def told(found: list[Finding]) -> list[tuple[str, tuple[str, ...], str]]:
    return [(str(finding.verdict), finding.nodes, finding.message) for finding in found]


def ledger_with(*verdicts: tuple[str, Verdict, str], blocked_by: str = "") -> Ledger:
    """What was judged before, each of node2 alone; the errors are consequences of `blocked_by`."""
    ledger = Ledger()
    for name, verdict, message in verdicts:
        ledger.expect(name, ["node2"])
        cause = blocked_by if verdict is Verdict.ERROR else ""
        ledger.record(Finding(name, verdict, ("node2",), message, blocked_by=cause))
    return ledger
