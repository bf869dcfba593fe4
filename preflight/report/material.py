"""What do the formats draw from: the report, every node's facts in words, and the logs?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from preflight.report.document import RunReport


@dataclass(frozen=True)
class Material:
    """A run as a format sees it.

    `facts` holds, for every node that answered, title -> value as `preflight facts` words them, `logs` the output of
    every rank by the name of its file. Only report.html shows the two; where they are empty it says so.
    """

    report: RunReport
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
