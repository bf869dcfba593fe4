"""How are launch files checked and written from the command line?"""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from preflight.facts.cluster import Cluster
from preflight.job.options.launch import with_files
from preflight.job.options.options import Options
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.views.mesh import blames_of_port
from preflight.launch.diff import fixed, patch
from preflight.launch.field import Sourced
from preflight.launch.launchers import LAUNCHERS
from preflight.launch.owners.ask import ask
from preflight.launch.owners.questions import questions
from preflight.launch.plan import LaunchFiles, fail, problem
from preflight.launch.read import read_files
from preflight.launch.rules.check import check_files
from preflight.launch.seats import folded, ranks_table, section
from preflight.launch.write import write_files
from preflight.reach import hosts
from preflight.report.files import print_json, write_atomically
from preflight.report.formats.annotations import github_text, sarif_text
from preflight.report.language import ENGLISH, Language
from preflight.report.language.wrap import in_columns, width_of
from preflight.report.printable import printable
from preflight.run.folder import language_of
from preflight.run.live import Run
from preflight.said import said
from preflight.said.errors import PreflightError, UsageError

START = "start.sh"
PLACES = 3  # of a finding, that are named
PORT_RULE = "rank_0_is_reached"
LET_IN = (
    "Let all nodes of the job reach port {port} there: nft, iptables, ufw, firewalld or the cloud's security group."
)
COMPARED = ("environment", "identity", "network", "ports", "software")


def check(
    options: Options, patterns: list[str], *, with_hosts: bool, style: str = "text", only_diff: bool = False
) -> int:
    """``preflight launch check``: 1 on a fail, 0 when silent or warned.

    3 when a host named did not answer, 5 when a start of a job, or all of the files, could not be judged.
    """
    files = read_files(patterns)
    cluster: Cluster | None = None
    failures: dict[str, str] = {}
    reached: tuple[Finding, ...] = ()
    if with_hosts:
        run = Run(with_files(options, files, launcher=None))
        try:
            run.open()
            reached = port_findings(run, files)
        finally:
            run.close()
        cluster = Cluster(run.cluster.nodes, asked=len(run.names))
        failures = {name: said("not reached: {reason}", reason) for name, reason in run.failures.items()} | unreadable(
            cluster
        )
    answers = ask(questions(files), options.reach.python or sys.executable)
    findings = (*reached, *check_files(files, cluster, answers=answers))
    code = _exit_code(findings, files, is_whole=not failures)
    if only_diff:
        found = fixed(files.texts)
        print(patch(files.texts, found.texts), end="")
        left = [finding for finding in findings if finding.verdict in (Verdict.FAIL, Verdict.WARN)]
        summary = said("{findings} of {left} findings are fixed by this patch", len(found.findings), len(left))
        print(language_of(options).say(summary), file=sys.stderr)
    elif options.json:
        document = {
            "schema": 1,
            "exit_code": code,
            "findings": [_document(finding) for finding in findings],
            "plan": section(files, cluster),
        }
        print_json(document, options.json)
    elif style == "text":
        print(findings_text(findings, files, cluster, language_of(options)))
        if os.environ.get("GITHUB_ACTIONS"):
            print(github_text(findings), end="")
    else:
        print((github_text if style == "github" else sarif_text)(findings), end="")
    for name, reason in failures.items():
        print(f"{name}: {printable(language_of(options).say(reason))}", file=sys.stderr)
    return code


def _exit_code(findings: Sequence[Finding], files: LaunchFiles, *, is_whole: bool) -> int:
    """1 on a fail, 3 where not all was measured (`is_whole`: every node answered), 5 where a start was not judged."""
    verdicts = {finding.verdict for finding in findings}
    if Verdict.FAIL in verdicts:
        return 1
    if Verdict.ERROR in verdicts or not is_whole:
        return 3
    is_unread = any(one.check == "launch.script_is_bash" and one.verdict is Verdict.SKIP for one in findings)
    return 5 if is_unread or files.unjudged or not files.are_judged or files.are_open else 0


def port_findings(run: Run, files: LaunchFiles) -> tuple[Finding, ...]:
    """What keeps nodes from the port of rank 0 that the files name, tried by connections with data."""
    ports = [plan.master_port for plan in files.plans if isinstance(plan.master_port, Sourced)]
    try:
        found = run.rendezvous() if ports else None
    except PreflightError as error:
        return (problem(Verdict.ERROR, PORT_RULE, said("the port of rank 0 was not tried: {error}", error)),)
    if found is None:
        return ()
    where = [port.where for port in ports if port.value == found.port]
    blames = blames_of_port(found)
    findings = [
        fail(PORT_RULE, blame.message, *where, fix=blame.fix or LET_IN.format(port=found.port), nodes=blame.nodes)
        for blame in blames
    ]
    for name, reason in found.unmeasured.items():
        message = said("port {port} was not tried on {name}: {reason}", found.port, name, reason)
        findings.append(problem(Verdict.ERROR, PORT_RULE, message, *where, nodes=(name,)))
    return tuple(findings)


def unreadable(cluster: Cluster) -> dict[str, str]:
    """The nodes whose answers about something that launch files are compared with could not be read, and why."""
    return {
        node.name: f"{subject}: {node.missing[subject].missing}"
        for node in cluster
        for subject in COMPARED
        if subject in node.missing and node.missing[subject].kind == "failed"
    }


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "verdict": str(finding.verdict),
        "nodes": list(finding.nodes),
        "message": finding.message,
        "fix": finding.fix,
        "where": [{"file": where.file, "line": where.line} for where in finding.where],
    }


