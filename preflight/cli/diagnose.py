"""What broke a job, by its logs, or what holds one that hangs now?"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from preflight.diagnose import diagnose_files
from preflight.diagnose.found import Diagnosis
from preflight.diagnose.hanging.live import look
from preflight.diagnose.hanging.next_steps import with_report
from preflight.diagnose.hanging.stuck import compare
from preflight.job.options.options import Options
from preflight.judge.ledger.findings import EXIT_CODES, Verdict
from preflight.reach.hosts import fold
from preflight.report.files import print_json
from preflight.report.formats.diagnosis import diagnosis_document, diagnosis_text
from preflight.report.formats.hanging import hanging_document, hanging_text
from preflight.report.language import ENGLISH, Language
from preflight.report.printable import printable
from preflight.run.folder import dry_run_text, language_of
from preflight.said import said
from preflight.said.errors import UsageError


@dataclass(frozen=True)
class Confirmed:
    """What a check that tests for a cause says of the nodes now."""

    check: str
    verdict: str
    nodes: tuple[str, ...]
    message: str


def nothing(diagnosis: Diagnosis) -> tuple[Confirmed, ...]:
    """What the checks say of a cause where no host was named: nothing, for no node is asked."""
    del diagnosis
    return ()


def diagnose_logs(
    names: list[str],
    json: str,
    ask: Callable[[Diagnosis], tuple[Confirmed, ...]] = nothing,
    language: Language = ENGLISH,
) -> int:
    """Read the logs and say what happened: 0 where the job ended well, 1 where it failed, 3 where they do not tell.

    `ask` asks the nodes about the causes.

    Raises UsageError where a log is not there or none could be read.
    """
    if names.count("-") > 1:
        raise UsageError("diagnose: - is the standard input, and can be named only once")
    diagnosis = diagnose_files(names, say=_progress if sys.stderr.isatty() else lambda _: None)
    if not json:
        print(diagnosis_text(diagnosis, language), end="")
    confirmed = ask(diagnosis)
    if json:
        print_json({**diagnosis_document(diagnosis), "confirmed": [asdict(one) for one in confirmed]}, json)
    for one in confirmed:
        nodes = said(" on {nodes}", fold(one.nodes)) if one.nodes else ""
        line = f"{one.check} {one.verdict}{language.say(nodes)}: {printable(language.say(one.message))}"
        print(line, file=sys.stderr if json else sys.stdout)
    if not diagnosis.lines:
        print(language.say("preflight: diagnose: the logs are empty"), file=sys.stderr)
    code = diagnosis.outcome.exit_code
    return EXIT_CODES[Verdict.ERROR] if diagnosis.gaps and not code else code


def checks_of(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The checks that test for what was found, those of the causes first; at most four."""
    findings = (*diagnosis.causes, *diagnosis.consequences, *diagnosis.notes)
    return tuple(dict.fromkeys(finding.cause.check for finding in findings if finding.cause.check))[:4]


def confirm(diagnosis: Diagnosis, values: Mapping[str, Any], command: tuple[str, ...]) -> tuple[Confirmed, ...]:
    """Run the checks that test for what was found against the hosts, and give what they say."""
    from preflight.cli.run import run_checks
    from preflight.job.options.options import new_run_id
    from preflight.report.json import read_json

    checks = checks_of(diagnosis)
    if not checks:
        return ()
    subjects = ("reach", *dict.fromkeys(check.partition(".")[0] for check in checks))
    folder = Path("reports") / new_run_id()
    needs_jobs = {"bench", "training"} & set(subjects)
    given = {**values, "json": None, "report_dir": str(folder), "verbosity": "line"}
    with contextlib.redirect_stdout(sys.stderr):
        run_checks({**given, "profile": "standard" if needs_jobs else "quick"}, command, subjects=subjects)
    if not (folder / "report.json").is_file():
        return ()
    wanted = {*checks, "reach.every_node_answers"}
    return tuple(
        Confirmed(finding.check, str(finding.counted), finding.nodes, finding.message)
        for finding in read_json(folder / "report.json").findings
        if finding.check in wanted and not (finding.check.startswith("reach.") and finding.counted is Verdict.PASS)
    )


def look_at_job(options: Options, *, match: str, pids: list[int]) -> int:
    """Look at a job now: 0 where it goes on, 1 where it hangs, 3 where that cannot be told, 5 where it has no process.

    Raises UsageError for a pattern that is none.
    """
    try:
        re.compile(match)
    except re.error as error:
        raise UsageError(f"--match {match!r}: {error}") from None
    if options.dry_run:
        print(language_of(options).lines(dry_run_text(options, options.hosts)))
        return 0
    found = look(options.hosts, options.reach, run_id=options.run_id, match=match, pids=pids)
    failures = found.failures
    stuck = with_report(compare(found.ranks, failures), found.reports, failures)
    language = language_of(options)
    if options.json:
        print_json(hanging_document(stuck, failures), options.json)
    else:
        print(language.lines(hanging_text(stuck, failures)), end="")
    if stuck.hangs and stuck.groups and (stuck.guilty or stuck.ras or not failures):
        return EXIT_CODES[Verdict.FAIL]
    if not failures and not stuck.groups:
        return EXIT_CODES[Verdict.SKIP]
    return 0 if stuck.goes_on and not failures else EXIT_CODES[Verdict.ERROR]


def _progress(what: str) -> None:
    print(said("reading: {what}", what), file=sys.stderr)
