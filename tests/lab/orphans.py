"""Who ends, or is cut off, while a job runs on hosts of a lab, and what is left there then?

A sample is one host with one session and one job of its own. All hosts of a lab are samples of the same round, each at
a moment of its own: while it is logged in to, while the job starts, or while it runs.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from preflight.reach.session.connection import LEASE_SECONDS
from tests.lab import faults
from tests.lab.hold_jobs import MARK, PORT
from tests.lab.host import LabHost
from tests.lab.lab import Lab
from tests.lab.residue import Residue, is_listening
from tests.lab.spaces import Space

PATIENCE_SECONDS = 5.0  # past the time within which the agent notices
UNOPENED_SECONDS = 30.0  # an agent's lease until the controller has opened the session, and a loader's alarm
UP_SECONDS = 90.0
AGENT = "import sys,zlib"  # in the command line of the node agent, and of what it forked for a call


@dataclass(frozen=True)
class Process:
    """A process as the machine counts."""

    pid: int
    parent: int
    words: str


@dataclass(frozen=True)
class Round:
    """What became of the hosts of a lab: the lines of what is left on each, and the seconds until nothing was."""

    left: Mapping[str, Sequence[str]]
    seconds: float


def processes(space: Space) -> Iterator[Process]:
    """Those of a host, or of the controller."""
    for pid in space.members():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            yield Process(pid, int(fields[1]), words)


def topmost(space: Space, word: str) -> list[Process]:
    """The processes with a word in their command line whose parent has not got it."""
    found = [process for process in processes(space) if word in process.words]
    pids = {process.pid for process in found}
    return [process for process in found if process.parent not in pids]


def kill_all(found: Sequence[Process]) -> bool:
    """SIGKILL to each; whether there was one."""
    for process in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    return bool(found)


def kill_client(lab: Lab, host: LabHost) -> bool:
    """The ssh on the controller that leads to the host."""
    clients = [p for p in processes(lab.controller) if p.words.startswith("ssh ") and f" {host.name} " in p.words]
    return kill_all(clients)


def kill_agent(_lab: Lab, host: LabHost) -> bool:
    """What serves the session on the host, and would clean up."""
    return kill_all(topmost(host.space, AGENT))


def kill_rank(_lab: Lab, host: LabHost) -> bool:
    """The process that the job was started as."""
    return kill_all([process for process in topmost(host.space, MARK) if process.parent != 1][:1])


@dataclass(frozen=True)
class Kind:
    """Who ends: by what, when, and what may stay that is not ours."""

    end: Callable[[Lab, LabHost], bool] | None = None  # whether it could be done; None: the host's own controller
    plant: Callable[[LabHost], faults.Planted] | None = None
    while_held: bool = False  # only when the job runs
    while_loading: bool = False  # as soon as there is a Python on the host, which may not have its program yet
    noticed_seconds: float = LEASE_SECONDS  # at the latest, by the agent
    spared: tuple[str, ...] = ()


def freeze(host: LabHost) -> faults.Planted:
    """Every process of the host stands still for longer than the lease, as those of a suspended machine."""
    stopped = [pid for pid in host.space.members() if pid != host.pid]
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)

    def resume() -> None:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    return faults.Planted(resume)


KINDS: dict[str, Kind] = {
    "controller": Kind(),
    "ssh": Kind(end=kill_client),
    "agent": Kind(end=kill_agent, while_held=True, spared=("file /dev/shm/preflight-",)),  # the next run sweeps it
    "rank": Kind(end=kill_rank, while_held=True),
    # sshd's own end of a lost connection stays until TCP gives up.
    "cut": Kind(plant=faults.link_down, spared=("sshd: ",), noticed_seconds=UNOPENED_SECONDS),
    "unread": Kind(plant=faults.link_down, while_loading=True, spared=("sshd: ",), noticed_seconds=UNOPENED_SECONDS),
    "frozen": Kind(plant=freeze, while_held=True, spared=("sshd: ",)),
}


class Trial:
    """Rounds of one kind in one lab."""

    def __init__(self, lab: Lab, name: str, *, seed: int) -> None:
        self.lab = lab
        self.kind = KINDS[name]
        self.random = random.Random(f"{name} {seed}")
        self.up_seconds = 4.0  # until the job runs on every host; the last round's

    def round(self) -> Round:
        """Start the jobs, end whoever is to be ended, and look at what is left."""
        before = self.lab.residue()
        controllers = self.start()
        try:
            begun = time.monotonic()
            if self.kind.while_held:
                self.await_jobs()
            else:
                self.up_seconds = max(4.0, min(self.up_seconds, 20.0))
            undo = self.end_all(controllers, begun)
            ended = time.monotonic()
            if self.kind.plant is freeze:
                time.sleep(LEASE_SECONDS + 1.0)
                self.restore(undo)
                undo = []
                ended = time.monotonic()
            round_ = self.watch(before, ended)
            self.restore(undo)
        finally:
            for controller in controllers.values():
                controller.kill()
                controller.wait()
        left = self.watch(before, time.monotonic()).left
        return Round({name: lines for name, lines in {**left, **round_.left}.items() if lines}, round_.seconds)

    def start(self) -> dict[str, subprocess.Popen[bytes]]:
        """A controller for each host where it is the one that ends, else one for all."""
        names = [host.name for host in self.lab.hosts]
        groups = [[name] for name in names] if self.kind == KINDS["controller"] else [names]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        words = [sys.executable, "-m", "tests.lab.hold_jobs"]
        return {group[0]: self.lab.start([*words, ",".join(group)], **quiet) for group in groups}

    def await_jobs(self) -> None:
        """Until the job listens on every host."""
        until = time.monotonic() + UP_SECONDS
        waiting = list(self.lab.hosts)
        while waiting and time.monotonic() < until:
            waiting = [host for host in waiting if not is_listening(host.space, PORT)]
            time.sleep(0.05)
        if waiting:
            raise AssertionError(f"no job on {[host.name for host in waiting]} within {UP_SECONDS:.0f} s")

    def end_all(self, controllers: Mapping[str, subprocess.Popen[bytes]], begun: float) -> list[faults.Planted]:
        """Each host at a moment of its own: from the beginning on, or within two seconds once all jobs run."""
        if self.kind.while_loading:
            return list(self.plant_while_loading())
        held = self.kind.while_held
        start, span = (time.monotonic(), 2.0) if held else (begun, 1.5 * self.up_seconds)
        moments = sorted((self.random.uniform(0.1, span), number) for number in range(len(self.lab.hosts)))
        undo = []
        for moment, number in moments:
            host = self.lab.hosts[number]
            time.sleep(max(0.0, start + moment - time.monotonic()))
            if self.kind.plant is not None:
                undo.append(self.kind.plant(host))
            elif self.kind.end is None:
                controllers[host.name].kill()
            else:
                until = time.monotonic() + UP_SECONDS
                while not self.kind.end(self.lab, host) and time.monotonic() < until:
                    time.sleep(0.02)
        return undo

    def plant_while_loading(self) -> Iterator[faults.Planted]:
        """Each host as soon as somebody is logged in to it."""
        assert self.kind.plant is not None
        waiting = list(self.lab.hosts)
        until = time.monotonic() + UP_SECONDS
        while waiting and time.monotonic() < until:
            for host in list(waiting):
                if topmost(host.space, AGENT):
                    yield self.kind.plant(host)
                    waiting.remove(host)

    def restore(self, planted: Sequence[faults.Planted]) -> None:
        """Take the faults back."""
        for fault in planted:
            fault.undo()

    def watch(self, before: Mapping[str, Residue], since: float) -> Round:
        """What is left when nothing is, or patience ends."""
        left: dict[str, list[str]] = {host.name: [] for host in self.lab.hosts}
        clean = 0.0
        while True:
            for name in list(left):
                lines = self.lab[name].residue().since(before[name])
                left[name] = [line for line in lines if not any(word in line for word in self.kind.spared)]
                if not left[name]:
                    del left[name]
                    clean = time.monotonic() - since
            if not left or time.monotonic() - since > self.kind.noticed_seconds + PATIENCE_SECONDS:
                return Round(left, clean)
            time.sleep(0.3)
