"""How is a Python on a node reached?

Each transport is a class in a file of its own, as `reach.Transport` describes it, and one word in TRANSPORTS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from preflight.reach.host import PLAIN
from preflight.reach.transport.kubernetes import Kubernetes
from preflight.reach.transport.local import Local
from preflight.reach.transport.ray import Ray
from preflight.reach.transport.reach import LOADER, TASK_PROGRAM, Gatherer, Gathering, Reach, Transport
from preflight.reach.transport.slurm import Slurm
from preflight.reach.transport.ssh import Ssh
from preflight.reach.transport.torchrun import Torchrun

if TYPE_CHECKING:
    from preflight.reach.host import Host

__all__ = [
    "LOADER",
    "TASK_PROGRAM",
    "Gathering",
    "Reach",
    "Transport",
    "command",
    "forms",
    "gathering_of",
    "transport_of",
    "written_for",
]

TRANSPORTS: Mapping[str, Transport] = {
    transport.name: transport for transport in (Ssh(), Local(), Slurm(), Kubernetes(), Ray(), Torchrun())
}


def written_for(text: str) -> Transport:
    """The transport of a host, or of a node, as it is written."""
    found = TRANSPORTS.get(text.partition(":")[0])
    return found if found is not None and found.form else TRANSPORTS[PLAIN]


def forms() -> tuple[str, ...]:
    """How hosts are written that are not reached over ssh."""
    return tuple(transport.form for transport in TRANSPORTS.values() if transport.form)


def transport_of(host: Host) -> Transport:
    """The transport that reaches a host."""
    return TRANSPORTS[host.transport]


def command(host: Host, reach: Reach) -> list[str]:
    """The argv, here, that starts the loader in the job's Python on `host`."""
    return transport_of(host).argv(host, reach)


def gathering_of(hosts: Sequence[Host], reach: Reach) -> Gathering | None:
    """How all hosts come by one command; None where each has a command of its own."""
    if len(hosts) < 2 or len({host.transport for host in hosts}) > 1:
        return None
    transport = transport_of(hosts[0])
    return transport.gathering(hosts, reach) if isinstance(transport, Gatherer) else None
