"""How do the verbs run, bench and train run the checks?"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from preflight.job.options.launch import parse_run
from preflight.judge.ledger.findings import EXIT_NOT_MEASURED, EXIT_USAGE
from preflight.report.document import RunReport, to_document
from preflight.report.files import print_json
from preflight.report.json import read_json
from preflight.report.language import ENGLISH, Language
from preflight.run.folder import dry_run_text, language_of
from preflight.said import said
from preflight.said.errors import UsageError

PYTEST_INI = Path(__file__).parents[1] / "pytest.ini"
PYTEST_WORDS = (
    "-pno:cacheprovider",
    "-pno:unraisableexception",  # it goes through all objects five times at the end
    "--import-mode=importlib",
    "-qq",
    "--no-header",
    "-Wignore::pytest.PytestAssertRewriteWarning",
    "-oconsole_output_style=classic",
    "-ppreflight.run.suite.leaving",
)


def run_checks(
    values: Mapping[str, Any],
    command: tuple[str, ...],
    *,
    subjects: tuple[str, ...] = (),
    section: str = "",
    extra: Sequence[str] = (),
) -> int:
    """The checks through pytest, away from whatever configuration and plugins lie around here.

    `values` are the options as argparse gives them, `subjects` the checks that run (all without), `section` the part
    of the report that is printed, `extra` further words for pytest. Raises UsageError before pytest starts.
    """
    given = parse_run(values, command=command, verbosity=values["verbosity"])
    folder = given.folder.absolute()
    if given.dry_run:
        print(language_of(given).lines(dry_run_text(replace(given, report_dir=folder), given.hosts)))
        return 0
    import pytest

    from preflight.run.suite.plugin import Door, checks_folder

    # The verb itself prints the JSON, when the report is complete.
    told_apart = "" if given.json else section
    options = replace(given, subjects=subjects, report_dir=folder, json="", told_apart=told_apart)
    words = ["-c", str(PYTEST_INI), "--rootdir", str(checks_folder()), *PYTEST_WORDS, *extra, str(checks_folder())]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ.pop("PYTEST_PLUGINS", None)
    # What is printed for people goes where it does not break the JSON.
    aside = contextlib.redirect_stdout(sys.stderr) if given.json == "-" else contextlib.nullcontext()
    with aside:
        code = int(pytest.main(words, plugins=[Door(options)]))
    if code == EXIT_USAGE:
        return code
    if not (folder / "report.json").is_file():
        return code or EXIT_NOT_MEASURED
    if not code and not _is_confirmed_by(folder, options.run_id):
        print(said("preflight: {folder}/report.json is not the report of a run that passed", folder), file=sys.stderr)
        return EXIT_NOT_MEASURED
    if not given.json and given.verbosity != "line":
        print(job_diagnosis(folder, language_of(options)), end="")
    if section:
        _print_section(read_json(folder / "report.json"), section, given.json, language_of(options))
    elif given.json:
        print_json(to_document(read_json(folder / "report.json")), given.json)
    return code


def _is_confirmed_by(folder: Path, run_id: str) -> bool:
    """Whether the report on the disk is of this run, and says that it ended with 0."""
    report = read_json(folder / "report.json")
    return (report.run.id, report.finished, report.exit_code) == (run_id, True, 0)


def job_diagnosis(folder: Path, language: Language = ENGLISH) -> str:
    """What the logs of a reference job that failed lead to, as text; "" where none failed or nothing is known."""
    if not any((folder / "logs").glob("train*.log")):
        return ""
    training = read_json(folder / "report.json").training
    return logs_diagnosis(folder / "logs", language) if training is not None and training.failure is not None else ""


def logs_diagnosis(folder: Path, language: Language = ENGLISH) -> str:
    """What the logs of a reference job's ranks lead to, as text; "" where no cause is known."""
    from preflight.diagnose import diagnose_files  # here and below, as most runs need none of them
    from preflight.report.formats.diagnosis import diagnosis_text

    logs = sorted(str(path) for path in folder.glob("train*.log") if "-launch-" not in path.name)
    try:
        diagnosis = diagnose_files(logs)
    except UsageError:  # what a rank left half written is no reason to end here
        return ""
    if not diagnosis.causes:
        return ""
    heading = language.say(said("The reference job failed. By its logs in {folder}:", folder))
    return f"\n{heading} {diagnosis_text(diagnosis, language)}"


def _print_section(report: RunReport, section: str, target: str, language: Language) -> None:
    if target:
        print_json(to_document(report)[section], target)
    elif section == "bench" and report.bench is not None:
        from preflight.report.formats.table import bench_table

        print(language.lines(bench_table(report.bench)))
    elif section == "rehearsal" and report.rehearsal is not None:
        from preflight.report.formats.rehearsal import rehearsal_table

        print(language.lines(rehearsal_table(report.rehearsal)))
    elif section == "training" and report.training is not None:
        from preflight.report.formats.training import training_table

        print(language.lines(training_table(report.training)))
