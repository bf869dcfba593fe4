"""How do the nodes of a job find each other when every rank runs preflight, and nobody logs in anywhere?

Through torch's own store, at MASTER_ADDR and MASTER_PORT, as the job's ranks would: under torchrun it is the agent's,
elsewhere rank 0 opens it. `lead` runs beside rank 0's preflight and is told what to hand on; `serve` is all that the
other ranks do: one on each node starts what rank 0 asks for, and all of them leave with rank 0's exit code.

What the store holds is run: like torch's own, it asks nobody who he is. Where PREFLIGHT_SECRET is set on all nodes, a
program must carry a proof of it that was made for this meeting: each node has put a new nonce into it.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta
from typing import Any, NoReturn

JOIN_SECONDS = float(os.environ.get("PREFLIGHT_JOIN_SECONDS", "60"))
POLL_SECONDS = 0.1
ACKNOWLEDGE_SECONDS = 5.0
LONGEST_SECONDS = 24 * 3600.0
END_SECONDS = 3.0
NOT_MEASURED = 3
TASK_PROGRAM = "PREFLIGHT_TASK"
# What a launcher gives to each rank, and the job's own port, which this meeting uses: no facts of the node.
OF_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PREFLIGHT_SECRET")
OF_LAUNCHERS = (
    *("GROUP_", "ROLE_", "TORCHELASTIC_", "PET_", "PREFLIGHT_MEETING", "PMI_", "PMIX_", "HYDI_", "MPI_LOCAL"),
    *("OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "MV2_COMM_WORLD_"),
)


def number(name: str, otherwise: int) -> int:
    """A variable of the rank as a number."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else otherwise


RANK, WORLD = number("RANK", 0), number("WORLD_SIZE", 1)
LOCAL_WORLD = number("LOCAL_WORLD_SIZE", 1)
LOCAL_RANK = number("LOCAL_RANK", RANK % LOCAL_WORLD)


