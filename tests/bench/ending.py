"""Do exit code and report agree when TERM comes while a run ends? ``python -m tests.bench.ending``: at 200 places.

A stored run is judged by a check that sends its own process TERM at the n-th line executed after it, over the whole
ending: the ledger is closed, the report written, the summary printed, pytest torn down.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from preflight.testing import healthy
from tests.run.suite.test_stopping import SHOOTING
from tests.run.test_stored import written

POINTS = 200
LINES = 60_000  # executed between the check and the end, about
HANGS_SECONDS = 900  # it takes one; many more on a busy machine, and no figure is measured here


def shoot(folder: Path, stored: Path, at: int) -> tuple[int, dict, str]:
    """The exit code, the report and the output of one run."""
    report = folder / f"report-{at}"
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    done = subprocess.run(
        [*argv, f"--from={stored}", f"--report-dir={report}", "test_site.py"],
        cwd=folder,
        env={**os.environ, "SHOT": str(at)},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    return done.returncode, json.loads((report / "report.json").read_text()), done.stdout + done.stderr


def places(count: int) -> list[int]:
    """So many lines: dense at the beginning, where the report is written, and up to the end."""
    return sorted({round(LINES ** (number / count)) + number for number in range(count)})


def main() -> int:
    """Shoot at every place; 1 where code and report differ at one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=POINTS)
    points = parser.parse_args().points
    codes: Counter[int] = Counter()
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "stored").mkdir()
        stored = written(healthy(2), folder / "stored")
        (folder / "test_site.py").write_text(SHOOTING)
        for at in places(points):
            try:
                code, document, output = shoot(folder, stored, at)
            except (subprocess.TimeoutExpired, OSError, ValueError) as error:  # it hangs, or there is no report
                wrong.append(f"line {at}: {type(error).__name__}: {error}")
                continue
            codes[code] += 1
            if not document["finished"] or code != document["exit_code"] or "Traceback" in output:
                wrong.append(f"line {at}: exit code {code}, report {document['verdict']} {document['exit_code']}")
    print("\n".join([*wrong, f"{points} places, exit codes {dict(codes)}, {len(wrong)} where code and report differ"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
