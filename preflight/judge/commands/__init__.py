"""Which command puts a node right, where the facts tell the right value?

    with_commands(finding, cluster) -> the finding, with a command for each node that has one

A row is a function of one node and the cluster. It gives what to run there now, and what makes it last; where the
facts do not tell the value it raises FactMissing, and the check's own words stand alone. Nothing here is ever run by
preflight. Every value is quoted for the shell: a hostile name stays a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from preflight.errors import FactMissing, NotApplicable
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.judge.commands import clock, limits, names, network
from preflight.ledger.findings import Command, Finding, Verdict

ROWS: Mapping[str, Callable[[NodeFacts, Cluster], tuple[str, str]]] = {
    **network.ROWS,
    **names.ROWS,
    **limits.ROWS,
    **clock.ROWS,
}


def with_commands(finding: Finding, cluster: Cluster) -> Finding:
    """The finding with the commands that its nodes need; itself where it is no fault, or none is known."""
    row = ROWS.get(finding.check)
    if row is None or finding.blocked_by or finding.verdict not in (Verdict.FAIL, Verdict.WARN):
        return finding
    found = []
    for node in cluster:
        if node.name in finding.nodes:
            try:
                now, lasting = row(node, cluster)
            except (FactMissing, NotApplicable):
                continue
            found.append(Command(node.name, now, lasting))
    return replace(finding, commands=tuple(found)) if found else finding
