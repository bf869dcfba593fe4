"""How do the nodes of a job find each other when every rank runs preflight, and nobody logs in anywhere?

Through torch's own store, at MASTER_ADDR and MASTER_PORT, as the job's ranks would: under torchrun it is the agent's,
elsewhere rank 0 opens it. `lead` runs beside rank 0's preflight and is told what to hand on; `serve` is all that the
other ranks do: one on each node starts what rank 0 asks for, and all of them leave with rank 0's exit code.

Programs in the store are run, and torch's store authenticates nobody. Where PREFLIGHT_SECRET is set on all nodes, a
program must carry a proof of it that was made for this meeting: each node has put a new nonce into the store.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import hmac
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NoReturn

from preflight.job.ranks.attendance import Node, absent, come, disagreement, gathered, node_of, other_version
from preflight.job.ranks.store import (
    LATE_SECONDS,
    LOCAL_RANK,
    LOCAL_WORLD,
    NOT_MEASURED,
    POLL_SECONDS,
    RANK,
    WORLD,
    Guard,
    open_store,
    why_no_answer,
    why_no_store,
    why_not_here,
)

ACKNOWLEDGE_SECONDS = 5.0
LONGEST_SECONDS = 24 * 3600.0
END_SECONDS = 3.0
SILENT_SECONDS = 15.0  # a store that says nothing for so long is lost, its machine with it; sooner in a short run
REPORT_SECONDS = 30.0  # for rank 0's report, after its deadline
NOT_MET = (
    "rank {rank} on {name} is not in this meeting: it came when the others had met, or another process came as the same"
    " rank; start each rank once, all within PREFLIGHT_JOIN_SECONDS"
)
TASK_PROGRAM = "PREFLIGHT_TASK"
LOGGED = "TORCH_CPP_LOG_LEVEL"
# What a launcher gives to each rank, and the job's own port, which this meeting uses: no facts of the node.
OF_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PREFLIGHT_SECRET")
OF_LAUNCHERS = (
    *("GROUP_", "ROLE_", "TORCHELASTIC_", "PET_", "PREFLIGHT_MEETING", "PMI_", "PMIX_", "HYDI_", "MPI_LOCAL"),
    *("OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "MV2_COMM_WORLD_"),
)


def proof(*texts: str) -> str:
    """The proof that a program comes from a holder of the job's secret; "" where the job has none."""
    secret = os.environ.get("PREFLIGHT_SECRET", "")
    return hmac.new(secret.encode(), json.dumps(texts).encode(), hashlib.sha256).hexdigest() if secret else ""


def whereabouts(version: str) -> Node:
    """Of this node: its name, the address that it has towards rank 0, and what MASTER_ADDR leads to here."""
    family, kind, protocol, _, target = socket.getaddrinfo(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(target)
        own = probe.getsockname()[0]
    return Node(socket.gethostname(), own, str(target[0]), secrets.token_hex(16), RANK, WORLD, LOCAL_WORLD, version)


def is_proved(message: dict[str, Any], here: Node) -> bool:
    """Whether a program was put into the store by a holder of the secret, for this meeting."""
    nonces = message.get("nonces", [])
    wanted = proof(message["program"], message["loader"], *nonces)
    return hmac.compare_digest(message["proof"].encode(), wanted.encode()) and (not wanted or here.nonce in nonces)


def why_refused(message: dict[str, Any], here: Node) -> str:
    """Why a program is not for us; "" where it is. Rank 0 names the nonce of every process that it met."""
    if here.nonce not in message.get("nonces", [here.nonce]):
        return NOT_MET.format(rank=here.rank, name=here.name)
    return "" if is_proved(message, here) else "a program without proof of PREFLIGHT_SECRET was refused"


class Tasks:
    """What rank 0 asked for on this node: at most one process at a time, which ends with us."""

    def __init__(self, here: Node) -> None:
        self.here = here
        self.process: subprocess.Popen[bytes] | None = None
        self.is_refused = False  # the last program was not for us: no verdict is of this node

    def start(self, program: str, loader: str) -> None:
        """Run a task's program; what ran before it is over."""
        self.end()
        own = {
            name: value
            for name, value in os.environ.items()
            if name not in OF_RANKS and not name.startswith(OF_LAUNCHERS)
        }
        more = {"PREFLIGHT_ADDRESS": self.here.address, "PREFLIGHT_NUMBER": str(RANK)}
        own |= {**more, "PREFLIGHT_CONTROLLER": self.here.master, TASK_PROGRAM: program}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", loader],
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - nothing else of us runs between fork and exec
        )

    def end(self) -> None:
        """The agent of a node ends when its connection does; then, or soon, so does the process."""
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_SECONDS)
            self.process.kill()
            self.process.wait(timeout=END_SECONDS)
            self.process = None


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """No process of ours outlives its rank; with 0, this one does."""
    ctypes.CDLL(None).prctl(1, number, 0, 0, 0)


