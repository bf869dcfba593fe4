"""What broke a job, by its logs, or what holds one that hangs now?"""

from __future__ import annotations

import sys

from preflight.diagnose import diagnose_files
from preflight.errors import UsageError
from preflight.ledger.findings import EXIT_CODES, Verdict
from preflight.report.files import print_json
from preflight.report.formats.diagnosis import diagnosis_document, diagnosis_text


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


def _progress(name: str) -> None:
    print(f"reading {name}", file=sys.stderr)
