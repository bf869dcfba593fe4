"""What broke a job, by its logs, or what holds one that hangs now?"""

from __future__ import annotations

import re
import sys

from preflight.diagnose import diagnose_files
from preflight.diagnose.live import look
from preflight.diagnose.stuck import compare
from preflight.errors import UsageError
from preflight.ledger.findings import EXIT_CODES, Verdict
from preflight.options.options import Options
from preflight.report.files import print_json
from preflight.report.formats.diagnosis import diagnosis_document, diagnosis_text
from preflight.report.formats.hanging import hanging_document, hanging_text
from preflight.run.folder import dry_run_text


def diagnose_logs(names: list[str], json: str) -> int:
    """Read the logs and say what happened: 0, or 5 where they held no line.

    Raises UsageError for one that cannot be read.
    """
    if names.count("-") > 1:
        raise UsageError("diagnose: - is the standard input and can be named once")
    diagnosis = diagnose_files(names, say=_progress if sys.stderr.isatty() and len(names) > 1 else lambda _: None)
    if json:
        print_json(diagnosis_document(diagnosis), json)
    else:
        print(diagnosis_text(diagnosis), end="")
    if not diagnosis.lines:
        print("preflight: diagnose: the logs hold no line", file=sys.stderr)
        return EXIT_CODES[Verdict.SKIP]
    return 0


def look_at_job(options: Options, *, match: str, pids: list[int]) -> int:
    """Look at a job that hangs now: 0, 3 where a node could not be looked at, 5 where no process is of the job.

    Raises UsageError for a pattern that is none.
    """
    try:
        re.compile(match)
    except re.error as error:
        raise UsageError(f"--match {match!r}: {error}") from None
    if options.dry_run:
        print(dry_run_text(options, options.hosts))
        return 0
    found, failures = look(options.hosts, options.reach, run_id=options.run_id, match=match, pids=pids)
    stuck = compare(found)
    if options.json:
        print_json(hanging_document(stuck, failures), options.json)
    else:
        print(hanging_text(stuck, failures), end="")
    if failures:
        return EXIT_CODES[Verdict.ERROR]
    if not stuck.groups:
        print("preflight: diagnose: no process of that job was found", file=sys.stderr)
        return EXIT_CODES[Verdict.SKIP]
    return 0


def _progress(name: str) -> None:
    print(f"reading {name}", file=sys.stderr)
