"""How do launch files meet a run: their findings in its ledger, their variables in the job, their own verb?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from preflight import hosts
from preflight.errors import UsageError
from preflight.facts.cluster import Cluster
from preflight.findings import SEVERITY, Finding, Ledger, Verdict
from preflight.launch.check import check_files
from preflight.launch.data import paths_on_nodes
from preflight.launch.plan import LaunchFiles, told
from preflight.launch.reference import Starting, address_of, starting_of
from preflight.launch.table import described, ranks_table
from preflight.launch.write import write_files
from preflight.options import Options
from preflight.report.annotations import github_text, sarif_text
from preflight.report.files import print_json, write_atomically
from preflight.report.printable import printable
from preflight.run import Run

JUDGED = "launch.files_are_judged"
CHECK_FORMATS = ("text", "github", "sarif")


def record(ledger: Ledger, patterns: Iterable[str], cluster: Cluster, names: tuple[str, ...]) -> dict[str, Any]:
    """Judge the launch files against the cluster, write the verdicts down, and give the report's section.

    A rule speaks once of a node: what it says of several lines becomes one finding with all of them.
    """
    findings, files = check_files(patterns, cluster)
    for finding in merged(findings, names):
        ledger.expect(finding.check, finding.nodes)
        ledger.record(finding)
    ledger.expect(JUDGED, names)
    count = len(files.plans)
    ledger.record(
        Finding(JUDGED, Verdict.PASS, names, f"{count} start{'s' * (count != 1)} of a job read from the files")
    )
    return section(files, cluster)


def merged(findings: Iterable[Finding], names: tuple[str, ...]) -> list[Finding]:
    """The findings with those of one rule that share a node made one; a finding about no node is about all."""
    of_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        whole = finding if finding.nodes else replace(finding, nodes=names)
        told_before = of_rule.setdefault(finding.check, [])
        sharing = [other for other in told_before if set(other.nodes) & set(whole.nodes)]
        of_rule[finding.check] = [other for other in told_before if other not in sharing] + [_one([*sharing, whole])]
    return [finding for rule in of_rule.values() for finding in rule]


def _one(findings: list[Finding]) -> Finding:
    worst = max(findings, key=lambda finding: SEVERITY[finding.verdict])
    return replace(
        worst,
        nodes=tuple(dict.fromkeys(node for finding in findings for node in finding.nodes)),
        message="; ".join(dict.fromkeys(finding.message for finding in findings)),
        where=tuple(dict.fromkeys(where for finding in findings for where in finding.where)),
    )


def section(files: LaunchFiles, cluster: Cluster | None) -> dict[str, Any]:
    """The plan section of the report: every start of a job, and what each rank will see."""
    seats = [seat._asdict() for seat in ranks_table(files.plans, cluster)]
    return {"launches": [described(plan) for plan in files.plans], "ranks": seats}


def with_files(options: Options, files: LaunchFiles, *, launcher: str | None) -> Options:
    """The options with what the files say of the job; `launcher` is the one that was asked for beside them.

    Raises UsageError where the two contradict each other.
    """
    starting = starting_of(files)
    if (
        launcher
        and starting.launcher not in ("", launcher)
        and (launcher, starting.launcher) != ("deepspeed", "torchrun")
    ):
        where = starting.starts[0].where
        told_by = f"{where.file}:{where.line} starts the job with {starting.launcher}"
        raise UsageError(f"--launcher {launcher}: {told_by}; leave --launcher out, or --launch")
    asked, counts = options.ranks_per_node, {start.processes for start in starting.starts} - {0}
    if asked != "auto" and counts and counts != {int(asked)}:
        listed = " and ".join(map(str, sorted(counts)))
        raise UsageError(f"--ranks-per-node {asked}: the launch files start {listed} on a node; leave one of them out")
    if launcher and starting.refusal:
        starting = Starting()  # asked for by name, it starts the reference job in the files' stead
    return replace(
        options,
        launch_variables=tuple(variables(files).items()),
        named=paths_on_nodes(files),
        starting=starting,
        launcher=launcher or starting.launcher or options.launcher,
    ).checked()


def started_by(options: Options) -> str:
    """What starts the reference job, in words."""
    starts = options.starting.starts
    if options.starting.refusal:
        return f"not started: {options.starting.refusal}"
    if not starts:
        return f"started with --launcher {options.launcher}: the launch files start no job"
    places = ", ".join(dict.fromkeys(f"{start.where.file}:{start.where.line}" for start in starts))
    return f"started with {options.launcher} as {places} start{'s' * (len(starts) == 1)} the job"


def variables(files: LaunchFiles) -> dict[str, str]:
    """What every start of the files sets to one and the same value: NCCL and Gloo, and where they look for rank 0."""
    found: dict[str, set[str]] = {}
    for plan in files.plans:
        held = {name: told(value) for name, value in plan.environment.items() if name.startswith(("NCCL_", "GLOO_"))}
        if plan.may_span_nodes and address_of(plan):
            held |= {"MASTER_ADDR": address_of(plan), "MASTER_PORT": str(told(plan.master_port))}
        for name, value in held.items():
            found.setdefault(name, set()).add(str(value))
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1 and "None" not in values}


def check(options: Options, patterns: list[str], *, with_hosts: bool, json_target: str, wanted: str = "text") -> int:
    """``preflight launch check``: 1 on a fail, 0 when silent or warned, 3 when a host named did not answer."""
    if wanted not in CHECK_FORMATS:
        raise UsageError(f"launch check: --format {wanted!r} is none of {', '.join(CHECK_FORMATS)}")
    cluster: Cluster | None = None
    failures: dict[str, str] = {}
    if with_hosts:
        options = with_files(options, check_files(patterns)[1], launcher=None)
        run = Run(options, hosts.parse_hosts(options.hosts))
        try:
            run.open()
        finally:
            run.close()
        cluster, failures = run.cluster, run.failures
    findings, files = check_files(patterns, cluster)
    failed = any(finding.verdict is Verdict.FAIL for finding in findings)
    code = 1 if failed else 3 if failures else 0
    if json_target:
        document = {
            "schema": 1,
            "exit_code": code,
            "findings": [_document(finding) for finding in findings],
            "plan": section(files, cluster),
        }
        print_json(document, json_target)
    elif wanted == "text":
        print(told_findings(findings, files, cluster))
        if os.environ.get("GITHUB_ACTIONS"):
            print(github_text(findings), end="")
    else:
        print((github_text if wanted == "github" else sarif_text)(findings), end="")
    for name, reason in failures.items():
        print(f"{name}: not reached: {printable(reason)}", file=sys.stderr)
    return code


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "verdict": str(finding.verdict),
        "nodes": list(finding.nodes),
        "message": finding.message,
        "fix": finding.fix,
        "where": [{"file": where.file, "line": where.line} for where in finding.where],
    }


def told_findings(findings: Iterable[Finding], files: LaunchFiles, cluster: Cluster | None) -> str:
    """The findings with file and line, and below them what every rank will see."""
    from tabulate import tabulate

    lines: list[str] = []
    for finding in findings:
        place = ", ".join(f"{where.file}:{where.line}" for where in finding.where[:3])
        nodes = f"  {hosts.fold(finding.nodes)}" if finding.nodes else ""
        lines.append(f"{str(finding.verdict).upper():5}  {printable(place)}  {finding.check}{nodes}")
        lines.append(f"       {printable(finding.message)}")
        if finding.fix:
            lines.append(f"       Fix: {printable(finding.fix)}")
    seats = ranks_table(files.plans, cluster)
    if seats:
        rows = [[printable(str(cell)) for cell in seat] for seat in seats[:64]]
        headers = [name.replace("_", " ") for name in seats[0]._fields]
        lines += ["", str(tabulate(rows, headers=headers, disable_numparse=True))]
    count = len(files.plans)
    lines += ["", f"{count} start{'s' * (count != 1)} of a job read"]
    return "\n".join(lines)


def write(options: Options, folder: Path, *, launcher: str, program: tuple[str, ...], like: Path | None) -> int:
    """``preflight launch write``: the files for these hosts, into `folder`."""
    run = Run(options, hosts.parse_hosts(options.hosts))
    try:
        run.open()
    finally:
        run.close()
    if run.failures:
        name, reason = next(iter(run.failures.items()))
        raise UsageError(f"{name}: not reached: {printable(reason)}; launch files are written for all hosts or none")
    try:
        text = like.read_text(encoding="utf-8") if like else ""
        cluster = Cluster(run.cluster.nodes, asked=len(run.names))
        made = write_files(launcher, cluster, folder=str(folder.absolute()), program=program, like=text)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in made.items():
            write_atomically(folder / name, content.encode())
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror or error}") from None
    print("\n".join(str(folder / name) for name in made))
    return 0
