"""How are the facts of all nodes collected, in a first round and in those that need its answers?"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any

from preflight.facts import decode, neighbours, shared, view
from preflight.facts.cluster import Cluster
from preflight.facts.decode import Answer, Document
from preflight.facts.documents import Documents, packed
from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing
from preflight.knowledge import sysctls
from preflight.reach.session import replies
from preflight.reach.session.connection import Call, Session
from preflight.reach.session.fleet import Fleet
from preflight.said import said
from preflight.said.errors import BadReply, FactMissing, HostError, MissingKind

FACTS_SECONDS = 30.0
PEERS_SECONDS = 15.0
FIRST_ROUND_SHARE = 0.6  # of a stage that is short
LATE_SECONDS = 0.5  # for decoding a node's answer after its last message
COLLECTED = {"identity", "network", "ports", "software", "gpu", "rdma", "environment", "limits", "machine", "kernel"}
ASKED = COLLECTED | {"peers"}
Layers = list[tuple[str, dict[str, str]]]


async def collect(fleet: Fleet, layers: Layers, backend: str, *, seconds: float = 90.0) -> tuple[Documents, Cluster]:
    """Open every session and ask it for its facts as soon as it is up; nodes that fail are in fleet.failures.

    So are those that have not answered when the first round must end, for the others to be asked about their peers
    within `seconds`. Gives the nodes that answered, in HOSTS order: their documents, as they are stored, and their
    facts, decoded.
    """
    first_round = max(seconds - PEERS_SECONDS, FIRST_ROUND_SHARE * seconds)
    answered = Answered(len(fleet.hosts))
    calls: dict[str, Call] = {}

    async def ask(session: Session) -> None:
        answered.take(await facts_of(session, places[session.host.name], layers, calls, until=until))

    places = {host.name: place for place, host in enumerate(fleet.hosts)}
    until = time.monotonic() + first_round
    await fleet.open(then=ask, seconds=first_round + LATE_SECONDS)
    documents, cluster = answered.whole(places, backend)
    peers = neighbours.asked([node.name for node in cluster])
    rounds = await asyncio.gather(
        *(peers_of(calls[node.name], node, cluster, peers[node.name]) for node in cluster if node.name in calls)
    )
    return with_answers(documents, cluster, dict(rounds))


class Answered:
    """What the nodes reported in the first round; each answer is decoded and packed as it comes."""

    def __init__(self, nodes: int) -> None:
        self._shared = shared.among(nodes)
        self._packed: dict[str, bytes] = {}
        self._nodes: dict[str, NodeFacts] = {}

    def take(self, document: Document) -> None:
        """The answer of one node."""
        self._nodes[document.node] = decode.decode(document, self._shared)
        self._packed[document.node] = packed(document)

    def whole(self, order: Iterable[str], backend: str) -> tuple[Documents, Cluster]:
        """Documents and facts of those that answered, in this order."""
        names = [name for name in order if name in self._packed]
        documents = Documents.of_packed({name: self._packed[name] for name in names})
        return documents, view.of_nodes([self._nodes[name] for name in names], backend)


class Further:
    """What nodes report in further rounds; only the new answers are decoded and packed, as they come."""

    def __init__(self, documents: Documents, cluster: Cluster) -> None:
        self._documents = documents
        self._cluster = cluster
        self._shared = shared.among(len(cluster.nodes))
        self._packed: dict[str, list[bytes]] = {}
        self._nodes: dict[str, NodeFacts] = {}

    def take(self, answers: Mapping[str, Answer]) -> None:
        """The answers of some nodes, by their names."""
        for name, answer in answers.items():
            self._packed.setdefault(name, []).append(packed(answer))
            node = self._nodes.get(name) or self._cluster[name]
            self._nodes[name] = decode.with_answer(node, answer, self._shared)

    def whole(self) -> tuple[Documents, Cluster]:
        """Documents and facts with what was taken."""
        nodes = tuple(self._nodes.get(node.name, node) for node in self._cluster)
        return self._documents.merged(self._packed), dataclasses.replace(self._cluster, nodes=nodes)


def with_answers(documents: Documents, cluster: Cluster, answers: Mapping[str, Answer]) -> tuple[Documents, Cluster]:
    """Documents and facts with what the nodes gave in one further round."""
    further = Further(documents, cluster)
    further.take(answers)
    return further.whole()


async def facts_of(session: Session, index: int, layers: Layers, calls: dict[str, Call], *, until: float) -> Document:
    """The first round's answer of one node, the `index`-th of HOSTS. Raises HostError where there is none."""
    name = session.host.name
    subjects: dict[str, dict[str, Any]] = {}
    missing: dict[str, Missing] = {}
    arguments: dict[str, Any] = {"environment": [list(layer) for layer in layers], "sysfs": "/sys", "proc": "/proc"}
    arguments["sysctls"] = list(sysctls.NAMES)
    arguments["interpreter"] = sys.executable  # where the nodes may have the same environment
    try:
        call = await session.start("facts", arguments, seconds=FACTS_SECONDS + PEERS_SECONDS)
        # a node that hangs must not use up its peers' second round
        call.deadline = min(time.monotonic() + FACTS_SECONDS, until)
        async for event in call.events():
            if "collected" in event:
                call.deadline += PEERS_SECONDS
                calls[name] = call
                break
            _take(name, event, subjects, missing)
    except HostError as error:
        if session.failure or not subjects or isinstance(error, BadReply):
            raise
        # Some subjects came before the call broke or ran out of time: those count, the rest is missing.
        for subject in COLLECTED - subjects.keys():
            missing.setdefault(subject, Missing(error.reason))
    offset, uncertainty = session.clock
    subjects["clock"] = {"offset_seconds": offset, "uncertainty_seconds": uncertainty}
    if session.host.engine:
        subjects["engine"] = dict(session.host.engine)
    reached = (session.hello.address if session.hello else "") or session.host.address
    slots = session.host.slots or 0
    return Document(decode.SCHEMA, name, index, reached, slots, subjects, missing)


