"""How does a job run on nodes that are not there? Sessions that answer calls as a node would, with given figures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from preflight.launch.job import Job, Placement
from preflight.reach.session import replies

Records = Callable[[int], list[dict[str, Any]]]  # what a rank of that number says


def job_of(*nodes: str, backend: str = "gloo", seconds: float = 60.0) -> Job:
    """A benchmark with one rank a node named, in that order."""
    placements = tuple(
        Placement(rank, node, nodes[:rank].count(node), nodes.count(node)) for rank, node in enumerate(nodes)
    )
    settings = {"backend": backend, "operations": ["all_reduce"]}
    return Job("collectives", settings, placements, "10.0.0.1", (), seconds)


class PlayedCall:
    """A call whose events are given; a stream answers each round with a rate."""

    def __init__(
        self, *events: dict[str, Any], rate: Callable[[str], float] = lambda _source: 1.0, name: str = ""
    ) -> None:
        self.waiting = list(events)
        self.name = name  # of the node, where it sends streams
        self.rate = rate
        self.result: dict[str, Any] = {"port": 29511}
        self.messages: list[dict[str, Any]] = []

    async def events(self):
        """Everything that was said."""
        while self.waiting:
            yield self.waiting.pop(0)

    async def first(self, key: str, kind: Any) -> Any:
        """The value of the next event with that key."""
        found = next(self.waiting.pop(0)[key] for event in list(self.waiting) if key in event)
        return replies.read("played", kind, found, key)

    async def end(self, kind: Any) -> Any:
        """The result."""
        return replies.read("played", kind, self.result, "result")

    async def send(self, message: dict[str, Any]) -> None:
        """A round of a stream is answered at once."""
        self.messages.append(message)
        if "round" in message:
            order = message["round"]
            source, shift, target = order["receive_from"], order["shift"], order["send_to"]
            rate = self.rate(source) if source else 0.0
            sent = round(self.rate(self.name) * 1e9) if target else None
            got = {"received_bytes": round(rate * 1e9), "seconds": 1.0, "gbytes_per_s": rate}
            got |= {"sent_bytes": sent, "sent_seconds": 1.0}
            self.waiting.append({"round": {"shift": shift, "from": source, **got}})

    async def cancel(self) -> None:
        """Nothing is left of it."""


class PlayedNode:
    """A session to a node that runs nothing: `records` are what the ranks of each workload say."""

    def __init__(
        self,
        records: Mapping[str, Records],
        *,
        rate: Callable[[str], float] = lambda _source: 1.0,
        pair: Callable[[int, int], float] = lambda _source, _target: 40.0,
        write: Callable[[int], dict[str, Any]] | None = None,
    ) -> None:
        self.records = records
        self.rate = rate
        self.pair = pair  # what a rank receives from another, in GB/s
        self.write = write  # what ib_write_bw says of an RDMA port of that number; None where it is not installed
        self.started: list[tuple[str, dict[str, Any]]] = []  # the workloads, each with its settings

    async def start(self, name: str, arguments: dict[str, Any], **_options: Any) -> PlayedCall:
        """A free port, a stream, or ranks that say their records and end well."""
        await asyncio.sleep(0)
        if name == "stream":
            return PlayedCall({"listening": (arguments["address"], 5000)}, rate=self.rate, name=arguments["name"])
        if name == "rdma_serve":
            return PlayedCall({"serving": [(port["number"], 18515) for port in arguments["ports"]]})
        if name == "rdma_write":
            return self._wrote([write["number"] for write in arguments["writes"]])
        if name != "ranks":
            return PlayedCall()
        events: list[dict[str, Any]] = []
        for process in arguments["processes"]:
            settings = json.loads(process["environment"]["PREFLIGHT_SETTINGS"])
            workload = "devices" if "figures" in settings else "pairs" if settings.get("pairs") else "collectives"
            rank = int(process["name"].removeprefix("rank"))
            if not events:
                self.started.append((workload, settings))
            said = self.records.get(workload, lambda _rank: [])(rank)
            said = [*said, *self._pairs(rank, settings)] if workload == "pairs" else said
            events += [{"record": {**record, "rank": rank}} for record in said]
            if not any(record["record"] == "failed" for record in said):
                events.append({"record": {"record": "done", "rank": rank}})
            events.append({"name": process["name"], "exit": "0", "log": ""})
        return PlayedCall(*events)

    def _wrote(self, numbers: list[int]) -> PlayedCall:
        """What ib_write_bw says of these ports."""
        call = PlayedCall()
        found = [{"number": number, **self.write(number)} for number in numbers] if self.write else []
        call.result = {"program": "/usr/bin/ib_write_bw" if self.write else "", "wrote": found}
        return call

    def _pairs(self, rank: int, settings: dict[str, Any]) -> list[dict[str, Any]]:
        """What a rank received, or sent, in each round in which it was to."""
        size = 256 << 20
        return [
            {
                **({"record": "pair", "source": source} if rank == target else {"record": "sent", "target": target}),
                "round": number,
                "bytes": size,
                "seconds": size / rate / 1e9,
                "gbytes_per_s": rate,
            }
            for number, pairs in enumerate(settings["pairs"])
            for source, target in pairs
            if rank in (source, target)
            for rate in [self.pair(source, target)]
        ]
