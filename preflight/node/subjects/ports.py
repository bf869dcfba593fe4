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
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet
    from typing import Any, Union

    Holder = tuple[int, str]
    Socket = tuple[str, int, int, int]
    Reason = dict[str, str]
    Found = Union[Holder, Reason]

LISTEN = 10
SEARCH_LIMIT_S = 2.0


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject ports."""
    found = sockets(arguments["proc"])
    listening = {(port, address, inode) for address, port, state, inode in found if state == LISTEN}
    holders, unknown = find_holders(arguments["proc"], {inode for _, _, inode in listening})
    listeners: list[dict[str, Any]] = []
    for port, address, inode in sorted(listening):
        pid, program = holders.get(inode, (unknown, unknown))
        listener = {"address": address, "port": port, "program": program, "pid": pid}
        if listener not in listeners[-1:]:  # SO_REUSEPORT: one line for all sockets of one program
            listeners.append(listener)
    return {"listeners": listeners, "ephemeral_in_use": ephemeral_in_use(arguments["proc"], found)}


def ephemeral_in_use(proc: str, found: list[Socket]) -> Any:
    """How many ports of the range that the kernel hands out have a socket."""
    text = read_text_or_missing(f"{proc}/sys/net/ipv4/ip_local_port_range")
    if isinstance(text, dict):
        return text
    low, high = map(int, text.split())
    return len({port for _, port, _, _ in found if low <= port <= high})


def holder_of_port(proc: str, port: int) -> Holder | None:
    """Who has a TCP socket on a local port, in whatever state; nothing where no process of ours to see has one."""
    inodes = {inode for _, local, _, inode in sockets(proc) if local == port and inode}
    holders, _ = find_holders(proc, inodes)
    return min(holders.values()) if holders else None


def sockets(proc: str) -> list[Socket]:
    """Every TCP socket of the network namespace: (local address, local port, state, inode)."""
    if proc == "/proc":
        try:
            return netlink.tcp_sockets()
        except OSError:  # a kernel without inet_diag, or a sandbox without netlink
            pass
    return [*table(f"{proc}/net/tcp", socket.AF_INET), *table(f"{proc}/net/tcp6", socket.AF_INET6)]


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
    """The first process of own_namespace_first that has each socket open, and why the others are unknown."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, Holder] = {}
    reason = missing("no process that we can see holds it")
    end = time.monotonic() + SEARCH_LIMIT_S
    for pid in own_namespace_first(proc) if wanted else ():
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


def own_namespace_first(proc: str) -> Iterator[int]:
    """Every process by pid; those of other network namespaces come last, for they rarely hold a socket of ours.

    On a machine full of containers most processes are such.
    """

    def namespace(pid: object) -> str:
        try:
            return os.readlink(f"{proc}/{pid}/ns/net")
        except OSError:  # another user's process, or one that has ended
            return ""

    own = namespace("self")
    others = []
    for pid in sorted(int(entry) for entry in os.listdir(proc) if entry.isdigit()):
        if namespace(pid) == own:
            yield pid
        else:
            others.append(pid)
    yield from others


def open_files(folder: str) -> Iterator[str]:
    """What the descriptors of a process point to; a descriptor closed meanwhile is left out."""
    for number in os.listdir(folder):
        try:
            yield os.readlink(f"{folder}/{number}")
        except FileNotFoundError:
            continue
