"""Does every node reach the very port where rank 0 of the job will listen?"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from preflight.facts.results import Rendezvous
from preflight.job.measure import mesh
from preflight.reach.session import replies
from preflight.said.errors import FactMissing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from preflight.facts.cluster import Cluster
    from preflight.facts.node import NodeFacts
    from preflight.reach.session.connection import Call, Session

SECONDS = 12.0
PAYLOAD_BYTES = 65536  # more than fits into one packet, whatever the MTU


def port_of(cluster: Cluster) -> int:
    """The port of rank 0 as the first node's variables and the launch files have it; 0 where none is known."""
    if len(cluster) < 2:
        return 0
    try:
        text = cluster.first.value("MASTER_PORT")
    except FactMissing:
        return 0
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536 else 0


def address_of(first: NodeFacts) -> str:
    """Where the others look for rank 0: the address of MASTER_ADDR, if the node has it, else its training address."""
    own = first.address_for_peers()
    try:
        given = first.peers.addresses_of_master()
    except FactMissing:
        return own
    held = [address for address in given if first.network.holds_any([address], reachable=True)]
    return own if own in held or not held else held[0]


async def run(sessions: Mapping[str, Session], addresses: dict[str, str], *, port: int, seconds: float) -> Rendezvous:
    """The first of `addresses` (node -> address) listens on the port and all the others connect, with data."""
    first, *others = addresses
    key = secrets.token_hex(32)
    calls: dict[str, Call] = {}
    listening: dict[str, tuple[str, int]] = {}
    results: dict[str, dict[str, Any]] = {}
    unmeasured: dict[str, str] = {}

    async def listen(node: str) -> None:
        own_port = port if node == first else 0
        arguments = {
            "name": node,
            "address": addresses[node],
            "key": key,
            "bytes": PAYLOAD_BYTES,
            "connect_seconds": mesh.CONNECT_SECONDS,
            "total_seconds": seconds,
            "port": own_port,
            "source": "",
            "about": port,
        }
        calls[node] = await sessions[node].start("mesh", arguments, seconds=seconds + 4.0)
        answer = await calls[node].first("listening", Any)
        listening[node] = replies.listening(node, answer, asked=addresses[node], asked_port=own_port)

    async def connect(node: str, order: dict[str, Any]) -> None:
        await calls[node].send(order)
        await calls[node].first("tried", int)

    async def conclude(node: str) -> None:
        await calls[node].send({"finish": True})
        results[node] = mesh.checked(node, await calls[node].end(mesh.MeshReply), ordered[node])

    await mesh.for_each(listen, dict.fromkeys(addresses, ()), unmeasured)
    tried = tuple((node, first) for node in others if node in listening and first in listening)
    ordered = mesh.orders(tried, listening)
    await mesh.for_each(connect, {node: (order,) for node, order in ordered.items()}, unmeasured)
    await mesh.for_each(conclude, {node: () for node in ordered if node not in unmeasured}, unmeasured)
    judged = [pair for pair in tried if not unmeasured.keys() & set(pair)]
    found = mesh.combine(judged, results, seconds=0.0)
    return Rendezvous(
        node=first,
        address=addresses[first],
        port=port,
        tried=len(judged),
        failed=found.failed,
        filters=found.filters,
        unmeasured=unmeasured,
    )


def joined(meetings: Sequence[Rendezvous]) -> Rendezvous | None:
    """The findings of several groups of nodes at the same port, as one; None where there are none."""
    if not meetings:
        return None
    first = meetings[0]
    return msgspec.structs.replace(
        first,
        tried=sum(part.tried for part in meetings),
        failed=tuple(edge for part in meetings for edge in part.failed),
        filters={name: rules for part in meetings for name, rules in part.filters.items()},
        unmeasured={name: reason for part in meetings for name, reason in part.unmeasured.items()},
    )
