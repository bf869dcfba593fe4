"""How are the raw TCP streams of the shift rounds driven: every node sends to i+d and hears i-d at once?"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from preflight import bandwidth
from preflight.errors import HostError
from preflight.facts.measured import Stream
from preflight.session import Call, Session

ROUND_SECONDS = 1.0
SLACK_SECONDS = 10.0


async def run(sessions: dict[str, Session], addresses: dict[str, str]) -> tuple[Stream, ...]:
    """One stream per node and shift, timed at the receiver. Raises HostError when a node fails."""
    names = tuple(addresses)
    shifts = bandwidth.shifts(len(names))
    total = len(shifts) * (ROUND_SECONDS + 2.0) + SLACK_SECONDS
    key = secrets.token_hex(32)
    calls: dict[str, Call] = {}
    where: dict[str, tuple[str, int]] = {}

    async def listen(node: str) -> None:
        arguments = {"name": node, "address": addresses[node], "key": key, "total_seconds": total}
        calls[node] = await sessions[node].start("stream", arguments, seconds=total + 2.0)
        address, port = await calls[node].first("listening")
        where[node] = (str(address), int(port))

    streams: list[Stream] = []
    try:
        await asyncio.gather(*(listen(node) for node in names))
        for shift in shifts:
            streams += await asyncio.gather(*(_one(calls, where, names, i, shift) for i in range(len(names))))
        for call in calls.values():
            await call.send({"finish": True})
    finally:
        for call in calls.values():
            await call.cancel()
    return tuple(streams)


async def _one(
    calls: dict[str, Call], where: dict[str, tuple[str, int]], names: tuple[str, ...], index: int, shift: int
) -> Stream:
    """The part of one node in one round: it reports what it received from the node `shift` before it."""
    node = names[index]
    target = names[(index + shift) % len(names)]
    source = names[(index - shift) % len(names)]
    address, port = where[target]
    order: dict[str, Any] = {
        "shift": shift,
        "send_to": {"name": target, "address": address, "port": port},
        "receive_from": source,
        "seconds": ROUND_SECONDS,
    }
    await calls[node].send({"round": order})
    told = await calls[node].first("round")
    if "error" in told:
        raise HostError(node, f"the raw stream from {source} gave no figure: {told['error']}")
    return Stream(source=source, target=node, shift=shift, gbytes_per_s=float(told["gbytes_per_s"]))
