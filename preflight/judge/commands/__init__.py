"""Which command puts a node right, where the facts hold the right value?

    with_commands(finding, cluster) -> the finding, with a command for each node that has one

A row is a function of one node, the cluster and a sentence of the finding. It gives what to run there now, and what
makes it last; where the facts lack the value it raises FactMissing, and the check's own words remain. Its key is the
check, or the check and what the sentence is ``about``: the row of a table that judged it. A word of the sentence is
never read, only the values in it and those that are known of it. Nothing here is ever run by preflight. Every value
is quoted for the shell: a hostile name stays one word, and a name with invisible characters gives no command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from preflight.facts.cluster import Cluster
from preflight.judge.commands import (
    clock,
    environment,
    files,
    filters,
    gpu,
    kernel,
    limits,
    master,
    names,
    network,
    rdma,
    software,
    trust,
)
from preflight.judge.commands.tried import TRIED
from preflight.judge.commands.words import Case, Row
from preflight.judge.ledger.findings import Command, Finding, Verdict
from preflight.said import sentences_of, values_in
from preflight.said.errors import FactMissing, NotApplicable

MOST_PARTS = 16
ROWS: Mapping[str, Row] = {
    **network.ROWS,
    **names.ROWS,
    **filters.ROWS,
    **master.ROWS,
    **environment.ROWS,
    **software.ROWS,
    **gpu.ROWS,
    **rdma.ROWS,
    **kernel.ROWS,
    **limits.ROWS,
    **files.ROWS,
    **trust.ROWS,
    **clock.ROWS,
}


def with_commands(finding: Finding, cluster: Cluster) -> Finding:
    """The finding with the commands that its nodes need; unchanged where it is not a fault, or no command is known."""
    if finding.blocked_by or finding.verdict not in (Verdict.FAIL, Verdict.WARN):
        return finding
    found: dict[Command, None] = {}
    nodes = cluster if finding.check in master.OF_ALL_NODES else cluster.among(finding.nodes)
    # Several rows of a check about the same nodes make one message.
    for sentence in islice(sentences_of(finding.message), MOST_PARTS):
        rows = _rows(finding.check, sentence)
        worked_out: dict[str, Any] = {}
        for node in nodes if rows else ():
            command = _command(rows, Case(node, cluster, sentence, worked_out))
            if command is not None:
                found[command] = None
    return replace(finding, commands=tuple(found)) if found else finding


def _command(rows: list[str], case: Case) -> Command | None:
    for row in rows:
        try:
            remedy = ROWS[row](case)
        except (FactMissing, NotApplicable):
            continue
        if not f"{remedy.now}{remedy.lasting}".isprintable():
            continue  # quoted it would still be a line of its own in the file that the command writes
        return Command(case.node.name, remedy.now, remedy.lasting, remedy.is_for_job, row, row in TRIED)
    return None


def _rows(check: str, sentence: str) -> list[str]:
    """The row of a check for what the sentence is about, and the one for whatever it may be about."""
    about = next(values_in(sentence, "about"), "")
    return [row for row in (f"{check}: {about}", check) if row in ROWS]