def follow(
    store: Any,
    tasks: Tasks | None,
    heard: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> int:
    """Start what is asked for, until there is a verdict: its exit code. 3 where rank 0 is lost.

    Each question to the store is asked within what `heard` gives.
    """
    seen = 0
    until = time.monotonic() + LONGEST_SECONDS
    try:
        while time.monotonic() < until:
            with heard():
                program = (
                    store.get(f"program/{seen}") if tasks is not None and store.check([f"program/{seen}"]) else None
                )
                verdict = store.get("verdict") if store.check(["verdict"]) else None
            if tasks is not None and program is not None:
                message = json.loads(program)
                seen += 1
                refused = why_refused(message, tasks.here)
                tasks.is_refused = bool(refused)
                if refused:
                    complain(refused)
                else:
                    tasks.start(message["program"], message["loader"])
            elif verdict is not None:
                return NOT_MEASURED if tasks is not None and tasks.is_refused else int(verdict)
            else:
                time.sleep(POLL_SECONDS)
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:  # RecursionError is one of them
        complain(f"rank 0 is gone: {str(error).splitlines()[0][:200]}")
    return NOT_MEASURED


def complain(text: str) -> None:
    """A line of this rank; what others put into the store may be in it."""
    print("preflight:", "".join(filter(str.isprintable, text)), file=sys.stderr, flush=True)


def serve(guard: Guard, version: str, join_seconds: float, seconds: float) -> int:
    """What every rank but the first does."""
    where = f"rank {RANK} found no store at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    try:
        with guard.within(join_seconds + LATE_SECONDS, lambda: f"{where}: {why_no_answer()}"):
            store = open_store(join_seconds)
            here = whereabouts(version)
            if LOCAL_RANK == 0:
                come(store, here)
    except (RuntimeError, OSError) as error:
        complain(f"{where}: {why_no_answer()}; torch: {str(error).splitlines()[0][:200]}")
        return NOT_MEASURED
    lost = f"rank 0 did not come within {join_seconds:g} s"
    try:
        with guard.within(join_seconds + LATE_SECONDS, lambda: lost):
            text = store.get("first")
    except RuntimeError:
        complain(lost)
        return NOT_MEASURED
    first = node_of(text)
    if other := disagreement(here, first, {}) if first is not None else other_version(text, here):
        complain(f"rank {RANK} did not join: {other}")
        with contextlib.suppress(RuntimeError), guard.within(LATE_SECONDS, lambda: lost):
            store.add("left", 1)
        return NOT_MEASURED
    tasks = Tasks(here) if LOCAL_RANK == 0 else None
    silent = min(SILENT_SECONDS, max(END_SECONDS, seconds / 4))

    def heard() -> contextlib.AbstractContextManager[None]:
        return guard.within(silent, lambda: f"rank 0 is gone: its store said nothing for {silent:g} s")

    try:
        code = follow(store, tasks, heard)
    finally:
        if tasks is not None:
            tasks.end()
    why = "rank 0 is lost"
    with contextlib.suppress(RuntimeError), heard():
        if tasks is None or not tasks.is_refused:  # rank 0 waits for those that it met
            store.add("left", 1)
        why = store.get("why").decode("utf-8", "replace") if store.check(["why"]) else "rank 0 has the report"
    if LOCAL_RANK == 0:
        complain(f"{here.name}: exit code {code}; {why}")
    return code


def lead(guard: Guard, version: str, join_seconds: float, seconds: float) -> int:
    """Beside rank 0's preflight: tell who came, hand on its programs, and its exit code at the end."""
    try:
        with guard.within(join_seconds + LATE_SECONDS, why_not_here):
            store = open_store(join_seconds)
            here = whereabouts(version)
            store.set("first", json.dumps(asdict(here)))
            come(store, here)
    except (RuntimeError, OSError) as error:
        refuse(why_no_store(str(error)))
        return NOT_MEASURED
    came, trouble = gathered(store, here, seconds=join_seconds)
    guard.retire()  # it ends when its standard input does: rank 0's preflight tells the exit code there
    die_with_parent(0)
    others = sum(max(0, min(node.local, WORLD - rank)) for rank, node in came.items()) - 1
    if trouble:
        refuse(trouble)
        store.set("why", trouble)
        dismiss(store, NOT_MEASURED, WORLD - 1)  # who comes a moment later is told too
        return NOT_MEASURED
    with tempfile.TemporaryDirectory(prefix="preflight-") as folder, socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{folder}/door")
        door.listen()
        nodes = [(rank, asdict(node)) for rank, node in came.items()]
        print(json.dumps({"nodes": nodes, "absent": absent(came, here), "door": f"{folder}/door"}), flush=True)
        tasks = Tasks(here)
        own = threading.Thread(target=follow, args=(store, tasks), daemon=True)
        own.start()
        code = hand_on(store, door, [node.nonce for node in came.values()], seconds=seconds + REPORT_SECONDS)
        dismiss(store, code, others)
        own.join(2 * END_SECONDS)
        tasks.end()
    return code


def refuse(why: str) -> None:
    """Tell rank 0's preflight why there is no meeting."""
    print(json.dumps({"error": why}), flush=True)


def dismiss(store: Any, code: int, others: int) -> None:
    """Tell the other ranks the exit code, and wait a moment until they have it: the store ends with us."""
    store.set("verdict", str(code))
    until = time.monotonic() + ACKNOWLEDGE_SECONDS
    with contextlib.suppress(RuntimeError):
        while store.add("left", 0) < others and time.monotonic() < until:
            time.sleep(POLL_SECONDS)


def hand_on(store: Any, door: socket.socket, nonces: list[str], *, seconds: float) -> int:
    """Each program that comes through the door, until standard input says the exit code; 3 where it just ends."""
    held: list[socket.socket] = []
    count = 0
    until = time.monotonic() + seconds
    while True:
        ready = select.select([sys.stdin, door], [], [], max(0.0, until - time.monotonic()))[0]
        if not ready:
            return NOT_MEASURED
        if sys.stdin in ready:
            line = sys.stdin.readline().strip()
            return int(line) if line.isdigit() else NOT_MEASURED
        wire, _ = door.accept()
        program, loader = json.loads(wire.makefile("r", encoding="utf-8").readline())
        message = {"program": program, "loader": loader, "nonces": nonces, "proof": proof(program, loader, *nonces)}
        store.set(f"program/{count}", json.dumps(message))
        count += 1
        held.append(wire)  # closed with us: whoever waits at its other end sees that we are gone


def main() -> NoReturn:
    """``lead`` or ``serve``, preflight's version, how long the ranks may take to come and rank 0's run to end."""
    leads, version, join_seconds, seconds = sys.argv[1] == "lead", sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    guard = Guard(refuse if leads else complain)
    if leads:
        die_with_parent()
    given = os.environ.get(LOGGED)
    os.environ.setdefault(LOGGED, "ERROR")  # torch prints its own stack at each peer that does not answer
    try:
        import torch.distributed  # noqa: F401 - it may take long, and nobody is late for it
    except (ImportError, OSError) as error:
        (refuse if leads else complain)(f"torch cannot be imported by {sys.executable}: {error}")
        sys.exit(NOT_MEASURED)
    if given is None:
        del os.environ[LOGGED]  # it is no setting of the node
    code = (lead if leads else serve)(guard, version, join_seconds, seconds)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # torch's threads are not waited for


if __name__ == "__main__":
    main()