async def peers_of(call: Call, node: NodeFacts, cluster: Cluster, names: Collection[str]) -> tuple[str, Answer]:
    """The second round of one node: its name, and the subject that came or is missing."""
    subjects: dict[str, dict[str, Any]] = {}
    missing: dict[str, Missing] = {}
    is_asked = len(cluster) > 1 or any(_variable(node, name) for name in ("MASTER_ADDR", "MASTER_PORT"))
    if not is_asked:
        missing["peers"] = Missing("one node, and no MASTER_ADDR: there was nothing to ask", "absent")
    try:
        await call.send({"peers": _about_peers(node, cluster, names)} if is_asked else {"finish": True})
        async for event in call.events():
            _take(node.name, event, subjects, missing)
    except HostError as error:
        subjects.clear()  # what it said before it was caught
        missing["peers"] = Missing(error.reason)
    return node.name, (subjects, missing)


def _about_peers(node: NodeFacts, cluster: Cluster, names: Collection[str]) -> dict[str, Any]:
    peers = []
    for peer in sorted((cluster[name] for name in names), key=attrgetter("index")):
        try:
            called = {"hostname": peer.identity.hostname, "fqdn": peer.identity.fqdn}
        except FactMissing:
            continue
        peers.append({"name": peer.name, "address": peer.address_for_peers(), **called})
    return {
        "peers": peers,
        "master_address": _variable(node, "MASTER_ADDR"),
        "bind": _port_to_bind(node),
        "accepts": node.index == 0,
    }


class Subject(replies.Message, frozen=True):
    """What a node reports of one subject: its facts, or why there are none."""

    subject: replies.Word
    facts: dict[str, Any] | None = None
    missing: str | None = None
    kind: MissingKind = "failed"

    def __post_init__(self) -> None:
        if (self.facts is None) == (self.missing is None):
            raise ValueError("wanted either facts or why they are missing")


def _take(name: str, event: dict[str, Any], subjects: dict[str, dict[str, Any]], missing: dict[str, Missing]) -> None:
    """Take in one subject. Raises BadReply for one that was never asked for, or came before."""
    reported = replies.read(name, Subject, event, "facts")
    if reported.subject not in ASKED:
        raise BadReply(name, said("it reported {subject!r}, which it was not asked about", reported.subject[:60]))
    if reported.subject in subjects or reported.subject in missing:
        raise BadReply(name, said("it reported {subject} twice", reported.subject))
    if reported.facts is not None:
        subjects[reported.subject] = reported.facts
    else:
        missing[reported.subject] = Missing(str(reported.missing)[:4000], reported.kind)


def _port_to_bind(node: NodeFacts) -> dict[str, Any] | None:
    """Rank 0's node proves that the job's MASTER_PORT is free by binding it."""
    text = _variable(node, "MASTER_PORT") if node.index == 0 else ""
    return {"address": "", "port": int(text)} if text.isdecimal() and 0 < int(text) < 65536 else None


def _variable(node: NodeFacts, name: str) -> str:
    """A variable of the job on a node; "" where it is not set, or where the node's answer could not be read."""
    try:
        return node.variable(name)
    except FactMissing:
        return ""
