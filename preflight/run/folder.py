"""Which files of a run are written, when and where, and what if that fails?"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from preflight import __version__
from preflight.facts.documents import Documents
from preflight.facts.results import Bench, Training
from preflight.job.options.launch import started_by
from preflight.job.options.options import Options
from preflight.judge.ledger.choice import Choice
from preflight.judge.ledger.findings import EXIT_NOT_MEASURED, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.ledger.waivers import remarks
from preflight.reach.host import Host
from preflight.reach.hosts import fold
from preflight.reach.transport import command
from preflight.report import FILES, FORMATS
from preflight.report.compare import Snapshot, changes
from preflight.report.document import Counts, RunInfo, RunReport
from preflight.report.facts import lasting, row_values
from preflight.report.files import write_atomically, write_together
from preflight.report.formats.annotations import github_text
from preflight.report.formats.commands import with_lines
from preflight.report.formats.hostlists import files_of_choice
from preflight.report.formats.text import TELLING
from preflight.report.json import write_json
from preflight.report.language import Language, chosen
from preflight.report.material import Material
from preflight.report.printable import printable
from preflight.run.source import Measurements, ReportedSource
from preflight.said import joined, said
from preflight.said.errors import UsageError
from preflight.said.redact import without_secrets, words_without_secrets

FACTS_AT_ONCE = 256  # files that are written before the disk must have them


@dataclass(frozen=True)
class Ending:
    """What the end of a run adds to the source, the ledger and the options."""

    exit_code: int
    today: date
    plan: dict[str, Any] | None = None
    baseline: Snapshot | None = None
    verbosity: str = "summary"  # a key of TELLING
    choice: Choice | None = None


def dry_run_text(options: Options, hosts: tuple[Host, ...]) -> str:
    """What would be contacted and started, one line a host."""
    lines = [
        said(
            "would reach {hosts} node{s}, deadline {deadline_seconds:g} s:",
            len(hosts),
            "s" * (len(hosts) != 1),
            options.deadline_seconds,
        )
    ]
    for host in hosts:
        way = shlex.join(words_without_secrets(command(host, options.reach)))
        lines.append(said("  {name}: {trouble}", host.name, host.trouble or way))
    if options.launch:
        lines.append(said("reference job: {started_by}", started_by(options)))
    lines += rehearsal_lines(options)
    lines.append("ports: random ones for the mesh and the jobs, picked by the nodes; MASTER_PORT is bound, never used")
    if options.found_settings:
        lines.append(said("settings: {found_settings}, found in this folder", options.found_settings))
    lines.append(said("report: {folder}", options.folder))
    return joined(lines, "\n")


def rehearsal_lines(options: Options) -> list[str]:
    """Which script would be run where, for real, and which of its lines change something outside of it."""
    if options.cast is None:
        return []
    from preflight.launch.cast import writing_lines  # here, as most runs rehearse nothing

    lines = []
    for script in dict.fromkeys(options.cast.scripts.values()):
        nodes = fold([name for name, own in options.cast.scripts.items() if own == script])
        words = shlex.join([*script.shell, script.name, *script.words])
        lines.append(
            said("rehearsal: `{words}` runs for real on {nodes}; only its training program is exchanged", words, nodes)
        )
        lines += [f"  {script.name}:{number}: {without_secrets(text)}" for number, text in writing_lines(script)]
    return lines


def write_started(source: ReportedSource, ledger: Ledger, options: Options) -> None:
    """Write the report.json that remains if we are killed: error, unfinished.

    Raises UsageError where the folder cannot be written: better before the first node than after minutes.
    """
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        write_json(options.folder / FILES["json"], _unfinished(source, ledger, options))
    except OSError as error:
        words = said("{folder} cannot be written: {strerror}", options.folder, error.strerror or error)
        raise UsageError(said("--report-dir: {words}; name another with --report-dir=DIR", words)) from None


def withdraw(options: Options) -> None:
    """Take back what `write_started` wrote: after a usage error there is no run to report."""
    with contextlib.suppress(OSError):
        (options.folder / FILES["json"]).unlink()
        options.folder.rmdir()  # unless the folder holds anything else


def write_finished(
    source: ReportedSource,
    ledger: Ledger,
    options: Options,
    ending: Ending,
    *,
    on_written: Callable[[int], None] = lambda _code: None,
) -> tuple[int, str]:
    """Every file of the run; the exit code, which an unwritable report raises, and the summary.

    Facts and logs come first: a report that says finished must not stand beside those of an earlier run. Then all
    formats are written under other names, and take their own when nothing can fail any more: report.json first,
    whose exit code `on_written` is told.
    """
    report = _finished(source, ledger, options, ending)
    folder = options.folder
    language = language_of(options)
    unwritable = ""
    # Before anything is written: a failure here must not leave a good report.
    tell = partial(_summary, ending=ending, folder=folder, language=language, told_apart=options.told_apart)
    text = tell(report)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        material = Material(
            report, {node.name: row_values(node) for node in source.cluster}, dict(source.logs), language
        )
        with ThreadPoolExecutor(1) as beside:  # for thousands of files the disk needs as long as the report takes us
            stored = beside.submit(_write_facts_and_logs, source, options)
            texts = {FILES[name]: FORMATS[name](material).encode("utf-8") for name in FILES}
            stored.result()
        for name, listed in files_of_choice(report).items():
            if listed:
                texts[name] = listed.encode("utf-8")
            else:  # of an earlier run into the same folder
                (folder / name).unlink(missing_ok=True)
        write_together({folder / name: text for name, text in texts.items()}, lambda: on_written(report.exit_code))
        if (folder / FILES["json"]).read_bytes() != texts[FILES["json"]]:
            raise OSError(said("{FILES} does not hold what was written to it", FILES["json"]))
        _append_step_summary(folder / FILES["markdown"])
    except OSError as error:
        unwritable = said("the report could not be written to {folder}: {strerror}", folder, error.strerror or error)
    code = report.exit_code
    if unwritable and code in {0, 5}:
        code = EXIT_NOT_MEASURED
        text = tell(msgspec.structs.replace(report, verdict=Verdict.ERROR, exit_code=code))
    if unwritable:
        text += f"\n{language.say(unwritable)}"
    return code, text


def _summary(report: RunReport, *, ending: Ending, folder: Path, language: Language, told_apart: str) -> str:
    width = shutil.get_terminal_size((100, 24)).columns
    text = TELLING[ending.verbosity](
        report,
        directory=str(folder),
        width=width,
        colour=wants_colour(),
        language=language,
        told_apart=told_apart,
    )
    return text + "\n" + github_text(report.findings) if os.environ.get("GITHUB_ACTIONS") else text


def json_for(options: Options, target: str) -> str:
    """report.json as it was written: its text for ``-``, else a copy at `target` and a line that says so."""
    try:
        text = (options.folder / FILES["json"]).read_text(encoding="utf-8")
        if target == "-":
            return text
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        return f"--json {target}: {error.strerror or error}"
    return said("json      {target}", target)


def _append_step_summary(markdown: Path) -> None:
    """Append to the file that GitHub shows on the page of a job; the run counts without it."""
    summary_file = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary_file:
        with contextlib.suppress(OSError), open(summary_file, "a", encoding="utf-8") as stream:
            stream.write(markdown.read_text(encoding="utf-8") + "\n")


def language_of(options: Options) -> Language:
    """The language of --lang, or of the locale."""
    return chosen(options.lang, os.environ)


def wants_colour() -> bool:
    """Whether standard output is a terminal whose owner wants colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _write_facts_and_logs(source: ReportedSource, options: Options) -> None:
    """Write the facts of every node and what its jobs printed; a stored run has them already."""
    if options.from_run is None:
        _write_facts(options.folder / "facts", source.documents)
        _write_logs(options.folder / "logs", source.logs)


