"""What is wrong with these launch files, by themselves, against each other and against the cluster?

    files = read_files(["node0.sh", "node1.sh"])         read once
    check_files(files)                                   the files alone
    check_files(files, cluster)                          and against the facts of --hosts
    ranks_table(files.plans, cluster)                    what every rank will see

A file that cannot be read or parsed is a UsageError; one of a kind that is not judged is a finding of verdict skip.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from preflight.facts.cluster import Cluster
from preflight.judge.ledger.findings import SEVERITY, Finding, Verdict, Where
from preflight.launch.containers import in_containers
from preflight.launch.fixes.known import ways
from preflight.launch.fixes.trial import Reading, tried
from preflight.launch.launchers import ROWS, row_of
from preflight.launch.owners.questions import Answer, settled
from preflight.launch.plan import LaunchFiles, Skip, problem
from preflight.launch.read import read_texts
from preflight.launch.resources import enough
from preflight.launch.rules import (
    addresses,
    agreement,
    counts,
    names,
    needs,
    nodes,
    order,
    ports,
    ranks,
    scripts,
    settings,
    variables,
    versions,
)
from preflight.launch.rules.groups import groups
from preflight.launch.schedulers import mpi, remote, slurm
from preflight.launch.schedulers.granted import granted_fits
from preflight.launch.slips import data, numbering, program, saving, shell, unfilled
from preflight.said import leaves, said
from preflight.said.errors import UsageError
from preflight.said.redact import without_secrets

HOLES, HOLE = "launch.placeholders_are_filled_in", re.compile(r"<[\w -]+>")
PLAN_RULES = (
    scripts.program_is_given,
    *ranks.PLAN_RULES,
    *addresses.PLAN_RULES,
    *ports.PLAN_RULES,
    *counts.PLAN_RULES,
    *variables.PLAN_RULES,
    *unfilled.PLAN_RULES,
    *shell.PLAN_RULES,
    *enough.PLAN_RULES,
    *slurm.PLAN_RULES,
    *mpi.PLAN_RULES,
    granted_fits,
    in_containers,
)
GROUP_RULES = (*ranks.GROUP_RULES, *agreement.GROUP_RULES, *addresses.GROUP_RULES)
SCRIPT_RULES = (
    scripts.script_problems,
    remote.variables_go_along,
    remote.steps_take_variables_along,
    order.nodes_start_side_by_side,
    order.every_node_is_logged_in_to,
    order.every_named_host_is_a_node,
    *unfilled.SCRIPT_RULES,
    *enough.SCRIPT_RULES,
)
FILES_RULES = (
    scripts.options_are_continued,
    scripts.named_nodes_are_started,
    *ranks.FILES_RULES,
    *numbering.FILES_RULES,
    *counts.FILES_RULES,
    *variables.FILES_RULES,
    *unfilled.FILES_RULES,
    *shell.FILES_RULES,
    *names.FILES_RULES,
    *program.FILES_RULES,
    *order.FILES_RULES,
    *mpi.FILES_RULES,
    *(rule for row in ROWS for rule in row.files_rules),
)
LIVE_RULES = (
    *nodes.RULES,
    *settings.RULES,
    *needs.RULES,
    *versions.RULES,
    *variables.LIVE_RULES,
    data.paths_are_on_every_node,
    *saving.LIVE_RULES,
    *enough.LIVE_RULES,
)


def check_files(
    files: LaunchFiles, cluster: Cluster | None = None, *, answers: Iterable[Answer] = ()
) -> tuple[Finding, ...]:
    """Judge launch files that were read, and the data files beside them; the findings, the worst first.

    `answers` are those of the owners of the files, as far as they were asked.
    """
    judged = _tried(_ordered(judge(files, cluster)), files, cluster, look_beside=True)
    return _shown([*settled(judged, answers), *_ordered(data.no_pointers(files, os.getcwd()))])


def check_texts(texts: Mapping[str, str], cluster: Cluster | None = None) -> tuple[tuple[Finding, ...], LaunchFiles]:
    """The findings on texts by file name, and what the texts say; nothing is looked up on the disk."""
    files = read_texts(texts)
    return _shown(_tried(_ordered(judge(files, cluster)), files, cluster, look_beside=False)), files


def _tried(
    found: tuple[Finding, ...], files: LaunchFiles, cluster: Cluster | None, *, look_beside: bool
) -> tuple[Finding, ...]:
    """The findings with fixes that hold: each was made in memory, and the files were judged again."""

    def read(texts: Mapping[str, str]) -> Reading | None:
        try:
            again = read_texts(texts, look_beside=look_beside)
            return Reading(again, _ordered(judge(again, cluster)))
        except UsageError:
            return None

    return tried(Reading(files, found), read, lambda finding: ways(finding, files, cluster))


def judge(files: LaunchFiles, cluster: Cluster | None) -> Iterable[Finding]:
    """Every finding of every rule."""
    yield from (_skipped(skip) for skip in files.skips)
    yield from files.problems
    for script in files.scripts:
        for script_rule in SCRIPT_RULES:
            yield from script_rule(script)
    for plan in files.plans:
        for plan_rule in (*PLAN_RULES, *row_of(plan).rules):
            yield from plan_rule(plan)
    for group in groups(files):
        for group_rule in GROUP_RULES:
            yield from group_rule(group)
        if cluster is None or not nodes.gpus_are_counted(cluster):  # else the rules about nodes tell what stays idle
            yield from ranks.world_size_counts_processes(group)
    for files_rule in FILES_RULES:
        yield from files_rule(files)
    if cluster is not None and cluster.nodes:
        for live_rule in LIVE_RULES:
            yield from live_rule(files, cluster)


def _skipped(skip: Skip) -> Finding:
    return problem(
        Verdict.SKIP, "file_is_judged", said("{file}: {reason}", skip.file, skip.reason), Where(skip.file, skip.line)
    )


def _ordered(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding for each rule, verdict and message, in order."""
    once: dict[tuple[object, ...], Finding] = {}
    for finding in found:
        key = (finding.check, finding.verdict, finding.message, finding.fix, finding.nodes)
        before = once.get(key)
        where = tuple(dict.fromkeys((*before.where, *finding.where))) if before else finding.where
        edits = tuple(dict.fromkeys((*before.edits, *finding.edits))) if before else finding.edits
        once[key] = replace(finding, where=where, edits=edits)
    holes = {where for one in once.values() if one.check == HOLES for where in one.where}
    sure = {where for one in once.values() if one.check == HOLES and one.verdict is Verdict.FAIL for where in one.where}
    once = {key: one for key, one in once.items() if not _is_told_better(one, holes, sure)}
    return _in_order(_once_a_place(once.values()))


def _once_a_place(found: Iterable[Finding]) -> Iterable[Finding]:
    """The turns of a loop are commands of one line: what is wrong with it is told once, with the fix for the first."""
    once: dict[tuple[object, ...], Finding] = {}
    for one in found:
        once.setdefault((one.check, one.verdict, one.message, one.nodes, one.where), one)
    return once.values()


def _is_told_better(one: Finding, holes: set[Where], sure: set[Where]) -> bool:
    """Whether what it says follows from a placeholder that is told by itself, or is told of it as a fail."""
    if one.check == HOLES:
        return one.verdict is Verdict.WARN and sure.issuperset(one.where)
    return bool(holes.intersection(one.where)) and any(map(HOLE.search, leaves(one.message)))


def _shown(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """In order, and without secrets."""
    return _in_order(
        replace(finding, message=without_secrets(finding.message), fix=without_secrets(finding.fix))
        for finding in found
    )


def _in_order(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first, then in the order of files and lines."""

    def place(finding: Finding) -> tuple[int, str, int]:
        first = finding.where[0] if finding.where else Where("", 0)
        return (-SEVERITY[finding.verdict], first.file, first.line)

    return tuple(sorted(found, key=place))
