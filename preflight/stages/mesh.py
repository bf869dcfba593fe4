"""How is the mesh of random ports driven: listen everywhere, tell everyone where, connect, compare both ends?"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

import msgspec

from preflight import mesh
from preflight.errors import HostError
from preflight.facts.measured import Mesh
from preflight.session import Call, Session

CONNECT_SECONDS = 3.0
PAYLOAD_BYTES = 65536


async def run(
    sessions: dict[str, Session], addresses: dict[str, str], *, full: bool, seconds: float
) -> Mesh:
    """The mesh over `addresses` (node -> training address); nodes that could not take part are in `unmeasured`."""
    started = time.monotonic()
    key = secrets.token_hex(32)
    calls: dict[str, Call] = {}
    ports: dict[str, int] = {}
    left_out: dict[str, str] = {}

    async def listen(node: str) -> None:
        arguments = {
            "name": node,
            "address": addresses[node],
            "key": key,
            "bytes": PAYLOAD_BYTES,
            "connect_seconds": CONNECT_SECONDS,
            "total_seconds": seconds,
        }
        try:
            calls[node] = await sessions[node].start("mesh", arguments, seconds=seconds + 2.0)
            _, ports[node] = await calls[node].first("listening")
        except HostError as error:
            left_out[node] = error.reason

    await asyncio.gather(*(listen(node) for node in addresses))
    names = tuple(node for node in addresses if node in ports)
    pairs = mesh.pairs(names, full=full)
    outcomes: dict[str, dict[str, Any]] = {}

    async def connect(node: str) -> None:
        targets = [target for source, target in pairs if source == node]
        peers = [{"name": name, "address": addresses[name], "port": ports[name]} for name in targets]
        expect = [source for source, target in pairs if target == node]
        try:
            await calls[node].send({"peers": peers, "expect": expect})
            async for _ in calls[node].events():
                continue
            outcomes[node] = calls[node].result
        except HostError as error:
            left_out[node] = error.reason

    await asyncio.gather(*(connect(node) for node in names))
    result = mesh.combine(pairs, outcomes, ports, seconds=time.monotonic() - started)
    return msgspec.structs.replace(result, unmeasured=left_out)