def _write_facts(folder: Path, documents: Documents) -> None:
    """Write the facts of every node, and remove those of an earlier run in the same folder."""
    folder.mkdir(exist_ok=True)
    written = {f"{_file_name(name)}.json" for name in documents}
    for path in folder.glob("*.json"):
        if path.name not in written:
            path.unlink()
    names = list(documents)
    for start in range(0, len(names), FACTS_AT_ONCE):
        batch = names[start : start + FACTS_AT_ONCE]
        write_together({folder / f"{_file_name(name)}.json": documents.as_stored(name) for name in batch})


def _write_logs(folder: Path, logs: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in logs.items():
        write_atomically(folder / _file_name(name), harmless(text).encode("utf-8", "replace"))


def harmless(text: str) -> str:
    """What a node printed, for a file that people open in a terminal and send to others."""
    return printable(without_secrets(text), keep_newlines=True)


def _file_name(name: str) -> str:
    """A node's name as a file's: nothing in it leaves the folder."""
    return name.replace("/", "_").replace("\0", "_").lstrip(".") or "_"


def _unfinished(source: ReportedSource, ledger: Ledger, options: Options) -> RunReport:
    return _report(source, ledger, options, Measurements(), finished=False, verdict=Verdict.ERROR, exit_code=3)


def _finished(source: ReportedSource, ledger: Ledger, options: Options, ending: Ending) -> RunReport:
    verdict = ledger.verdict(fail_on_warn=options.fail_on_warn)
    if ending.exit_code == EXIT_NOT_MEASURED and verdict in {Verdict.PASS, Verdict.WARN, Verdict.SKIP}:
        verdict = Verdict.ERROR  # a collection error, or a run that broke outside every check
    notes = list(source.notes)
    if options.found_python:
        notes.append(
            said(
                "the nodes are asked with {found_python}, as the launch files start it; --python names another",
                options.found_python,
            )
        )
    if options.found_settings:
        notes.append(
            said(
                "settings are those of {found_settings}, found in this folder; --settings names others",
                options.found_settings,
            )
        )
    if options.baseline and ending.baseline is None:
        notes.append(said("--baseline {baseline}: no earlier run of these hosts was good", options.baseline))
    notes += remarks(options.settings.waivers, ledger.findings, not_asked=ledger.not_asked, today=ending.today)
    report = with_lines(
        msgspec.structs.replace(
            _report(
                source, ledger, options, source.measured(), finished=True, verdict=verdict, exit_code=ending.exit_code
            ),
            plan=ending.plan,
            notes=tuple(notes),
            choice=ending.choice,
        )
    )
    if ending.baseline is None:
        return report
    now = Snapshot(report, {node.name: lasting(node) for node in source.cluster})
    return msgspec.structs.replace(report, changes=changes(ending.baseline, now))


def _report(
    source: ReportedSource,
    ledger: Ledger,
    options: Options,
    measured: Measurements,
    *,
    finished: bool,
    verdict: Verdict,
    exit_code: int,
) -> RunReport:
    return RunReport(
        finished=finished,
        run=RunInfo(
            id=options.run_id,
            started=source.started,
            seconds=round(source.seconds, 3),
            command=words_without_secrets(options.command),
            version=__version__,
        ),
        verdict=verdict,
        exit_code=exit_code,
        nodes=source.node_infos(),
        ledger=Counts(
            expected=ledger.cells,
            judged=ledger.judged,
            not_asked=len(ledger.not_asked),
            reused=sum(len(finding.nodes) for finding in ledger.findings if finding.proof),
        ),
        findings=tuple(ledger.findings),
        mesh=measured.mesh,
        bench=_bench(measured.bench),
        training=_training(measured.training),
        rehearsal=measured.rehearsal,
        stages=dict(source.stage_seconds),
        profile=options.profile,
        notes=tuple(without_secrets(note) for note in source.notes),
        not_asked=ledger.left_out(),
    )


def _bench(measured: Bench | None) -> Bench | None:
    """The benchmark without the secrets that a rank may print as it fails."""
    if measured is None or not measured.not_measured:
        return measured
    return msgspec.structs.replace(measured, not_measured=without_secrets(measured.not_measured))


def _training(measured: Training | None) -> Training | None:
    """The training without such secrets: in its message, its cause and its last lines."""
    if measured is None or not (measured.failure or measured.not_measured):
        return measured
    failed = measured.failure
    failure = failed and msgspec.structs.replace(
        failed,
        message=without_secrets(failed.message),
        cause=without_secrets(failed.cause),
        last_lines=tuple(without_secrets("\n".join(failed.last_lines)).split("\n")) if failed.last_lines else (),
    )
    return msgspec.structs.replace(measured, failure=failure, not_measured=without_secrets(measured.not_measured))
