"""What does one check say of a made-up cluster?"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from preflight.judge.check import Check
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.settings import Settings
from preflight.run.suite.existing import check_id
from preflight.run.suite.items import check_of_function, contained
from preflight.run.suite.judge import Judge
from preflight.testing.fake import FakeRun


@dataclass(frozen=True)
class Judged:
    """The findings of one check: every node of the run is in exactly one of them."""

    findings: tuple[Finding, ...]

    @property
    def passes(self) -> bool:
        """Whether every node passes."""
        return {finding.verdict for finding in self.findings} == {Verdict.PASS}

    @property
    def passes_on(self) -> tuple[str, ...]:
        """The nodes where it was measured, and holds."""
        return self._nodes(Verdict.PASS)

    @property
    def warns_on(self) -> tuple[str, ...]:
        """The nodes that an advisory check names."""
        return self._nodes(Verdict.WARN)

    @property
    def fails_on(self) -> tuple[str, ...]:
        """The nodes where it was measured, and does not hold."""
        return self._nodes(Verdict.FAIL)

    @property
    def errors_on(self) -> tuple[str, ...]:
        """The nodes where it was not measured: a fact is missing, or the check itself broke."""
        return self._nodes(Verdict.ERROR)

    @property
    def skips_on(self) -> tuple[str, ...]:
        """The nodes to which it does not apply."""
        return self._nodes(Verdict.SKIP)

    @property
    def message(self) -> str:
        """What it says of the nodes that do not pass; "" where all pass."""
        return "; ".join(finding.message for finding in self._notable())

    @property
    def fix(self) -> str:
        """What it advises for the nodes that do not pass."""
        return "; ".join(dict.fromkeys(finding.fix for finding in self._notable() if finding.fix))

    def _notable(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict is not Verdict.PASS]

    def _nodes(self, verdict: Verdict) -> tuple[str, ...]:
        return tuple(node for finding in self.findings if finding.verdict is verdict for node in finding.nodes)


def judged(
    check: Callable[..., None], cluster: FakeRun, *, settings: Settings | None = None, **fixtures: Any
) -> Judged:
    """Judge one check function alone, as a run would; `fixtures` are those of the check that are not preflight's."""
    asked = check_of(check, **fixtures)
    return Judged(tuple(Judge(cluster, Ledger(), settings or Settings()).judge(asked)))


def check_of(function: Callable[..., None], **fixtures: Any) -> Check:
    """A check function as a run hands it to the judge, with its marks; its id is that of its file and name."""
    name = check_id(Path(inspect.getfile(function)), function.__name__)
    return replace(check_of_function(name, function), function=contained(function), others=fixtures)
