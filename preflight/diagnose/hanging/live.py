"""What is each rank of a hanging job doing now, and how are the nodes asked?"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from preflight.facts.value import Count, Missing, Text, Value
from preflight.reach.host import Host
from preflight.reach.session.connection import Session
from preflight.reach.session.fleet import Fleet
from preflight.reach.transport import Reach
from preflight.said.errors import HostError, PreflightError

CALL_SECONDS = 40.0
SECONDS = 150.0
ASK_RAS = 3  # nodes: the first may have no rank of the job

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
    dump: Text = ""  # of the flight recorder, or the pipe that asks for one


Report = Annotated[str, msgspec.Meta(max_length=1 << 17)]  # of NCCL's RAS service


class Looked(Value, frozen=True):
    """The answer of one node."""

    ranks: Annotated[tuple[Process, ...], msgspec.Meta(max_length=256)]
    ras: Annotated[tuple[Report | Missing, ...], msgspec.Meta(max_length=2)] = ()


@dataclass
class Look:
    """The job's ranks by node, why a node could not be looked at, and the reports of NCCL's RAS service."""

    ranks: dict[str, tuple[Process, ...]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    reports: tuple[str, ...] = ()


def look(hosts: Sequence[Host], reach: Reach, *, run_id: str, match: str, pids: Sequence[int]) -> Look:
    """Ask all nodes at once. Nothing is stopped, signalled or slowed.

    RAS answers on the node of any rank for all of them, so only a few nodes ask it. A node without py-spy is asked
    again with ours.
    """
    fleet = Fleet(hosts, reach, run_id=run_id, deadline=time.monotonic() + SECONDS)
    found = Look()
    asking = {host.name for host in hosts[:ASK_RAS]}
    ours = own_py_spy()

    async def ask(session: Session) -> None:
        name = session.host.name
        arguments = {"proc": "/proc", "match": match, "pids": list(pids), "path": "", "ras": name in asking}
        call = await session.start("hanging", arguments, seconds=CALL_SECONDS)
        looked: Looked = await call.first("facts", Looked)
        found.ranks[name] = looked.ranks
        reports = tuple(one for one in looked.ras if isinstance(one, str))
        if len(reports) > len(found.reports):
            found.reports = reports
        lacks = any(isinstance(one.frames, Missing) and one.frames.kind == "absent" for one in looked.ranks)
        is_alike = session.hello is not None and session.hello.machine == platform.machine()
        if lacks and ours and is_alike:
            call = await session.start("hanging", {**arguments, "ras": False}, seconds=CALL_SECONDS, blob=ours)
            found.ranks[name] = (await call.first("facts", Looked)).ranks

    try:
        fleet.run(fleet.open(ask), seconds=SECONDS)
        found.failures = {name: error.reason for name, error in fleet.failures.items()}
    except PreflightError as error:
        if isinstance(error, HostError):
            raise
        found.failures = {host.name: str(error) for host in hosts if host.name not in found.ranks}
    finally:
        fleet.close()
    return found


def own_py_spy() -> bytes:
    """The program py-spy beside our own Python, which needs nothing else; empty where there is none."""
    place = shutil.which("py-spy", path=os.path.dirname(sys.executable))
    data = Path(place).read_bytes() if place and sys.platform == "linux" else b""
    return data if data.startswith(b"\x7fELF") else b""
