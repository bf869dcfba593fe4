"""How does a rank reach torch's store at MASTER_ADDR and MASTER_PORT, and why does it not?

A call into the store cannot be interrupted: a thread ends the rank at a signal, and where a call takes too long.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

NOT_MEASURED = 3
LATE_SECONDS = 2.0  # torch's own time-out comes first, where it holds
LOOK_SECONDS = 2.0
POLL_SECONDS = 0.1


def number(name: str, otherwise: int) -> int:
    """A variable of the rank as a number."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else otherwise


RANK, WORLD = number("RANK", 0), number("WORLD_SIZE", 1)
LOCAL_WORLD = number("LOCAL_WORLD_SIZE", 1)
LOCAL_RANK = number("LOCAL_RANK", RANK % LOCAL_WORLD)


class Guard:
    """Ends this process at a signal, and where what it does `within` some seconds takes longer."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._until = math.inf
        self._why: Callable[[], str] = str
        self._woken, self._wire = socket.socketpair()
        self._wire.setblocking(False)
        for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(name, lambda _number, _frame: None)
            signal.siginterrupt(name, False)  # what torch waits for goes on: its error would come before our end
        signal.set_wakeup_fd(self._wire.fileno())  # written to at once, whatever the main thread waits for
        threading.Thread(target=self._watch, daemon=True).start()

    @contextlib.contextmanager
    def within(self, seconds: float, why: Callable[[], str]) -> Iterator[None]:
        """Where the block takes longer, tell `why` and leave with 3."""
        self._why = why
        self._until = time.monotonic() + seconds
        try:
            yield
        finally:
            self._until = math.inf

    def retire(self) -> None:
        """From here on no signal ends this process."""
        signal.set_wakeup_fd(-1)

    def _watch(self) -> None:
        while True:
            if select.select([self._woken], [], [], POLL_SECONDS)[0]:
                os._exit(128 + self._woken.recv(1)[0])
            if time.monotonic() > self._until:
                self._tell(self._why())
                os._exit(NOT_MEASURED)


def open_store(seconds: float) -> Any:
    """The store that the ranks share. Raises RuntimeError where it cannot be reached in time."""
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

    is_agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        WORLD,
        is_master=RANK == 0 and not is_agents,
        timeout=timedelta(seconds=seconds),
        wait_for_workers=False,
    )
    return PrefixStore(f"preflight/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def why_no_answer() -> str:
    """What is wrong at MASTER_ADDR and MASTER_PORT, found by one connection of ours, and what to do."""
    address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    try:
        with socket.create_connection((address, int(port)), LOOK_SECONDS):
            return (
                f"what listens there is not a store of torch, or is not ready; `ss -ltnp 'sport = :{port}'` there shows"
                " who; give all ranks another MASTER_PORT, and rank 0's address as MASTER_ADDR"
            )
    except ConnectionRefusedError:
        return "the machine is there, and nothing listens: rank 0 did not start, has ended, or runs on another node"
    except socket.gaierror:
        return f"this node cannot resolve {address}; give an address, or add the name to DNS or /etc/hosts"
    except OSError:
        return f"no answer from there; check MASTER_ADDR, and that no firewall blocks port {port}"


def why_not_here() -> str:
    """Why rank 0 does not reach the store that it opened itself."""
    address = os.environ["MASTER_ADDR"]
    try:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, place in found:
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.bind(place)
                return f"MASTER_ADDR={address}: {why_no_answer()}"
    except socket.gaierror:
        return f"MASTER_ADDR={address}: {why_no_answer()}"
    return (
        f"MASTER_ADDR={address} is not an address of {socket.gethostname()}, where rank 0 runs; give all ranks "
        "an address of rank 0's node"
    )


def why_no_store(error: str) -> str:
    """Why rank 0 could not open the store, with what to do where it is known; torch's own words elsewhere."""
    if "EADDRINUSE" not in error:
        return f"{why_not_here()}; torch: {error.splitlines()[0][:200]}"
    port = os.environ["MASTER_PORT"]
    return (
        f"port {port} is in use on this node, by another rank 0 or another program: give each node its own rank, or"
        f" another MASTER_PORT to all; `ss -ltnp 'sport = :{port}'` shows who listens"
    )
