"""What can another user of a node do to a run of ours? ``python -m tests.bench.attacks``: 22 attacks, for root.

A user without rights tries each of them before or while a keeper of ours holds the node and runs a job in it: names of
its folder, its lock and its sockets are taken, guessed, read and connected to. Each attack must have no effect: the job
ends well, tells only what it said itself, nothing is created where the attacker pointed, and nothing of it is read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from preflight.node.agent.lock import NAMES, NodeLock
from tests.node.wire import Wire, job

ATTACKER = 4242
SHM = "/dev/shm"
SAYING = """
import json, os, socket, tempfile, time
wire = socket.socket(socket.AF_UNIX)
wire.connect("\\0" + os.environ["PREFLIGHT_RECORDS"])
say = lambda **record: wire.sendall(json.dumps(record).encode() + b"\\n")
say(rank=0)
say(record="stage", stage="import", records=os.environ["PREFLIGHT_RECORDS"], folder=os.environ["TMPDIR"])
open(os.path.join(tempfile.mkdtemp(), "private"), "w").write("secret")
time.sleep(1.5)
say(record="done")
"""
Attack = Callable[["Target"], None]


@dataclass(frozen=True)
class Target:
    """What an attacker can find out or guess of a run that is under way."""

    run_id: str
    token: str
    records: str  # the abstract name of the records socket, as /proc/net/unix shows it to anybody
    folder: str
    trap: str  # a folder of the attacker's own


def locks() -> list[str]:
    """The names that runs of root hold nodes by."""
    return [NodeLock("x", uid=0).name(number) for number in range(NAMES)]


def hold(*names: str, listens: bool = True, answers: bytes = b"") -> None:
    """Bind these names until we are killed."""
    held = []
    for name in names:
        with contextlib.suppress(OSError):
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            one.bind(name)
            if listens:
                one.listen(64)
            held.append(one)
    while True:
        if answers and held:
            with contextlib.suppress(OSError):
                asker, _ = held[0].accept()
                asker.send(answers)
                asker.close()
        else:
            time.sleep(1.0)


def say(target: Target, data: bytes, *, count: int = 1) -> None:
    """Connect to the records socket and say something."""
    for _ in range(count):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(2.0)
            stranger.connect("\0" + target.records)
            stranger.sendall(data)
            stranger.recv(10)


def keep_connections(target: Target) -> None:
    """Hold many connections to the records socket open."""
    held = []
    for _ in range(600):
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(0.1)
        with contextlib.suppress(OSError):
            one.connect("\0" + target.records)
        held.append(one)
    time.sleep(30)


def leak(target: Target, path: str) -> None:
    """Copy what can be read below a path into our own folder."""
    for place, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                shutil.copy(os.path.join(place, name), os.path.join(target.trap, "stolen"))


def plant(path: str, make: Callable[[str], Any]) -> None:
    """Make something at a path."""
    with contextlib.suppress(OSError):
        make(path)


def read_lock(target: Target) -> None:
    """Ask the lock for the id of the run."""
    for name in locks():
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asker:
            asker.settimeout(2.0)
            asker.connect(name)
            said = asker.recv(200)
            if said:
                Path(target.trap, "stolen").write_bytes(said)


def scratch(target: Target) -> str:
    """The name of the folder, should the attacker know it."""
    return f"{SHM}/preflight-{target.token}"


RESULT = b'{"rank": 0}\n{"record": "result", "op": "all_reduce", "bytes": 1099511627776, "seconds_median": 0.1}\n'
# Before the run: what is there already when it comes.
BEFORE: dict[str, Attack] = {
    "the first lock is held and mute": lambda _: hold(locks()[0], listens=False),
    "the first lock is held and listens": lambda _: hold(locks()[0]),
    "every lock is held": lambda _: hold(*locks()),
    "the lock answers as a run": lambda _: hold(locks()[0], answers=b"20200101-000000-aaaaaa"),
    "the old name of the lock is held": lambda _: hold("\0torch-preflight-lock"),
    "a folder stands in its place": lambda target: plant(scratch(target), lambda path: os.mkdir(path, 0o777)),
    "a link stands in its place": lambda target: plant(scratch(target), lambda path: os.symlink(target.trap, path)),
    "a link to nothing stands in its place": lambda target: plant(
        scratch(target), lambda path: os.symlink(f"{target.trap}/made", path)
    ),
    "a file stands in its place": lambda target: plant(scratch(target), lambda path: open(path, "w").close()),
    "a folder that looks left behind": lambda _: plant(f"{SHM}/preflight-00", lambda path: os.mkdir(path, 0o700)),
    "a link that looks left behind": lambda target: plant(
        f"{SHM}/preflight-01", lambda path: os.symlink(target.trap, path)
    ),
}
# While it runs, with all that can be seen of it.
DURING: dict[str, Attack] = {
    "a forged result": lambda target: say(target, RESULT),
    "a forged failure": lambda target: say(target, b'{"rank": 0}\n{"record": "failed", "error": "planted"}\n'),
    "a forged end": lambda target: say(target, b'{"rank": 0}\n{"record": "done"}\n'),
    "junk for the records": lambda target: say(target, b"\xff" * (5 << 20), count=5),
    "a flood of connections": lambda target: say(target, b"x", count=2000),
    "connections that stay": keep_connections,
    "the lock is asked for the run": read_lock,
    "the folder is read": lambda target: leak(target, target.folder),
    "the folder is moved away": lambda target: os.rename(target.folder, target.folder + "-moved"),
    "a file is put into the folder": lambda target: Path(target.folder, "planted").write_text("x"),
    "the folder is opened to all": lambda target: os.chmod(target.folder, 0o777),
}


@contextlib.contextmanager
def attacking(attack: Attack, target: Target) -> Iterator[None]:
    """The attack in a process of another user, for as long as this block lasts."""
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            os.setresgid(ATTACKER, ATTACKER, ATTACKER)
            os.setresuid(ATTACKER, ATTACKER, ATTACKER)
            attack(target)
        os._exit(0)
    time.sleep(0.2)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def effect(name: str, trap: str) -> str:
    """What an attack did to a run; "" where that is nothing."""
    wire = Wire()
    target = Target(wire.run_id, wire.run_id, "", scratch(Target("", wire.run_id, "", "", "")), trap)
    is_early = name in BEFORE
    try:
        with attacking(BEFORE[name], target) if is_early else contextlib.nullcontext():
            answer = wire.open()
            if "opened" not in answer:
                return f"the node was not held: {answer}"
            wire.call(1, "ranks", job(SAYING, scratch=True))
            if name.endswith("stands in its place"):  # then there is no job, and that is said
                _, ending = wire.outcome(1)
                return "" if "no folder for temporary files" in str(ending.get("error")) else f"it ran: {ending}"
            first = wire.next("event", seconds=10.0)["event"]["record"]
            seen = Target(wire.run_id, wire.run_id, str(first["records"]), str(first["folder"]), trap)
            with attacking(DURING[name], seen) if not is_early else contextlib.nullcontext():
                events, ending = wire.outcome(1, seconds=20.0)
    finally:
        wire.close()
    records = [event["record"] for event in events if "record" in event]
    if records != [{"record": "done", "rank": 0}] or ending.get("result") != {"started": 1}:
        return f"the job told {records}, {ending}"
    if events[-1].get("exit") != "0":
        return f"the rank ended with {events[-1].get('exit')}"
    return ""


def attack(name: str) -> str:
    """The effect of an attack, with what it made or stole; the attacker's traces are cleared away."""
    with tempfile.TemporaryDirectory() as trap:
        os.chown(trap, ATTACKER, ATTACKER)
        before = set(os.listdir(SHM))
        found = effect(name, trap)
        inside = os.listdir(trap)
        left = [entry for entry in set(os.listdir(SHM)) - before if os.lstat(f"{SHM}/{entry}").st_uid != ATTACKER]
    for entry in set(os.listdir(SHM)) - before:
        path = Path(SHM, entry)
        if path.lstat().st_uid == ATTACKER:
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    return found or (f"in the attacker's folder: {inside}" if inside else "") or (f"left: {left}" if left else "")


def main() -> int:
    """Every attack; 1 where one has an effect."""
    if os.geteuid() != 0:
        print("only root can act as another user")
        return 5
    found = {name: attack(name) for name in (*BEFORE, *DURING)}
    for name, words in found.items():
        print(f"{'EFFECT' if words else 'none':6}  {name}{': ' if words else ''}{words}")
    wrong = [name for name, words in found.items() if words]
    print(f"{len(found)} attacks by another user, {len(wrong)} with an effect")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
