"""What does a lab host hold that a run could have left behind: processes, listening sockets, files?

Read from outside, so that looking starts nothing on the host.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .spaces import ENVIRONMENT, Space
from .sshd import PID_FILE

PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run", ENVIRONMENT["HOME"])
LISTENING = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
UNIX_LISTENING = 0x10000


@dataclass(frozen=True)
class Residue:
    """A snapshot of one host, each thing as a line that a person can read."""

    processes: frozenset[str]
    sockets: frozenset[str]
    files: frozenset[str]

    def since(self, before: "Residue") -> list[str]:
        """What is here now and was not `before`."""
        pairs = ((self.processes, before.processes), (self.sockets, before.sockets), (self.files, before.files))
        return sorted(line for now, then in pairs for line in now - then)


def snapshot(space: Space, *, apart_from: str) -> Residue:
    """Everything on a host but its holder, its sshd and the lab's own directory."""
    return Residue(
        frozenset(_processes(space)),
        frozenset([*_internet_sockets(space), *_unix_sockets(space)]),
        frozenset(line for place in PLACES for line in _files(space, place, apart_from)),
    )


def listener_pid(space: Space) -> int:
    """The pid of the host's sshd as the machine counts; 0 when none runs."""
    try:
        inside = space.root(PID_FILE).read_text().strip()
    except FileNotFoundError:
        return 0
    for pid in space.members():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            if any(line.startswith("NSpid:") and line.split()[-1] == inside for line in lines):
                return pid
    return 0


def is_listening(space: Space, port: int) -> bool:
    """Does anything on the host listen on this TCP port?"""
    lines = list(_internet_sockets(space, apart_from_port=0))
    return any(line.startswith("listening on tcp") and line.endswith(f":{port}") for line in lines)


def _processes(space: Space) -> Iterator[str]:
    ours = {space.pid, listener_pid(space)}
    for pid in space.members():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if pid not in ours:
                argv = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").split()
                yield f"process {pid}: {' '.join(argv)[:200] or Path(f'/proc/{pid}/comm').read_text().strip()}"


def _internet_sockets(space: Space, *, apart_from_port: int = 22) -> Iterator[str]:
    for protocol, state in LISTENING.items():
        lines = Path(f"/proc/{space.pid}/net/{protocol}").read_text().splitlines()[1:]
        for fields in map(str.split, lines):
            address, _, port = fields[1].rpartition(":")
            if fields[3] == state and (protocol, int(port, 16)) != ("tcp", apart_from_port):
                yield f"listening on {protocol} {address}:{int(port, 16)}"


def _unix_sockets(space: Space) -> Iterator[str]:
    for fields in map(str.split, Path(f"/proc/{space.pid}/net/unix").read_text().splitlines()[1:]):
        if len(fields) > 7 and (fields[7].startswith("@") or int(fields[3], 16) & UNIX_LISTENING):
            yield f"listening on unix {fields[7]}"


def _files(space: Space, place: str, apart_from: str) -> Iterator[str]:
    top = space.root(place)
    device = os.stat(top).st_dev
    pending = [(top, place)]
    while pending:
        directory, shown = pending.pop()
        with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:  # it went away meanwhile
            for entry in entries:
                path = f"{shown}/{entry.name}"
                # What is bound in from the machine lies on another device.
                if path in (apart_from, PID_FILE) or entry.stat(follow_symlinks=False).st_dev != device:
                    continue
                yield f"file {path}"
                if entry.is_dir(follow_symlinks=False):
                    pending.append((Path(entry.path), path))
