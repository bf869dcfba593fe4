"""What is each rank of a hanging job doing now, and how are the nodes asked?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import msgspec

from preflight.errors import HostError, PreflightError
from preflight.facts.value import Count, Missing, Text, Value
from preflight.hosts import Host
from preflight.session.connection import Session
from preflight.session.fleet import Fleet
from preflight.transport import Reach

CALL_SECONDS = 40.0
SECONDS = 90.0

Number = Annotated[int, msgspec.Meta(ge=-1, le=2**31)]


class Socket(Value, frozen=True):
    """A TCP connection of a rank."""

    peer: Text
    state: Text
    unsent_bytes: Count
    unread_bytes: Count


class Seen(Value, frozen=True):
    """What a rank did at one of the looks."""

    state: Text  # R, S, D, T, Z as in ps; X for one that has ended
    wchan: Text
    frames: Annotated[tuple[Text, ...], msgspec.Meta(max_length=64)] | Missing  # of Python, innermost first


class Process(Value, frozen=True, kw_only=True):
    """A rank as its node sees it: at the last look, and at the ``earlier`` ones unless all were the same.

    ``rank`` is -1 where no variable numbers it; ``cpu`` is in cores.
    """

    pid: Count
    state: Text  # R, S, D, T, Z as in ps
    threads: Count
    command: Text
    rank: Number
    local_rank: Number
    world_size: Number
    cpu: Annotated[float, msgspec.Meta(ge=0, le=1e6)]
    wchan: Text
    kernel_stack: Annotated[tuple[Text, ...], msgspec.Meta(max_length=8)]
    frames: Annotated[tuple[Text, ...], msgspec.Meta(max_length=64)] | Missing  # of Python, innermost first
    sockets: Annotated[tuple[Socket, ...], msgspec.Meta(max_length=64)]
    gpu_memory_mib: Count
    earlier: Annotated[tuple[Seen, ...], msgspec.Meta(max_length=16)] = ()


class Looked(Value, frozen=True):
    """The answer of one node."""

    ranks: Annotated[tuple[Process, ...], msgspec.Meta(max_length=256)]


def look(
    hosts: Sequence[Host], reach: Reach, *, run_id: str, match: str, pids: Sequence[int]
) -> tuple[dict[str, tuple[Process, ...]], dict[str, str]]:
    """The job's ranks by node, and why a node could not be looked at. Nothing is stopped, signalled or slowed."""
    fleet = Fleet(hosts, reach, run_id=run_id, deadline=time.monotonic() + SECONDS)
    found: dict[str, tuple[Process, ...]] = {}
    arguments = {"proc": "/proc", "match": match, "pids": list(pids), "path": ""}

    async def ask(session: Session) -> None:
        call = await session.start("hanging", arguments, seconds=CALL_SECONDS)
        looked: Looked = await call.first("facts", Looked)
        found[session.host.name] = looked.ranks

    try:
        fleet.run(fleet.open(ask), seconds=SECONDS)
        return found, {name: error.reason for name, error in fleet.failures.items()}
    except PreflightError as error:
        if isinstance(error, HostError):
            raise
        left = {host.name: str(error) for host in hosts if host.name not in found}
        return found, left
    finally:
        fleet.close()
