"""Which RDMA port of which node is slow by itself, measured with perftest's ib_write_bw where every node has it?

The ports of one name are compared with each other, all names at once, in the rounds of the search over NCCL: neither a
GPU nor NCCL has a part in it, so what is slow here is the adapter, its slot, its cable or the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from preflight.facts.cluster import Cluster
from preflight.facts.fabric import Hca
from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing
from preflight.job.measure import rails
from preflight.launch.job import Job
from preflight.reach.hosts import fold
from preflight.reach.session import replies
from preflight.reach.session.connection import Session
from preflight.said import joined, said
from preflight.said.errors import BadReply, FactMissing, HostError

WRITE_SECONDS = 10.0  # 1 GiB at 1 Gbit/s takes nine
SLACK_SECONDS = 3.0
LONGEST_SECONDS = 180.0  # of both looks together; a round takes a second or two
FASTEST_GBYTES_PER_S = 1000.0
IMPOSSIBLE_ABOVE = 1.05  # of a port's rate: nothing is faster, and rates are rounded
MOST_SHOWN = 3


class Port(NamedTuple):
    """One port, and how to reach its node."""

    node: str
    address: str
    name: str  # "mlx5_0:1"
    asked: dict[str, Any]  # what a call on its node is told about it
    most_gbytes_per_s: float  # what its rate lets through, where it is known


class Wrote(replies.Message, frozen=True):
    """The report of one client."""

    number: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
    gbytes_per_s: Annotated[float, msgspec.Meta(ge=0, le=FASTEST_GBYTES_PER_S)] | None = None
    error: replies.Line = ""


class Written(replies.Message, frozen=True):
    """The reports of a node's clients."""

    program: replies.Line
    wrote: tuple[Wrote, ...] = ()


Serving = Annotated[tuple[tuple[int, replies.Port], ...], msgspec.Meta(max_length=256)]


def ports_of(cluster: Cluster) -> list[Port]:
    """The ports that NCCL will take, numbered as they stand; none of EFA, which ib_write_bw does not drive."""
    found: list[Port] = []
    for node in cluster:
        try:
            hcas = [hca for hca in node.active_hcas() if hca.is_active]
        except FactMissing:
            continue
        for hca in hcas:
            asked = {"number": len(found), "device": hca.device, "port": hca.port.number, **_as_nccl(node, hca)}
            found.append(Port(node.name, node.address_for_peers(), hca.name, asked, port_limit(hca)))
    return found


def port_limit(hca: Hca) -> float:
    """The GB/s that no port passes; none of a bond, whose rate is that of one leg or of all, as drivers differ."""
    rate = hca.port.rate_gbps
    if isinstance(rate, Missing) or "bond" in hca.device:
        return FASTEST_GBYTES_PER_S
    return rate / 8 * IMPOSSIBLE_ABOVE


def _as_nccl(node: NodeFacts, hca: Hca) -> dict[str, int]:
    """The GID row, service level and traffic class that NCCL takes there; what is not known is left to perftest."""
    wanted = {"level": node.value("NCCL_IB_SL"), "traffic_class": node.value("NCCL_IB_TC")}
    found = {name: int(text) for name, text in wanted.items() if text.isdecimal()}
    if hca.is_roce:
        try:
            found["gid"] = node.gid_index()
        except FactMissing:
            with contextlib.suppress(FactMissing):
                found["gid"] = node.own_gid_index(hca)
    return found


def spaces(ports: Iterable[Port]) -> tuple[rails.Space, ...]:
    """The ports of each name, by their nodes; a name that one node has only is left out."""
    named: dict[str, dict[str, int]] = {}
    for port in ports:
        named.setdefault(port.name, {})[port.node] = port.asked["number"]
    return tuple(
        rails.Space(said("RDMA port {name}", name), held, False) for name, held in named.items() if len(held) > 1
    )


async def search(
    sessions: dict[str, Session],
    cluster: Cluster,
    job: Job,
    *,
    threshold: float,
    is_full: bool = False,
    say: Callable[[str], None] = lambda _text: None,
) -> rails.Found:
    """Every port name at once, in two looks at most; nothing where it could not be done, with the reason."""
    ports = ports_of(cluster)
    places = spaces(ports)
    if not places:
        return rails.Found(not_measured="no RDMA port has an equal on another node")
    writes = Writes(sessions, ports, job.environment, end=time.monotonic() + LONGEST_SECONDS)
    try:
        lacking = await writes.without_program(dict.fromkeys(port.node for port in ports))
        if lacking:
            return rails.Found(not_measured=said("{lacking}: perftest (ib_write_bw) is not installed", fold(lacking)))
        plan = rails.look(places, threshold=threshold, is_full=is_full)
        pairs = next(plan)
        while True:
            say(said("{sum} writes in {pairs} rounds, from RDMA port to RDMA port", sum(map(len, pairs)), len(pairs)))
            measured = [one for round_ in pairs for one in await writes.round(round_)]
            if writes.errors and not measured:
                return rails.Found(not_measured=writes.why())
            pairs = plan.send(measured)
    except StopIteration as end:
        found: rails.Found = end.value
        return rails.Found(found.parts, found.slow, found.disputed, writes.why())
    except HostError as error:
        return rails.Found(not_measured=f"{error.host}: {error.reason}")


