"""How do the findings on launch files enter the ledger of a run?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from preflight.facts.cluster import Cluster
from preflight.judge.ledger.findings import SEVERITY, Finding, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.launch.plan import LaunchFiles
from preflight.said import joined, said

JUDGED = "launch.files_are_judged"


def record(ledger: Ledger, files: LaunchFiles, cluster: Cluster, names: tuple[str, ...]) -> dict[str, Any]:
    """Judge the launch files against the cluster, write the verdicts down, and give the report's section.

    A rule speaks once of a node: what it says of several lines becomes one finding with all of them.
    """
    from preflight.launch.rules.check import check_files  # here, as a run without launch files needs neither
    from preflight.launch.seats import section

    for finding in merged(check_files(files, cluster), names):
        ledger.expect(finding.check, finding.nodes)
        ledger.record(finding)
    ledger.expect(JUDGED, names)
    count = len(files.plans)
    open_ends = [f"{skip.file}:{skip.line}: {skip.reason}" for skip in files.unjudged if not skip.is_template]
    open_ends += [
        f"{unset.where.file}:{unset.where.line}: ${unset.name} is set nowhere in these files"
        for plan in files.plans
        for unset in plan.unset
        if unset.holds != "argument"  # the program's own, which a warning tells: ranks and their places are known
    ]
    if open_ends:
        message = said("a start in the launch files could not be judged: {open_ends}", joined(open_ends[:4]))
        ledger.record(Finding(JUDGED, Verdict.ERROR, names, message))
    elif files.are_judged:
        words = said("{count} start{s} of a job read from the files", count, "s" * (count != 1))
        ledger.record(Finding(JUDGED, Verdict.PASS, names, words))
    else:
        reasons = joined(
            [said("{file}:{line}: {reason}", skip.file, skip.line, skip.reason) for skip in files.skips[:4]]
        )
        ledger.record(
            Finding(
                JUDGED, Verdict.ERROR, names, said("nothing in the launch files could be judged: {reasons}", reasons)
            )
        )
    return section(files, cluster)


def merged(findings: Iterable[Finding], names: tuple[str, ...]) -> list[Finding]:
    """The findings with those of one rule that share a node made one; a finding about no node is about all."""
    of_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        whole = finding if finding.nodes else replace(finding, nodes=names)
        earlier = of_rule.setdefault(finding.check, [])
        sharing = [other for other in earlier if set(other.nodes) & set(whole.nodes)]
        of_rule[finding.check] = [other for other in earlier if other not in sharing] + [_one([*sharing, whole])]
    return [finding for rule in of_rule.values() for finding in rule]


def _one(findings: list[Finding]) -> Finding:
    worst = max(findings, key=lambda finding: SEVERITY[finding.verdict])
    return replace(
        worst,
        nodes=tuple(dict.fromkeys(node for finding in findings for node in finding.nodes)),
        message=joined(dict.fromkeys(finding.message for finding in findings)),
        where=tuple(dict.fromkeys(where for finding in findings for where in finding.where)),
    )
