"""How are namespaces made, entered and ended, when a process of ours holds them?"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The arguments after the line show in `ps` which lab and which host a process holds.
LOADER = "import json,sys;order=json.loads(sys.stdin.readline());exec(order['code'])"
# What a login gives; nothing of the shell that started the lab reaches its hosts.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": str(Path("~root").expanduser()),
    "LANG": "C.UTF-8",
}


class LabError(Exception):
    """The lab could not do what was asked."""


@dataclass(frozen=True)
class Space:
    """Namespaces held by one process, named by its pid and the tick at which it started: pids are used again."""

    name: str
    pid: int
    started_ticks: int
    own_pids: bool

    def enter(self, *namespaces: str) -> list[str]:
        """The argv prefix that puts a command into these namespaces; without any named, into all of them."""
        kinds = ["net", "mount", "uts", *(["ipc", "pid"] if self.own_pids else [])]
        return ["nsenter", f"--target={self.pid}", *(f"--{kind}" for kind in namespaces or kinds), "--"]

    def root(self, path: str) -> Path:
        """`path` as it is seen inside, for reading from outside."""
        return Path(f"/proc/{self.pid}/root{path}")

    @property
    def is_alive(self) -> bool:
        """Does the process that holds these namespaces still run?"""
        return _started_ticks(self.pid) == self.started_ticks

    def members(self) -> list[int]:
        """The pids of all processes in here, as the machine counts them."""
        kind = "pid" if self.own_pids else "net"
        found = []
        try:
            ours = os.stat(f"/proc/{self.pid}/ns/{kind}").st_ino
        except FileNotFoundError:
            return found
        if not self.is_alive:  # the pid belongs to another process by now
            return found
        for name in filter(str.isdigit, os.listdir("/proc")):
            # It ended meanwhile, or belongs to someone whom even root may not look at: not ours.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if os.stat(f"/proc/{name}/ns/{kind}").st_ino == ours:
                    found.append(int(name))
        return found

    def kill(self) -> None:
        """Kill everything inside and wait until it is gone."""
        deadline = time.monotonic() + 10
        while self.is_alive:
            if time.monotonic() > deadline:
                raise LabError(f"{self.name}: still running 10 s after SIGKILL: {self.members()}")
            others = [pid for pid in self.members() if pid != self.pid]
            # The holder last: by it the others are found, what they start meanwhile too. A host's takes all with it.
            for pid in [self.pid] if self.own_pids else others or [self.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)


def call(argv: Sequence[str], *, text: str = "", timeout_s: float = 30) -> str:
    """Run a command that must succeed -> its stdout."""
    done = subprocess.run(  # noqa: PLW1510 - the error names what the command said
        argv, input=text, capture_output=True, text=True, timeout=timeout_s, env=ENVIRONMENT
    )
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)[:300]}: exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def start_holder(spec: dict[str, Any], *, tag: str, namespaces: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process in new namespaces that settles them as inside.py's `settle` describes and holds them."""
    holder = subprocess.Popen(
        [
            *("unshare", *(f"--{kind}" for kind in namespaces), "--fork", "--kill-child", "--"),
            *(sys.executable, "-I", "-S", "-c", LOADER, "hold", tag, spec["hostname"]),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=ENVIRONMENT,
        cwd="/",
        start_new_session=True,  # ^C at a terminal is for the tests, which then end the lab in order
    )
    holder.stdin.write(_order(spec).encode())
    holder.stdin.flush()
    return holder


def await_holder(holder: subprocess.Popen[bytes], *, name: str, own_pids: bool) -> Space:
    """Wait until a holder has settled -> its namespaces."""
    ready, _, _ = select.select([holder.stdout], [], [], 30)
    line = holder.stdout.readline() if ready else b"no answer within 30 s"
    if not line.startswith(b'{"pid"'):
        holder.kill()
        said = line + holder.stdout.read()
        holder.wait(5)
        raise LabError(f"{name}: its namespaces could not be made: {said.decode(errors='replace').strip()}")
    holder.stdout.close()
    pid = json.loads(line)["pid"]
    return Space(name, pid, _started_ticks(pid), own_pids)


def stop_holder(holder: subprocess.Popen[bytes]) -> None:
    """Kill a holder and with it all that is in its namespaces."""
    for stream in (holder.stdin, holder.stdout):
        stream.close()
    holder.kill()
    holder.wait(5)


def change_mounts(space: Space, operations: Sequence[Sequence[Any]], *, tag: str, scratch: str) -> list[list[Any]]:
    """Carry out inside.py's operations in these namespaces -> the operations that undo them."""
    spec = {"tag": tag, "scratch": scratch, "operations": operations}
    argv = [*space.enter(), sys.executable, "-I", "-S", "-c", LOADER, "change"]
    undo: list[list[Any]] = json.loads(call(argv, text=_order(spec)))
    return undo


def _order(spec: dict[str, Any]) -> str:
    return json.dumps({"code": Path(__file__).with_name("inside.py").read_text(), "spec": spec}) + "\n"


def _started_ticks(pid: int) -> int:
    """When a process started; 0 when there is none, or only what its parent has not reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])