class Writes:
    """Rounds of writes; a port that fails is reported once, with the words of perftest."""

    def __init__(
        self, sessions: dict[str, Session], ports: Sequence[Port], environment: Iterable[Any], *, end: float
    ) -> None:
        self.sessions = sessions
        self.ports = ports
        self.environment = [list(layer) for layer in environment]
        self.end = end
        self.errors: dict[str, None] = {}

    def why(self) -> str:
        """What failed, in short."""
        reported = list(self.errors)
        more = said(" and {MOST_SHOWN} more", len(reported) - MOST_SHOWN) if len(reported) > MOST_SHOWN else ""
        return joined(reported[:MOST_SHOWN]) + more

    async def without_program(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """The nodes that have no ib_write_bw."""
        names = tuple(nodes)
        reported = await asyncio.gather(*(self._write(name, [], seconds=5.0) for name in names))
        return tuple(name for name, one in zip(names, reported, strict=True) if not one.program)

    async def round(self, pairs: Sequence[tuple[int, int]]) -> list[rails.Measured]:
        """What each pair of a round reached; those that failed are left out."""
        if time.monotonic() > self.end:
            self.errors.setdefault(said("not all was measured within {LONGEST_SECONDS:.0f} s", LONGEST_SECONDS))
            return []
        targets = dict.fromkeys(self.ports[target].node for _, target in pairs)
        serving = await asyncio.gather(*(self._serve(node, pairs) for node in targets))
        try:
            where = {number: tcp_port for _, reported in serving for number, tcp_port in reported}
            sources = dict.fromkeys(self.ports[source].node for source, _ in pairs)
            wrote = await asyncio.gather(*(self._write_all(node, pairs, where) for node in sources))
        finally:
            for call, _ in serving:
                await call.cancel()
        return [one for of_node in wrote for one in of_node]

    async def _serve(self, node: str, pairs: Sequence[tuple[int, int]]) -> tuple[Any, Serving]:
        asked = [self.ports[target].asked for _, target in pairs if self.ports[target].node == node]
        is_ipv6 = any(":" in port.address for port in self.ports if port.node == node)
        seconds = WRITE_SECONDS + SLACK_SECONDS
        arguments = {"environment": self.environment, "seconds": seconds, "ports": asked, "is_ipv6": is_ipv6}
        call = await self.sessions[node].start("rdma_serve", arguments, seconds=seconds + SLACK_SECONDS)
        reported: Serving = await call.first("serving", Serving)
        if {number for number, _ in reported} != {each["number"] for each in asked}:
            raise BadReply(node, "it serves other RDMA ports than it was asked to")
        return call, reported

    async def _write_all(
        self, node: str, pairs: Sequence[tuple[int, int]], where: dict[int, int]
    ) -> list[rails.Measured]:
        """What this node's ports reached."""
        own = {source: target for source, target in pairs if self.ports[source].node == node}
        asked = [
            {**self.ports[source].asked, "address": self.ports[target].address, "tcp_port": where[target]}
            for source, target in own.items()
        ]
        reported = await self._write(node, asked, seconds=WRITE_SECONDS)
        if [one.number for one in reported.wrote] != list(own):
            raise BadReply(node, "it wrote from other RDMA ports than it was asked to")
        measured = []
        for one in reported.wrote:
            target = self.ports[own[one.number]]
            peer = target.node
            most = min(self.ports[one.number].most_gbytes_per_s, target.most_gbytes_per_s)
            if one.gbytes_per_s is None:
                self.errors.setdefault(
                    said("{name} of {node} to {peer}: {error}", self.ports[one.number].name, node, peer, one.error)
                )
            elif one.gbytes_per_s > most:  # only the writer reports: by its word its peers would look slow
                raise BadReply(
                    node,
                    said(
                        "{gbytes_per_s:g} GB/s to {name} of {peer}, which can {most:.4g}",
                        one.gbytes_per_s,
                        target.name,
                        peer,
                        most,
                    ),
                )
            else:
                measured.append(rails.Measured(one.number, own[one.number], one.gbytes_per_s))
        return measured

    async def _write(self, node: str, writes: list[dict[str, Any]], *, seconds: float) -> Written:
        arguments = {"environment": self.environment, "seconds": seconds, "writes": writes}
        call = await self.sessions[node].start("rdma_write", arguments, seconds=seconds + SLACK_SECONDS)
        reported: Written = await call.end(Written)
        return reported
