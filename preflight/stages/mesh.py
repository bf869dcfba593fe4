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
ATTEST_SECONDS = 1.0  # for bytes still on their way when the last connection has its outcome


async def run(sessions: dict[str, Session], addresses: dict[str, str], *, full: bool, seconds: float) -> Mesh:
    """The mesh over `addresses` (node -> training address); nodes that could not take part are in `unmeasured`."""
    started = time.monotonic()
    calls: dict[str, Call] = {}
    listening: dict[str, tuple[str, int]] = {}
    results: dict[str, dict[str, Any]] = {}
    unmeasured: dict[str, str] = {}
    key = secrets.token_hex(32)

    async def listen(node: str) -> None:
        arguments = {
            "name": node,
            "address": addresses[node],
            "key": key,
            "bytes": PAYLOAD_BYTES,
            "connect_seconds": CONNECT_SECONDS,
            "total_seconds": seconds,
        }
        calls[node] = await sessions[node].start("mesh", arguments, seconds=seconds + 2.0)
        address, port = await calls[node].first("listening")
        listening[node] = (str(address), int(port))

    async def connect(node: str, order: dict[str, Any]) -> None:
        await calls[node].send(order)
        await calls[node].first("tried")

    async def conclude(node: str) -> None:
        await calls[node].send({"finish": True})
        async for _ in calls[node].events():
            continue
        results[node] = calls[node].result

    await _for_each(listen, dict.fromkeys(addresses, ()), unmeasured)
    tried = mesh.pairs(tuple(node for node in addresses if node in listening), is_full=full)
    orders = mesh.orders(tried, listening)
    await _for_each(connect, {node: (order,) for node, order in orders.items()}, unmeasured)
    if any(name in unmeasured for name in listening):
        await asyncio.sleep(ATTEST_SECONDS)
    await _for_each(conclude, {node: () for node in listening if node not in unmeasured}, unmeasured)
    judged = [pair for pair in tried if not unmeasured.keys() & set(pair)]
    result = mesh.combine(judged, results, seconds=time.monotonic() - started)
    return msgspec.structs.replace(result, unmeasured=unmeasured)


async def _for_each(work: Any, arguments: dict[str, tuple[Any, ...]], unmeasured: dict[str, str]) -> None:
    """Run `work` for every node at once; a node that fails is noted with its reason."""
    answers = await asyncio.gather(*(work(node, *rest) for node, rest in arguments.items()), return_exceptions=True)
    for node, answer in zip(arguments, answers, strict=True):
        if isinstance(answer, HostError):
            unmeasured[node] = answer.reason
        elif isinstance(answer, BaseException):
            raise answer
