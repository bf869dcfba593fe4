"""How long does a newcomer wait for a first verdict? ``python -m tests.bench.newcomer``.

README's first command, word for word, in a copy of this commit in an empty folder, with an empty HOME. torch is fetched
before the clock starts, for its gigabyte says more of the line than of us; what else is installed comes from the index.
Ends with 1 where there is no verdict, or it took more than 90 s.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.house import ROOT

LIMIT_SECONDS = 90.0
COMMAND = re.compile(r"^    (python3 -m venv \.venv && .* \.venv/bin/preflight run)$", re.MULTILINE)
VERDICT = re.compile(r"^(GO|GO, WITH WARNINGS|NO-GO|NOT MEASURED)  .*$", re.MULTILINE)


def first_command(readme: str) -> tuple[str, str]:
    """README's first command: what sets up, and what runs."""
    command = COMMAND.search(readme)
    assert command is not None
    prepared, _, run = command[1].rpartition(" && ")
    return prepared, run


def pinned(constraints: str) -> str:
    """The version of torch that the tests are run with, as pip takes it."""
    return next(line for line in constraints.splitlines() if line.startswith("torch=="))


def main() -> int:
    """Copy, fetch torch, then type the command under the clock."""
    prepared, run = first_command((ROOT / "README.md").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as place:
        folder, wheels, home = (Path(place, name) for name in ("preflight", "wheels", "home"))
        for path in (folder, wheels, home):
            path.mkdir()
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
        torch = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
        fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), torch]
        subprocess.run(fetch, check=True)
        environment = {**os.environ, "HOME": str(home), "PIP_FIND_LINKS": str(wheels), "PIP_NO_CACHE_DIR": "1"}
        environment.pop("VIRTUAL_ENV", None)
        begun = time.monotonic()
        subprocess.run(["bash", "-c", prepared], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
        ready = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", run], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        ended = time.monotonic()
    verdict = VERDICT.search(done.stdout)
    print(f"set-up         {ready - begun:5.0f} s  (torch was fetched before)")
    print(
        f"first verdict  {ended - ready:5.0f} s  {verdict[0] if verdict else done.stdout[-500:] + done.stderr[-500:]}"
    )
    print(f"together       {ended - begun:5.0f} s, wanted at most {LIMIT_SECONDS:.0f} s")
    return 0 if verdict and done.returncode == 0 and ended - begun <= LIMIT_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
