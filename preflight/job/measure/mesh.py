"""Which connections are tried between the nodes, what did they show, and who is to blame?"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from preflight.facts.neighbours import Pair, pairs
from preflight.facts.results import Edge, Filter, Mesh, Way
from preflight.judge.blame import blame
from preflight.reach.session import replies
from preflight.reach.session.connection import Call, Session
from preflight.reach.session.fleet import of_host
from preflight.said import plain_text, said
from preflight.said.errors import BadReply, HostError, TimedOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from preflight.facts.node import NodeFacts

T = TypeVar("T")


def addresses_of(nodes: Iterable[NodeFacts]) -> dict[str, str]:
    """Name -> the address that peers use, of each node that has an interface to train on."""
    return {node.name: node.address_for_peers() for node in nodes if node.has_training_interface()}


def orders(tried: Iterable[Pair], listening: Mapping[str, tuple[str, int]]) -> dict[str, dict[str, Any]]:
    """What each listening node is sent: the peers to connect to, and who will connect to it."""
    sent: dict[str, dict[str, Any]] = {name: {"peers": [], "expect": []} for name in listening}
    for source, target in tried:
        if source in listening and target in listening:
            address, port = listening[target]
            sent[source]["peers"].append({"name": target, "address": address, "port": port})
            sent[target]["expect"].append(source)
    return sent


class ReportedEdge(replies.Message, frozen=True):
    """How one connection ended, as the connecting node says."""

    to: replies.Word
    port: replies.AnyPort
    outcome: Literal["ok", "refused", "filtered", "reset", "no_echo", "wrong_peer", "unreachable", "looped", "local"]
    detail: replies.Line
    source_address: replies.Word


class ReportedFilter(replies.Message, frozen=True):
    """A rule of the node's packet filter."""

    tool: Literal["nft", "iptables", "ufw", "firewalld"]
    place: replies.Word
    rule: replies.Line
    packet: Literal["request", "answer", "data"] = "request"


class ReportedWay(replies.Message, frozen=True):
    """The route that packets to an unreachable peer take out of the node."""

    to: replies.Word
    interface: replies.Word
    gateway: replies.Word
    hardware: replies.Word
    state: Literal["", "known", "permanent", "unanswered", "no route"]


class MeshReply(replies.Message, frozen=True):
    """What a node reports of a mesh."""

    edges: tuple[ReportedEdge, ...]
    heard: tuple[replies.Word, ...]
    strangers: int
    filters: Annotated[tuple[ReportedFilter, ...], msgspec.Meta(max_length=8)] = ()
    ways: Annotated[tuple[ReportedWay, ...], msgspec.Meta(max_length=8)] = ()


def checked(node: str, result: MeshReply, order: Mapping[str, Any]) -> dict[str, Any]:
    """What a node reports about the connections that it was asked to make. Raises BadReply for anything else."""
    ordered = {(peer["name"], peer["port"]) for peer in order["peers"]}
    named = [(edge.to, edge.port) for edge in result.edges]
    if len(set(named)) != len(named) or not ordered.issuperset(named):
        raise BadReply(node, "it reports connections that it was not asked to try")
    if not {way.to for way in result.ways} <= {name for name, _ in ordered}:
        raise BadReply(node, "it reports ways to nodes that it was not asked to reach")
    if not set(result.heard) <= set(order["expect"]):
        raise BadReply(node, "it reports to have heard nodes that were not to connect to it")
    reported: dict[str, Any] = msgspec.to_builtins(result, enc_hook=plain_text)
    return reported


def combine(tried: Sequence[Pair], results: Mapping[str, Mapping[str, Any]], *, seconds: float) -> Mesh:
    """The outcomes of the connecting ends and the attestations of the listening ends, as one mesh.

    An edge is ok only if both ends say so. A node without a result leaves its own edges `local`.
    """
    outcomes = {(source, edge["to"]): edge for source, result in results.items() for edge in result.get("edges", ())}
    heard = {target: set(result.get("heard", ())) for target, result in results.items()}
    failed = []
    for source, target in tried:
        edge = outcomes.get((source, target))
        if edge is None:
            failed.append(
                Edge(
                    source=source, target=target, port=0, reason="local", detail=said("{source} gave no result", source)
                )
            )
        elif edge["outcome"] != "ok":
            failed.append(
                Edge(source=source, target=target, port=edge["port"], reason=edge["outcome"], detail=edge["detail"])
            )
        elif source not in heard.get(target, set()):
            detail = said("{source} had the right answer, but {target} does not say it heard {source}", source, target)
            failed.append(Edge(source=source, target=target, port=edge["port"], reason="not_attested", detail=detail))
    names = tuple(dict.fromkeys(name for pair in tried for name in pair))
    return Mesh(
        edges=len(tried),
        ok=len(tried) - len(failed),
        failed=tuple(failed),
        blamed=blame(failed, names),
        seconds=seconds,
        filters=reported_by(results, "filters", Filter),
        ways=reported_by(results, "ways", Way),
    )


