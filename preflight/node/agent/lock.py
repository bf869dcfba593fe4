"""Does another run hold this node, and which?

An abstract socket belongs to the network namespace and vanishes with its holder, so none is left behind; but any user
may bind any name. So each user's runs have names of their own, a holder counts only if the kernel says that it is of
our user, and one that is not, which no honest run is, is stepped over to the next name.
"""

from __future__ import annotations

import os
import struct
import time

from preflight.node.agent import sockets as socket

LOCK_NAME = "\0torch-preflight-lock"  # then the user's id and a number
NAMES = 8
ATTEMPTS = 16
PAUSE_S = 0.4  # at most, with jitter
ASK_SECONDS = 1.0
MUTE_ATTEMPTS = 5  # this many times a holder that does not answer is taken for one that is just starting or ending
STRANGER, MUTE = "\0stranger", "\0mute"
PATIENCE_S = 6.0


class NodeLock:
    """The lock of a node, held for one run of one user."""

    def __init__(self, run_id: str, uid: int | None = None) -> None:
        self.run_id = run_id
        self.uid = os.geteuid() if uid is None else uid
        self.held: socket.socket | None = None  # the socket on which another run will ask who holds the node

    def name(self, number: int) -> str:
        """One of the names under which runs of our user hold the node."""
        return f"{LOCK_NAME}-{self.uid}-{number}"

    def take(self) -> str:
        """Hold the node, or give the id of the run that holds it.

        It may be our own run, where one machine is listed under two names: its facts show that, and a check says so. Of
        two runs that start at once, the one whose id sorts first goes first: it waits for the other to let go.
        """
        holder = ""
        end = time.monotonic() + PATIENCE_S
        for attempt in range(ATTEMPTS):
            holder = self._try(is_patient=attempt < MUTE_ATTEMPTS)
            if not holder or holder == self.run_id:
                return ""
            if holder not in (MUTE, "unknown") and holder < self.run_id:
                return holder
            if time.monotonic() > end:
                break
            time.sleep(PAUSE_S * (0.5 + os.urandom(1)[0] / 512))
        return "unknown" if holder == MUTE else holder

    def _try(self, *, is_patient: bool) -> str:
        """Take the lock and return "", or return the run that holds it."""
        for number in range(NAMES):
            lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                lock.bind(self.name(number))
            except OSError:
                lock.close()
                holder = ask_holder(self.name(number), self.uid)
                if holder == STRANGER or (holder == MUTE and not is_patient):
                    continue
                return holder
            lock.listen(8)
            lock.setblocking(False)
            # A run of ours may hold a later name, since a stranger held this one when it came.
            for later in range(number + 1, NAMES):
                holder = ask_holder(self.name(later), self.uid)
                if holder not in (STRANGER, MUTE):
                    lock.close()
                    return holder
            self.held = lock
            return ""
        return ""  # others hold all names: we run anyway, or any user of the node could keep every run from starting

    def answer_holder(self) -> None:
        """Answer another run of our user that asks who holds the node; nobody else gets an answer."""
        assert self.held is not None
        try:
            asker, _ = self.held.accept()
            with asker:
                asker.setblocking(False)
                if peer_uid(asker) == self.uid:
                    asker.send(self.run_id.encode())
        except OSError:
            return


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end of a Unix socket, as the kernel noted it when it connected or listened."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)


def ask_holder(name: str, uid: int) -> str:
    """The run of our user that holds a name; STRANGER for another user's socket, MUTE for none that listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
        asker.settimeout(ASK_SECONDS)
        try:
            asker.connect(name)
            if peer_uid(asker) != uid:
                return STRANGER
        except OSError:
            return MUTE
        try:
            return asker.recv(200).decode("ascii", "replace") or "unknown"
        except OSError:
            return "unknown"


def other_users(uid: int) -> list[str]:
    """The other users whose runs hold this node too, as "user 1000": nobody can hold a name of theirs for them."""
    found = set()
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as table:
            names = [line.split(maxsplit=7)[7].strip() for line in table if LOCK_NAME[1:] in line]
    except (OSError, IndexError):
        return []
    for name in names[:64]:
        words = name.rpartition(f"{LOCK_NAME[1:]}-")[2].split("-")
        if words[0].isdigit() and int(words[0]) != uid and name.startswith("@"):
            holder = ask_holder("\0" + name[1:], int(words[0]))
            if holder not in (STRANGER, MUTE):
                found.add(f"user {int(words[0])}")
    return sorted(found)
