"""Does another run hold this node, and which?"""

from __future__ import annotations

import socket
import time

LOCK_NAME = "\0torch-preflight-lock"
ATTEMPTS = 6
PAUSE_S = 0.5


class NodeLock:
    """An abstract socket: it belongs to the network namespace and vanishes with its holder, so none is left behind."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.held: socket.socket | None = None  # the socket on which another run will ask who holds the node

    def take(self) -> str:
        """Hold the node, or give the id of the run that holds it.

        Our own run may hold it: this machine under another of its names. Facts will show it, and a check says so.
        """
        holder = ""
        for _ in range(ATTEMPTS):
            lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                lock.bind(LOCK_NAME)
            except OSError:
                holder = ask_holder(lock)
                if holder == self.run_id:
                    return ""
                if holder != "unknown":
                    return holder
                time.sleep(PAUSE_S)  # a holder that does not answer is on its way out
                continue
            lock.listen(8)
            lock.setblocking(False)
            self.held = lock
            return ""
        return holder

    def answer_holder(self) -> None:
        """Answer another run that asks who holds the node."""
        assert self.held is not None
        try:
            asker, _ = self.held.accept()
            with asker:
                asker.send(self.run_id.encode())
        except OSError:
            return


def ask_holder(lock: socket.socket) -> str:
    """The run that holds the node, asked through a socket that could not be the lock."""
    lock.settimeout(1.0)
    try:
        lock.connect(LOCK_NAME)
        return lock.recv(200).decode("ascii", "replace") or "unknown"
    except OSError:
        return "unknown"
    finally:
        lock.close()
