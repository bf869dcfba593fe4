"""How does `preflight run --hosts slurm:PARTITION/COUNT` come to its nodes? It starts itself again under salloc."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from preflight.errors import PreflightError

WRITTEN = re.compile(r"slurm:(?P<partition>[A-Za-z0-9_.-]{1,64})/(?P<count>[1-9][0-9]{0,4})")
PATIENCE_SECONDS = 60  # for nodes that are busy: a check is no job that waits in a queue
LONGEST_SECONDS = 86_400  # the run inside keeps a deadline of its own, far shorter
HANDED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# The exit code of salloc is that of what it runs, or its own: the file tells which.
GRANTED = ': > "$0"; exec "$@"'


class Request(NamedTuple):
    """So many nodes of a partition."""

    partition: str
    nodes: int

    def words(self, marker: str, command: Sequence[str]) -> list[str]:
        """The words of salloc: whole nodes, so that nobody else's job is measured along."""
        options = [f"--partition={self.partition}", f"--nodes={self.nodes}", "--exclusive"]
        options.append(f"--immediate={PATIENCE_SECONDS}")
        return ["salloc", "--quiet", *options, "sh", "-c", GRANTED, marker, *command]


def request_in(hosts: str | None) -> Request | None:
    """The request that HOSTS is; None where it names hosts."""
    found = WRITTEN.fullmatch(hosts or "")
    return Request(found["partition"], int(found["count"])) if found else None


def run_inside(request: Request, argv: Sequence[str]) -> int:
    """The same command line in an allocation, with ``slurm`` for its hosts -> its exit code.

    The allocation ends with the run. Raises PreflightError where Slurm gives no nodes in time.
    """
    if shutil.which("salloc") is None:
        raise PreflightError("salloc is not installed here: start preflight where Slurm's commands are")
    # A later --hosts wins over an earlier one, and stands before words for pytest.
    end = argv.index("--") if "--" in argv else len(argv)
    command = [sys.executable, "-m", "preflight", *argv[:end], "--hosts=slurm", *argv[end:]]
    with tempfile.TemporaryDirectory(prefix="preflight-") as folder:
        marker = Path(folder, "granted")
        with subprocess.Popen(request.words(str(marker), command)) as process:
            before = {
                number: signal.signal(number, lambda given, _: process.send_signal(given)) for number in HANDED_ON
            }
            try:
                code = process.wait(timeout=LONGEST_SECONDS)
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
        if not marker.exists():
            raise PreflightError(
                f"Slurm gave no {request.nodes} nodes of {request.partition} in {PATIENCE_SECONDS} s: salloc says why"
            )
    return code if code >= 0 else 128 - code
