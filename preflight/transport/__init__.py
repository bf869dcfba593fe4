"""How is a Python on a node reached?

Each transport is a class in a file of its own, as `reach.Transport` describes it, and one word in TRANSPORTS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from preflight.transport.kubernetes import Kubernetes
from preflight.transport.local import Local
from preflight.transport.reach import LOADER, Reach, Transport
from preflight.transport.slurm import Slurm
from preflight.transport.ssh import Ssh

if TYPE_CHECKING:
    from preflight.hosts import Host

__all__ = ["LOADER", "Reach", "Transport", "command", "forms", "transport_of", "written_for"]

TRANSPORTS: Mapping[str, Transport] = {
    transport.name: transport for transport in (Ssh(), Local(), Slurm(), Kubernetes())
}
PLAIN = Ssh.name  # of hosts that are written without the name of a transport


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
