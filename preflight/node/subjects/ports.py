"""Which TCP ports listen on this node, and who holds them?"""

from __future__ import annotations

import os
import struct
import time

from preflight.node.agent import netlink
from preflight.node.agent import sockets as socket
from preflight.node.agent.missing import missing, read_text, read_text_or_missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from collections.abc import Set as AbstractSet
    from typing import Any, Union

    Holder = tuple[int, str]
    Socket = tuple[str, int, int, int]
    Reason = dict[str, str]
    Found = Union[Holder, Reason]

LISTEN = 10
EVERY_STATE = range(1, 13)
FEW = 0.01  # of the ephemeral ports: where the namespace has no more sockets than that, nobody needs the exact count
SEARCH_LIMIT_S = 2.0


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject ports."""
    proc = arguments["proc"]
    found, ephemeral_in_use = counted(proc, ephemeral_ports(proc))
    listening = {(port, address, inode) for address, port, state, inode in found if state == LISTEN}
    holders, unknown = find_holders(proc, {inode for _, _, inode in listening})
    listeners: list[dict[str, Any]] = []
    for port, address, inode in sorted(listening):
        pid, program = holders.get(inode, (unknown, unknown))
        listener = {"address": address, "port": port, "program": program, "pid": pid}
        if listener not in listeners[-1:]:  # SO_REUSEPORT: one line for all sockets of one program
            listeners.append(listener)
    return {"listeners": listeners, "ephemeral_in_use": ephemeral_in_use}


def counted(proc: str, ephemeral: range | Reason) -> tuple[list[Socket], int | Reason]:
    """The listening sockets, perhaps with others, and how many ephemeral ports have one, or at most."""
    if not isinstance(ephemeral, range):
        return sockets(proc, (LISTEN,)), ephemeral
    most = sockets_at_most(proc)
    if most <= FEW * len(ephemeral):
        return sockets(proc, (LISTEN,)), int(most)
    found = sockets(proc, EVERY_STATE)
    return found, len({port for _, port, _, _ in found if port in ephemeral})


def ephemeral_ports(proc: str) -> range | Reason:
    """The ports that the kernel hands out."""
    text = read_text_or_missing(f"{proc}/sys/net/ipv4/ip_local_port_range")
    if isinstance(text, dict):
        return text
    low, high = map(int, text.split())
    return range(low, high + 1)


def sockets_at_most(proc: str) -> float:
    """How many TCP sockets the network namespace has, with those in TIME_WAIT; infinity where the kernel does not tell.

    Listing them is a walk over the hash of the whole machine, which takes milliseconds even where it is empty; the
    kernel keeps these counts anyway.
    """
    try:
        lines = read_text(f"{proc}/net/sockstat").splitlines()
        if os.path.exists(f"{proc}/net/sockstat6"):
            lines += read_text(f"{proc}/net/sockstat6").splitlines()
    except OSError:
        return float("inf")
    words = [line.split() for line in lines]
    counts = [dict(zip(row[1::2], row[2::2])) for row in words if row[:1] in (["TCP:"], ["TCP6:"])]
    if not counts or "inuse" not in counts[0] or "tw" not in counts[0]:
        return float("inf")
    return sum(int(row.get(name, 0)) for row in counts for name in ("inuse", "tw"))


def holder_of_port(proc: str, port: int) -> Holder | None:
    """Who has a TCP socket on a local port, in whatever state; nothing where no process of ours to see has one."""
    inodes = {inode for _, local, _, inode in sockets(proc, EVERY_STATE) if local == port and inode}
    holders, _ = find_holders(proc, inodes)
    return min(holders.values()) if holders else None


def sockets(proc: str, states: Collection[int]) -> list[Socket]:
    """The TCP sockets of the network namespace in these states: (local address, local port, state, inode)."""
    if proc == "/proc":
        try:
            return netlink.tcp_sockets(states)
        except OSError:  # a kernel without inet_diag, or a sandbox without netlink
            pass
    rows = (*table(f"{proc}/net/tcp", socket.AF_INET), *table(f"{proc}/net/tcp6", socket.AF_INET6))
    return [row for row in rows if row[2] in states]


def table(path: str, family: int) -> Iterator[Socket]:
    """The same of one family, as the kernel prints it."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()[1:]
    except FileNotFoundError:
        if family == socket.AF_INET6:  # IPv6 is off
            return
        raise
    for line in lines:
        fields = line.split()
        if len(fields) > 9:
            local, _, port = fields[1].partition(":")
            yield address_text(local, family=family), int(port, 16), int(fields[3], 16), int(fields[9])


def address_text(digits: str, *, family: int) -> str:
    """An address as /proc/net/tcp writes it: 32-bit words, each in the byte order of the machine."""
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


def find_holders(proc: str, inodes: AbstractSet[int]) -> tuple[dict[int, Holder], Reason]:
    """The first process of nearest_first that has each socket open, and why the others are unknown."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, Holder] = {}
    reason = missing("no process that we can see holds it")
    end = time.monotonic() + SEARCH_LIMIT_S
    for pid in nearest_first(proc) if wanted else ():
        if not wanted:
            break
        if time.monotonic() > end:
            return found, missing(f"not found among the open files within {SEARCH_LIMIT_S:g} s")
        try:
            held = [wanted.pop(link) for link in open_files(f"{proc}/{pid}/fd") if link in wanted]
            if held:
                program = read_text(f"{proc}/{pid}/comm")
                found.update((inode, (pid, program)) for inode in held)
        except PermissionError:
            reason = missing("held by a process whose files we may not see", "denied")
        except OSError:  # the process has ended meanwhile
            continue
    return found, reason


def nearest_first(proc: str) -> Iterator[int]:
    """Every process: those that we descend from, the eldest first, then the others by pid, our own namespace's first.

    Who let us in (sshd, slurmd, a container's first process) listens, and often nobody else does. Processes of other
    network namespaces rarely hold a socket of ours, and on a machine full of containers most processes are such.
    """

    def namespace(pid: object) -> str:
        try:
            return os.readlink(f"{proc}/{pid}/ns/net")
        except OSError:  # another user's process, or one that has ended
            return ""

    above = ancestors(proc)
    yield from above
    own = namespace("self")
    others = []
    for pid in sorted({int(entry) for entry in os.listdir(proc) if entry.isdigit()}.difference(above)):
        if namespace(pid) == own:
            yield pid
        else:
            others.append(pid)
    yield from others


def ancestors(proc: str) -> list[int]:
    """The pids of the processes that we descend from, as far as we see them, without the first of the machine."""
    found: list[int] = []
    pid = "self"
    while True:
        try:
            pid = read_text(f"{proc}/{pid}/stat").rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            return found
        if pid in ("0", "1") or int(pid) in found:
            return found
        found.insert(0, int(pid))


def open_files(folder: str) -> Iterator[str]:
    """What the descriptors of a process point to; a descriptor closed meanwhile is left out."""
    for number in os.listdir(folder):
        try:
            yield os.readlink(f"{folder}/{number}")
        except FileNotFoundError:
            continue