def open_store() -> Any:
    """The store that the ranks share. Raises RuntimeError where it cannot be reached in time."""
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

    is_agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        WORLD,
        is_master=RANK == 0 and not is_agents,
        timeout=timedelta(seconds=JOIN_SECONDS),
        wait_for_workers=False,
    )
    return PrefixStore(f"preflight/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def proof(*texts: str) -> str:
    """What shows that a program comes from somebody who knows the job's secret; "" where it has none."""
    secret = os.environ.get("PREFLIGHT_SECRET", "")
    return hmac.new(secret.encode(), json.dumps(texts).encode(), hashlib.sha256).hexdigest() if secret else ""


def whereabouts() -> dict[str, str]:
    """Of this node: its name, the address that it has towards rank 0, and what MASTER_ADDR leads to here."""
    family, kind, protocol, _, target = socket.getaddrinfo(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(target)
        own = {"name": socket.gethostname(), "address": probe.getsockname()[0], "master": str(target[0])}
        return {**own, "nonce": secrets.token_hex(16)}


def node_of(text: bytes | str) -> dict[str, str] | None:
    """A node as a rank told it; None for what no rank of ours would say."""
    try:
        told = json.loads(text)
        node = {key: told[key] for key in ("name", "address", "master", "nonce")}
        for address in (node["address"], node["master"]):
            ipaddress.ip_address(address.partition("%")[0])
        is_good = re.fullmatch(r"[A-Za-z0-9_][\w.-]{0,252}", node["name"], re.ASCII) and isinstance(node["nonce"], str)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return node if is_good else None


def is_proved(told: dict[str, Any], here: dict[str, str]) -> bool:
    """Whether whoever put a program into the store knows the secret, and put it there for this meeting."""
    nonces = told.get("nonces", [])
    wanted = proof(told["program"], told["loader"], *nonces)
    return hmac.compare_digest(told["proof"].encode(), wanted.encode()) and (not wanted or here["nonce"] in nonces)


class Tasks:
    """What rank 0 asked for on this node: at most one process at a time, which ends with us."""

    def __init__(self, here: dict[str, str]) -> None:
        self.here = here
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, program: str, loader: str) -> None:
        """Run a task's program; what ran before it is over."""
        self.end()
        own = {
            name: value
            for name, value in os.environ.items()
            if name not in OF_RANKS and not name.startswith(OF_LAUNCHERS)
        }
        told = {"PREFLIGHT_ADDRESS": self.here["address"], "PREFLIGHT_NUMBER": str(RANK)}
        own |= {**told, "PREFLIGHT_CONTROLLER": self.here["master"], TASK_PROGRAM: program}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", loader],
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


def die_with_parent() -> None:
    """No process of ours outlives its rank."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)


def follow(store: Any, tasks: Tasks | None) -> int:
    """Start what is asked for, until there is a verdict: its exit code. 3 where rank 0 is lost."""
    seen = 0
    until = time.monotonic() + LONGEST_SECONDS
    try:
        while time.monotonic() < until:
            if tasks is not None and store.check([f"program/{seen}"]):
                told = json.loads(store.get(f"program/{seen}"))
                seen += 1
                if not is_proved(told, tasks.here):
                    print("preflight: a program without proof of PREFLIGHT_SECRET was refused", file=sys.stderr)
                    continue
                tasks.start(told["program"], told["loader"])
            if store.check(["verdict"]):
                return int(store.get("verdict"))
            time.sleep(POLL_SECONDS)
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:  # RecursionError is one of them
        print(f"preflight: rank 0 is gone: {str(error).splitlines()[0][:200]}", file=sys.stderr)
    return NOT_MEASURED


def serve() -> int:
    """What every rank but the first does."""
    try:
        store = open_store()
        here = whereabouts()
        if LOCAL_RANK == 0:
            store.set(f"node/{RANK}", json.dumps(here))
    except (RuntimeError, OSError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        print(f"preflight: rank {RANK} found no store at {where}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
        return NOT_MEASURED
    tasks = Tasks(here) if LOCAL_RANK == 0 else None
    try:
        code = follow(store, tasks)
    finally:
        if tasks is not None:
            tasks.end()
    with contextlib.suppress(RuntimeError):
        store.add("left", 1)
    if LOCAL_RANK == 0:
        print(f"preflight: {here['name']}: exit code {code}; rank 0 has the report", file=sys.stderr)
    return code


def gathered(store: Any, here: dict[str, str]) -> dict[int, dict[str, str]]:
    """Rank -> node, of the nodes that came in time: rank 0's own at once."""
    store.set("node/0", json.dumps(here))
    wanted = set(range(0, WORLD, LOCAL_WORLD))
    found: dict[int, dict[str, str]] = {}
    until = time.monotonic() + JOIN_SECONDS
    while wanted - found.keys() and time.monotonic() < until:
        for rank in sorted(wanted - found.keys()):
            if store.check([f"node/{rank}"]) and (node := node_of(store.get(f"node/{rank}"))):
                found[rank] = node
        time.sleep(POLL_SECONDS)
    return dict(sorted(found.items()))


def lead() -> int:
    """Beside rank 0's preflight: tell who came, hand on its programs, and its exit code at the end."""
    try:
        store = open_store()
        here = whereabouts()
    except (RuntimeError, OSError) as error:
        print(json.dumps({"error": why_no_store(str(error))}), flush=True)
        return NOT_MEASURED
    nodes = gathered(store, here)
    absent = [rank for rank in range(0, WORLD, LOCAL_WORLD) if rank not in nodes]
    with tempfile.TemporaryDirectory(prefix="preflight-") as folder, socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{folder}/door")
        door.listen()
        print(json.dumps({"nodes": list(nodes.items()), "absent": absent, "door": f"{folder}/door"}), flush=True)
        tasks = Tasks(here)
        own = threading.Thread(target=follow, args=(store, tasks), daemon=True)
        own.start()
        code = hand_on(store, door, [node["nonce"] for node in nodes.values()])
        store.set("verdict", str(code))
        own.join(2 * END_SECONDS)
        tasks.end()
        others = sum(max(0, min(LOCAL_WORLD, WORLD - rank)) for rank in nodes) - 1
        until = time.monotonic() + ACKNOWLEDGE_SECONDS
        with contextlib.suppress(RuntimeError):
            while store.add("left", 0) < others and time.monotonic() < until:
                time.sleep(POLL_SECONDS)
    return code


def why_no_store(error: str) -> str:
    """Why rank 0 could not open the store, with what to do where it is known; torch's own words elsewhere."""
    if "EADDRINUSE" not in error:
        return error.splitlines()[0][:300]
    port = os.environ["MASTER_PORT"]
    return (
        f"port {port} is in use on this node, by another rank 0 or another program: give each node its own rank, or"
        f" another MASTER_PORT to all; `ss -ltnp 'sport = :{port}'` shows who listens"
    )


def hand_on(store: Any, door: socket.socket, nonces: list[str]) -> int:
    """Each program that comes through the door, until standard input says the exit code; 3 where it just ends."""
    held: list[socket.socket] = []
    count = 0
    while True:
        ready = select.select([sys.stdin, door], [], [], LONGEST_SECONDS)[0]
        if not ready:
            return NOT_MEASURED
        if sys.stdin in ready:
            line = sys.stdin.readline().strip()
            return int(line) if line.isdigit() else NOT_MEASURED
        wire, _ = door.accept()
        program, loader = json.loads(wire.makefile("r", encoding="utf-8").readline())
        told = {"program": program, "loader": loader, "nonces": nonces, "proof": proof(program, loader, *nonces)}
        store.set(f"program/{count}", json.dumps(told))
        count += 1
        held.append(wire)  # closed with us: whoever waits at its other end sees that we are gone


def main() -> NoReturn:
    """``lead`` or ``serve``."""
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda which, _frame: sys.exit(128 + which))
    code = lead() if sys.argv[1:] == ["lead"] else serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # torch's threads are not waited for


if __name__ == "__main__":
    main()
