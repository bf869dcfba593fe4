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

from preflight.reach.transport.reach import last_line
from preflight.report.printable import printable
from preflight.said import said
from preflight.said.errors import PreflightError

WRITTEN = re.compile(r"slurm:(?P<partition>[A-Za-z0-9_.-]{1,64})/(?P<count>[1-9][0-9]{0,4})")
PATIENCE_SECONDS = 60  # for nodes that are busy: a check is no job that waits in a queue
MOST_NAMED = 8
LONGEST_SECONDS = 86_400  # the run inside keeps a deadline of its own, far shorter
HANDED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# The exit code of salloc is that of what it runs, or its own: the file shows which.
GRANTED = ': > "$0"; exec "$@"'


# What sinfo calls nodes that no job is given, whatever it waits for; "*" stands behind those that do not respond.
OUT_OF_SERVICE = re.compile(r"down|drain|fail|maint|error|unknown|reboot|power|\*")

GPUS = re.compile(r"(?:^|,)gpu(?::[A-Za-z][\w.-]*)?:(\d{1,5})", re.ASCII)


class Request(NamedTuple):
    """So many nodes of a partition."""

    partition: str
    nodes: int

    def words(self, marker: str, command: Sequence[str], *, gpus: str) -> list[str]:
        """The words of salloc: whole nodes, so that nobody else's job is measured along.

        `gpus` asks for those of each node: a job that is merely exclusive holds them, and its steps have none.
        """
        options = [f"--partition={self.partition}", f"--nodes={self.nodes}", "--exclusive"]
        options += [*([f"--gpus-per-node={gpus}"] if gpus else []), f"--immediate={PATIENCE_SECONDS}"]
        return ["salloc", "--quiet", *options, "sh", "-c", GRANTED, marker, *command]


def request_in(hosts: str | None) -> Request | None:
    """The request that HOSTS is; None where it names hosts."""
    found = WRITTEN.fullmatch(hosts or "")
    return Request(found["partition"], int(found["count"])) if found else None


def why_too_few(request: Request, partition: str) -> str:
    """Why a partition can never have so many nodes for us now; "" where it may.

    `partition` is a line for each of its nodes: ``name|state|reason``, as `sinfo` prints %N|%T|%E.
    """
    nodes = [line.split("|", 2) for line in partition.splitlines() if line.count("|") >= 2]
    if not nodes:
        return said("no partition {partition} is known here: `sinfo` lists them", request.partition)
    out = [(name, state, reason) for name, state, reason in nodes if OUT_OF_SERVICE.search(state)]
    in_service = len(nodes) - len(out)
    if in_service >= request.nodes:
        return ""
    states = "; ".join(_state_text(*node) for node in out[:MOST_NAMED])
    more = said(" and {MOST_NAMED} more", len(out) - MOST_NAMED) if len(out) > MOST_NAMED else ""
    return said("{in_service} of its {nodes} nodes are in service", in_service, len(nodes)) + (
        f": {states}{more}" if out else ""
    )


def _state_text(name: str, state: str, reason: str) -> str:
    if state.endswith("*"):
        return said("{name} does not respond", name)
    return said("{name} is {state}", name, state) + (f" ({reason})" if reason != "none" else "")


def gpus_of_each(resources: str) -> str:
    """How many GPUs every node of a partition has; "" where they differ, or have none.

    `resources` is a line for each kind of its nodes: ``gpu:h100:8(S:0-1),nvme:1``, as `sinfo` prints %G.
    """
    counts = {sum(map(int, GPUS.findall(line))) for line in resources.split()}
    return str(counts.pop()) if len(counts) == 1 and counts != {0} else ""


def _partition(request: Request, fields: str) -> str:
    """What sinfo says of the partition's nodes. Raises PreflightError where it says nothing."""
    words = ["sinfo", "--noheader", "--Node", f"--partition={request.partition}", f"--format={fields}"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise PreflightError("slurmctld does not answer: `scontrol ping`") from None
    if done.returncode:
        raise PreflightError(said("sinfo: {last_line}: `scontrol ping`", last_line(done.stderr, "no output")))
    return done.stdout


def of_what_was_given(word: str) -> str:
    """A word of the command line as it is in the allocation: the hosts are those of it."""
    option, equals, value = word.rpartition("=")
    return f"{option}{equals}slurm" if WRITTEN.fullmatch(value) else word


def run_inside(request: Request, argv: Sequence[str]) -> int:
    """The same command line in an allocation, with ``slurm`` for its hosts -> its exit code.

    The allocation ends with the run. Raises PreflightError where Slurm gives no nodes in time.
    """
    if shutil.which("salloc") is None:
        raise PreflightError("salloc is not installed here: start preflight where Slurm's commands are")
    reason = why_too_few(request, _partition(request, "%N|%T|%E"))
    if reason:
        raise PreflightError(
            said(
                "Slurm has no {nodes} nodes of {partition}: {reason}",
                request.nodes,
                request.partition,
                printable(reason),
            )
        )
    gpus = gpus_of_each(_partition(request, "%G"))
    command = [sys.executable, "-m", "preflight", *(of_what_was_given(word) for word in argv)]
    with tempfile.TemporaryDirectory(prefix="preflight-") as folder:
        marker = Path(folder, "granted")
        with subprocess.Popen(request.words(str(marker), command, gpus=gpus)) as process:
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
                said(
                    "Slurm gave no {nodes} nodes of {partition} in {PATIENCE_SECONDS} s: salloc says why, "
                    "`squeue --partition={partition}` who has them",
                    request.nodes,
                    request.partition,
                    PATIENCE_SECONDS,
                )
            )
    return code if code >= 0 else 128 - code