def reported_by(results: Mapping[str, Mapping[str, Any]], what: str, kind: type[T]) -> dict[str, tuple[T, ...]]:
    """Node -> the filters, or the ways, that it reported; nodes without any are left out."""
    return {
        node: tuple(msgspec.convert(row, kind) for row in result[what])
        for node, result in results.items()
        if result.get(what)
    }


def joined(meshes: Sequence[Mesh]) -> Mesh:
    """The connections of several groups of nodes as those of one mesh; a node of several is named once."""
    failed = tuple(edge for part in meshes for edge in part.failed)
    names = tuple(dict.fromkeys(name for part in meshes for name in part.node_names))
    return Mesh(
        edges=sum(part.edges for part in meshes),
        ok=sum(part.ok for part in meshes),
        failed=failed,
        blamed=blame(failed, names),
        unmeasured={name: reason for part in meshes for name, reason in part.unmeasured.items()},
        seconds=sum(part.seconds for part in meshes),
        node_names=names,
        filters={name: rules for part in meshes for name, rules in part.filters.items()},
        ways={name: rows for part in meshes for name, rows in part.ways.items()},
    )


CONNECT_SECONDS = 3.0

PAYLOAD_BYTES = 65536

# What a pair costs us (8 us with 512 nodes: sent, read, checked) and a connection its node, both with room to spare.
PAIR_SECONDS = 20e-6
CONNECTION_SECONDS = 2e-3

LISTENING_SHARE = 0.5  # of the time of a mesh: by then each node must listen
ENDING_SECONDS = 5.0  # where connections failed, a node then reads its firewall's rules
ATTEST_SECONDS = 1.0  # for bytes still under way when the last connection has its outcome


def full_seconds(count: int) -> float:
    """About how long connections between all ordered pairs of so many nodes take: each node makes its own at once."""
    return ATTEST_SECONDS + count * (count - 1) * PAIR_SECONDS + count * CONNECTION_SECONDS


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
        calls[node] = await sessions[node].start("mesh", arguments, seconds=seconds + ENDING_SECONDS)
        listening[node] = replies.listening(node, await place(node), asked=addresses[node])

    async def place(node: str) -> Any:
        # The others wait for their peers meanwhile, until their own call ends at the latest.
        until = seconds * LISTENING_SHARE
        try:
            return await asyncio.wait_for(calls[node].first("listening", Any), until)
        except asyncio.TimeoutError:
            raise TimedOut(node, said("it did not say within {until:.0f} s at which port it listens", until)) from None

    async def connect(node: str, order: dict[str, Any]) -> None:
        await calls[node].send(order)
        await calls[node].first("tried", int)

    async def conclude(node: str) -> None:
        await calls[node].send({"finish": True})
        results[node] = checked(node, await calls[node].end(MeshReply), ordered[node])

    await for_each(listen, dict.fromkeys(addresses, ()), unmeasured)
    tried = pairs(tuple(node for node in addresses if node in listening), is_full=full)
    ordered = orders(tried, listening)
    await for_each(connect, {node: (order,) for node, order in ordered.items()}, unmeasured)
    if any(name in unmeasured for name in listening):
        await asyncio.sleep(ATTEST_SECONDS)
    await for_each(conclude, {node: () for node in listening if node not in unmeasured}, unmeasured)
    judged = [pair for pair in tried if not unmeasured.keys() & set(pair)]
    result = combine(judged, results, seconds=time.monotonic() - started)
    return msgspec.structs.replace(result, unmeasured=unmeasured)


async def for_each(work: Any, arguments: dict[str, tuple[Any, ...]], unmeasured: dict[str, str]) -> None:
    """Run `work` for every node at once; a node that fails is noted with its reason."""
    answers = await asyncio.gather(*(work(node, *rest) for node, rest in arguments.items()), return_exceptions=True)
    for node, answer in zip(arguments, answers, strict=True):
        if isinstance(answer, HostError):
            unmeasured[node] = answer.reason
        elif isinstance(answer, Exception):
            unmeasured[node] = of_host(node, answer).reason
        elif isinstance(answer, BaseException):
            raise answer
