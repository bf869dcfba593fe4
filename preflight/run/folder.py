"""When is what of a run written where, and what if it cannot be?"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import time
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from preflight import __version__
from preflight.errors import PreflightError
from preflight.facts import decode
from preflight.hosts import Host
from preflight.ledger.findings import Verdict
from preflight.ledger.waivers import remarks
from preflight.options.launch import started_by
from preflight.options.options import Options
from preflight.redact import without_secrets
from preflight.report import FILES, FORMATS
from preflight.report.compare import Snapshot, changes
from preflight.report.document import Counts, NodeInfo, RunInfo, RunReport
from preflight.report.facts import lasting, told
from preflight.report.files import write_atomically
from preflight.report.formats.annotations import github_text
from preflight.report.formats.text import TELLING
from preflight.report.json import write_json
from preflight.report.material import Material
from preflight.results import Bench, Mesh, Training
from preflight.run.live import Run
from preflight.transport import command

if TYPE_CHECKING:
    from preflight.judge.session import Checking

EXIT_UNWRITABLE = 3


def dry_run_text(options: Options, hosts: tuple[Host, ...]) -> str:
    """What would be contacted and started, one line a host."""
    lines = [f"would reach {len(hosts)} node{'s' * (len(hosts) != 1)}, deadline {options.deadline_seconds:g} s:"]
    lines += [f"  {host.name}: {shlex.join(command(host, options.reach))}" for host in hosts]
    if options.launch:
        lines.append(f"reference job: {started_by(options)}")
    lines.append("ports: random ones for the mesh and the jobs, picked by the nodes; MASTER_PORT is bound, never used")
    lines.append(f"report: {options.folder}")
    return "\n".join(lines)


def write_started(checking: Checking) -> None:
    """report.json as it stands should we be killed: error, unfinished. An unwritable folder is said at the end."""
    with contextlib.suppress(OSError):
        checking.options.folder.mkdir(parents=True, exist_ok=True)
        write_json(checking.options.folder / FILES["json"], _report(checking, finished=False))


def withdraw(checking: Checking) -> None:
    """Take back what `write_started` wrote: words that were wrong asked nothing."""
    with contextlib.suppress(OSError):
        (checking.options.folder / FILES["json"]).unlink()
        checking.options.folder.rmdir()  # not where anything else is in it


def write_finished(checking: Checking) -> int:
    """Every file of the run, report.json first; the exit code, which an unwritable report raises to error."""
    report = _report(checking, finished=True)
    folder = checking.options.folder
    unwritable = ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        material = _material(checking, report)
        for name, file_name in FILES.items():
            write_atomically(folder / file_name, FORMATS[name](material).encode("utf-8"))
        if isinstance(checking.source, Run):
            _write_facts(folder / "facts", checking.source)
            _write_logs(folder / "logs", checking.source)
        _append_step_summary(folder / FILES["markdown"])
    except OSError as error:
        unwritable = f"the report could not be written to {folder}: {error.strerror or error}"
    code = report.exit_code
    if unwritable and code in {0, 5}:
        code = EXIT_UNWRITABLE
        report = msgspec.structs.replace(report, verdict=Verdict.ERROR, exit_code=code)
    width = shutil.get_terminal_size((100, 24)).columns
    checking.text = TELLING[checking.tells](report, directory=str(folder), width=width, colour=_wants_colour())
    if os.environ.get("GITHUB_ACTIONS"):
        checking.text += "\n" + github_text(report.findings)
    if unwritable:
        checking.text += f"\n{unwritable}"
    return code


def json_for(checking: Checking, target: str) -> str:
    """report.json as it was written: its text for ``-``, else a copy at `target` and a line that says so."""
    try:
        text = (checking.options.folder / FILES["json"]).read_text(encoding="utf-8")
        if target == "-":
            return text
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        return f"--json {target}: {error.strerror or error}"
    return f"json      {target}"


def _material(checking: Checking, report: RunReport) -> Material:
    facts = {node.name: told(node) for node in checking.source.cluster}
    return Material(report, facts, checking.source.logs if isinstance(checking.source, Run) else {})


def _append_step_summary(markdown: Path) -> None:
    """GitHub shows on the page of a job what its steps append to this file; the run stands without it."""
    summary_file = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary_file:
        with contextlib.suppress(OSError), open(summary_file, "a", encoding="utf-8") as stream:
            stream.write(markdown.read_text(encoding="utf-8") + "\n")


def _wants_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _write_facts(folder: Path, run: Run) -> None:
    folder.mkdir(exist_ok=True)
    for name, document in run.documents.items():
        write_atomically(folder / f"{_file_name(name)}.json", decode.encode(document))


def _write_logs(folder: Path, run: Run) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in run.logs.items():
        write_atomically(folder / _file_name(name), text.encode("utf-8", "replace"))


def _file_name(name: str) -> str:
    """A node's name as a file's: nothing in it leaves the folder."""
    return name.replace("/", "_").replace("\0", "_").lstrip(".") or "_"


def _report(checking: Checking, *, finished: bool) -> RunReport:
    ledger, source, options = checking.ledger, checking.source, checking.options
    verdict = ledger.verdict(fail_on_warn=options.fail_on_warn) if finished else Verdict.ERROR
    code = (3 if checking.exit_code is None else checking.exit_code) if finished else 3
    if code == 3 and verdict in {Verdict.PASS, Verdict.WARN, Verdict.SKIP}:
        verdict = Verdict.ERROR  # a collection error, or a run that broke outside every check
    if isinstance(source, Run):
        started, stages, notes = source.started, source.stage_seconds, tuple(source.notes)
        seconds = time.monotonic() - (source.deadline - options.deadline_seconds)
        mesh, bench, training = source._mesh, source._bench, source._training  # noqa: SLF001 - measured, not to be started
        nodes = {host.name: _node_info(source, host) for host in source.hosts}
    else:
        stored = source.report
        started, stages, notes, seconds = None, {}, (f"judged from {options.from_run}",), 0.0
        mesh, bench, training = (stored.mesh, stored.bench, stored.training) if finished else (None, None, None)
        nodes = dict(stored.nodes)
    if options.baseline and checking.baseline is None:
        notes += (f"--baseline {options.baseline}: no earlier run of these hosts was good",)
    waivers = options.settings.waivers
    notes += remarks(waivers, ledger.findings, not_asked=ledger.not_asked, today=checking.today) if finished else ()
    report = RunReport(
        finished=finished,
        run=RunInfo(
            id=options.run_id,
            started=started.astimezone(timezone.utc).isoformat(timespec="seconds") if started else stored.run.started,
            seconds=round(seconds, 3),
            command=tuple(map(without_secrets, options.command)),
            version=__version__,
        ),
        verdict=verdict,
        exit_code=code,
        nodes=nodes,
        ledger=Counts(expected=len(ledger.expected), judged=ledger.judged, not_asked=len(ledger.not_asked)),
        findings=tuple(ledger.findings),
        mesh=mesh,
        bench=bench,
        training=training,
        plan=checking.plan,
        stages=stages,
        profile=options.profile,
        notes=notes,
    )
    if not finished or checking.baseline is None:
        return report
    now = Snapshot(report, {node.name: lasting(node) for node in source.cluster})
    return msgspec.structs.replace(report, changes=changes(checking.baseline, now))


def _node_info(run: Run, host: Host) -> NodeInfo:
    try:
        address = run.cluster[host.name].address_for_peers()
    except (KeyError, PreflightError):
        address = host.address
    return NodeInfo(host=_written(host), address=address, reached=host.name in run.documents)


def _written(host: Host) -> str:
    user = f"{host.user}@" if host.user else ""
    if host.port:
        address = f"[{host.address}]" if ":" in host.address else host.address
        return f"{user}{address}:{host.port}"
    return f"{user}{host.address}"


def section(value: Mesh | Bench | Training | None) -> object:
    """A section of the report as plain JSON values."""
    return msgspec.to_builtins(value)
