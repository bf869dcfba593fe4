"""How is the user's own start rehearsed from the command line, and what is said and asked before?"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from preflight.cli.run import run_checks
from preflight.judge.ledger.findings import EXIT_CODES, Verdict
from preflight.launch.cast import Script, scripts_of, writing_lines
from preflight.report.printable import printable
from preflight.run.history import REPORTS
from preflight.said import said
from preflight.said.errors import UsageError
from preflight.said.redact import without_secrets

SLURM = "slurm"
SECONDS = 300.0
DECLINED = EXIT_CODES[Verdict.SKIP]  # the exit code where the person at the terminal says no
SEEN = "rehearsed"  # in the folder of reports: the digests of scripts that were rehearsed before


def rehearse(values: Mapping[str, Any], command: tuple[str, ...]) -> int:
    """``preflight rehearse``: its exit code."""
    if not values["dry_run"] and not is_told_and_agreed(values):
        return DECLINED
    scripts = scripts_of(values["rehearse"])
    if values["hosts"] == SLURM and "SLURM_JOB_ID" not in os.environ and not values["dry_run"]:
        from preflight.cli.rehearsal.submit import submitted

        if len(scripts) != 1 or not scripts[0].is_batch:
            raise UsageError("rehearse --hosts=slurm: without an allocation wanted one file with #SBATCH lines")
        with submitted(scripts[0], seconds=float(values["deadline"] or SECONDS)):
            return _run(values, command)
    return _run(values, command)


def is_told_and_agreed(values: Mapping[str, Any]) -> bool:
    """Say what is about to happen, and ask where that has to be asked -> whether it may."""
    scripts = scripts_of(values["rehearse"])
    print(notice(scripts), file=sys.stderr if values["json"] == "-" else sys.stdout)
    return is_agreed(scripts, is_yes=bool(values["yes"]))


def _run(values: Mapping[str, Any], command: tuple[str, ...]) -> int:
    return run_checks({**values, "profile": None}, command, subjects=("reach", "rehearse"), section="rehearsal")


def notice(scripts: Sequence[Script]) -> str:
    """What is about to happen, in the first line."""
    names = ", ".join(dict.fromkeys(printable(script.name) for script in scripts))
    return said(
        "{names} runs for real: only its training program is exchanged for the reference job, every "
        "other command runs as it stands (PREFLIGHT_REHEARSAL=1 is set)",
        names,
    )


def is_agreed(scripts: Sequence[Script], *, is_yes: bool) -> bool:
    """Whether the scripts may run: on a terminal a script that is new here is asked about, with what it changes."""
    seen = REPORTS / SEEN
    digests = {hashlib.sha256(script.text.encode()).hexdigest() for script in scripts}
    with contextlib.suppress(OSError):
        if digests <= {*seen.read_text(encoding="utf-8").split()}:
            return True
    if not is_yes and sys.stdin.isatty():
        for script in dict.fromkeys(scripts):
            for number, text in writing_lines(script):
                print(printable(f"  {script.name}:{number}: {without_secrets(text)}"))
        print("Run it on the nodes? [y/N] (--yes does not ask) ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return False
    _remember(seen, digests)
    return True


def _remember(seen: Path, digests: set[str]) -> None:
    with contextlib.suppress(OSError):  # where it cannot be kept, the next run asks again
        seen.parent.mkdir(exist_ok=True)
        with seen.open("a", encoding="utf-8") as file:
            file.write("".join(f"{digest}\n" for digest in sorted(digests)))
