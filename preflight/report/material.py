"""What do the formats draw from: the report, every node's facts in words, and the logs?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from preflight.judge.ledger.findings import Finding
from preflight.report.document import RunReport
from preflight.report.language import ENGLISH, Language


@dataclass(frozen=True)
class Material:
    """A run as a format sees it.

    `facts` holds, for every node that answered, title -> value as `preflight facts` words them, `logs` the output of
    every rank by the name of its file. Only report.html shows the two; where they are empty it says so.
    """

    report: RunReport
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    language: Language = ENGLISH  # of the formats for people: report.html, report.md


def in_language(report: RunReport, language: Language) -> RunReport:
    """The report with the words of its findings and notes in a language; its names and figures are the same."""
    if language is ENGLISH:
        return report
    return msgspec.structs.replace(
        report,
        findings=tuple(_reported(finding, language) for finding in report.findings),
        notes=tuple(language.say(note) for note in report.notes),
        not_asked={language.say(reason): checks for reason, checks in report.not_asked.items()},
    )


def _reported(finding: Finding, language: Language) -> Finding:
    return replace(finding, message=language.say(finding.message), fix=language.say(" ".join(finding.fix.split())))