def findings_text(
    findings: Sequence[Finding], files: LaunchFiles, cluster: Cluster | None, language: Language = ENGLISH
) -> str:
    """The findings with file and line, and below them what every rank will see."""
    lines: list[str] = []
    for finding in findings:
        place = ", ".join(f"{where.file}:{where.line}" for where in finding.where[:PLACES])
        more = len(finding.where) - PLACES
        place += language.say(said(" and {more} more place{s}", more, "s" * (more != 1))) if more > 0 else ""
        nodes = f"  {hosts.fold(finding.nodes)}" if finding.nodes else ""
        lines.append(f"{str(finding.verdict).upper():5}  {printable(place)}  {finding.check}{nodes}")
        lines.append(f"       {printable(language.say(finding.message))}")
        if finding.fix:
            lines.append(f"       {language.say('Fix')}: {printable(language.say(finding.fix))}")
    seats = ranks_table(files.plans, cluster)
    if seats:
        rows = [[printable(cell) for cell in row] for row in folded(seats)]
        headers = [language.say(name.replace("_", " ")) for name in seats[0]._fields]
        rules = ["-" * max(map(width_of, column)) for column in zip(headers, *rows, strict=True)]
        lines += [""] * bool(lines) + [in_columns([headers, rules, *rows])]
    return "\n".join([*lines, "", *_closing(findings, len(files.plans), cluster, language)])


def _closing(findings: Sequence[Finding], count: int, cluster: Cluster | None, language: Language) -> Iterator[str]:
    """How much was read and what came of it; where that was only the files, how the nodes are asked too."""
    bad = Counter(finding.verdict for finding in findings if finding.verdict is not Verdict.PASS)
    read = language.say(said("{count} start{s} of a job read", count, "s" * (count != 1)))
    counts = ", ".join(f"{number} {language.verdict(str(verdict))}" for verdict, number in bad.items())
    yield f"{read}: {counts or language.say('nothing wrong found')}"
    if cluster is None and not bad:
        yield language.say("With --hosts the files are checked against the nodes too.")


def write(
    options: Options, folder: Path, *, launcher: str, program: tuple[str, ...], like: Path | None, given: str
) -> int:
    """``preflight launch write``: the files for these hosts, which were `given` so, into `folder`."""
    run = Run(options)
    try:
        run.open()
    finally:
        run.close()
    if run.failures:
        name, reason = next(iter(run.failures.items()))
        raise UsageError(
            said(
                "{name}: not reached: {reason}; launch files are written for all hosts or none", name, printable(reason)
            )
        )
    try:
        text = like.read_text(encoding="utf-8") if like else ""
        cluster = Cluster(run.cluster.nodes, asked=len(run.names))
        python = options.reach.python
        made = write_files(
            launcher,
            cluster,
            folder=str(folder.absolute()),
            program=program,
            like=text,
            python=python or "",
            start_in=os.getcwd(),
        )
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in made.items():
            held = (
                (folder / name).read_text(encoding="utf-8", errors="replace") if (folder / name).exists() else content
            )
            if held != content:
                raise UsageError(
                    said(
                        "{folder} is there already, with another text: name another --out, or delete it", folder / name
                    )
                )
        for name, content in made.items():
            write_atomically(folder / name, content.encode())
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror or error}") from None
    print("\n".join(str(folder / name) for name in made))
    print(
        next_steps(
            tuple(made),
            folder.absolute(),
            cluster,
            launcher=launcher,
            given=given,
            python=python,
            language=language_of(options),
        ),
        file=sys.stderr,
    )
    return 0


def next_steps(
    made: tuple[str, ...],
    folder: Path,
    cluster: Cluster,
    *,
    launcher: str,
    given: str,
    python: str | None,
    language: Language = ENGLISH,
) -> str:
    """What is done with files that were written: checked, brought to every node, started."""
    begins = LAUNCHERS[launcher].begins_with
    own = {node.name: f"{node.name}.sh" for node in cluster if f"{node.name}.sh" in made}
    if START in made:  # one script, which starts the ranks of all nodes from the first
        own = {cluster.first.name: START}
    place = shlex.quote(str(folder))
    is_here = given == "local"
    starts = [
        f"{('' if is_here else said('ssh {name} ', name))}bash {place}/{shlex.quote(file)}"
        for name, file in own.items()
    ]
    lines = [
        said(
            "{say}: preflight run --hosts={quote} --launch='{folder}/*'",
            language.say("Next"),
            shlex.quote(given),
            folder,
        )
    ]
    lines[0] += f" --python={shlex.quote(python)}" if python else ""
    lines += [f"{language.say('Then start it')}: {begins} {place}/{shlex.quote(file)}" for file in made if begins]
    if starts and is_here:
        lines += [f"{language.say('Then start it')}: {start}" for start in starts]
    elif starts:
        text = said(
            "Then bring {place} and {quote} to the same paths on every node (scp -r, or a shared folder) and start:",
            place,
            shlex.quote(os.getcwd()),
        )
        lines.append(language.say(text))
        lines += [f"  {start}" for start in starts]
    return "\n".join(lines)
