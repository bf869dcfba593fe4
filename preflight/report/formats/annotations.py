"""How does a pull request show findings on the lines that they speak of: GitHub's annotations, and SARIF?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from preflight import __version__
from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.reach.hosts import fold
from preflight.report.files import plain_ascii
from preflight.report.printable import printable, without_surrogates

GITHUB = {Verdict.FAIL: "error", Verdict.ERROR: "error", Verdict.WARN: "warning", Verdict.SKIP: "notice"}
SARIF = {Verdict.FAIL: "error", Verdict.ERROR: "error", Verdict.WARN: "warning", Verdict.SKIP: "note"}
PLACES = 3  # of one finding: GitHub shows ten annotations of a kind for each step
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def github_text(findings: Iterable[Finding]) -> str:
    """A workflow command for each line that a finding points at."""
    return "".join(
        f"::{GITHUB[finding.verdict]} file={_property(where.file)},line={max(where.line, 1)}"
        f",title={_property(finding.check)}::{_data(_message(finding))}\n"
        for finding in findings
        if finding.verdict in GITHUB
        for where in finding.where[:PLACES]
    )


def _message(finding: Finding) -> str:
    nodes = f"{fold(finding.nodes)}: " if finding.nodes else ""
    fix = f"\nFix: {finding.fix}" if finding.fix else ""
    return printable(f"{nodes}{finding.message}{fix}", keep_newlines=True)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """What stands before the second ``::`` is split at commas and colons."""
    return _data(printable(text, keep_newlines=True)).replace(":", "%3A").replace(",", "%2C")


def sarif_text(findings: Iterable[Finding]) -> str:
    """The findings as a SARIF log, which code scanning of GitHub, GitLab and editors read."""
    shown = [finding for finding in findings if finding.verdict in SARIF]
    rules = [{"id": rule} for rule in dict.fromkeys(finding.check for finding in shown)]
    driver = {"name": "preflight", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [_result(one) for one in shown]}
    return plain_ascii(json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)) + "\n"


def _result(finding: Finding) -> dict[str, Any]:
    return {
        "ruleId": finding.check,
        "level": SARIF[finding.verdict],
        "message": {"text": _message(finding)},
        "locations": [_location(where) for where in finding.where],
    }


def _location(where: Where) -> dict[str, Any]:
    file = without_surrogates(where.file)
    uri = quote(file if not file.startswith("/") else f"file://{file}", safe="/:")
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": max(where.line, 1)}}}
