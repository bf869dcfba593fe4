"""How are the facts of all nodes collected, in a first round and in those that need its answers?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Any

from preflight.errors import FactMissing, HostError
from preflight.facts import decode, view
from preflight.facts.cluster import Cluster
from preflight.facts.decode import Answer, Document
from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing
from preflight.measure import mesh
from preflight.session.connection import Call, Session
from preflight.session.fleet import Fleet

FACTS_SECONDS = 30.0
PEERS_SECONDS = 15.0
COLLECTED = {"identity", "network", "ports", "software", "gpu", "rdma", "environment", "limits", "machine", "kernel"}
Layers = list[tuple[str, dict[str, str]]]


async def collect(fleet: Fleet, layers: Layers, backend: str) -> tuple[dict[str, Document], Cluster]:
    """Open every session and ask it for its facts as soon as it is up; nodes that fail are in fleet.failures.

    When all have answered, each is asked about its peers. Gives the nodes that answered, in HOSTS order: their
    documents, as they are stored, and their facts, decoded.
    """
    answers: dict[str, Document] = {}
    calls: dict[str, Call] = {}

    async def ask(session: Session) -> None:
        answers[session.host.name] = await _facts_of(fleet, session, layers, calls)

    await fleet.open(then=ask)
    documents = {host.name: answers[host.name] for host in fleet.hosts if host.name in answers}
    cluster = view.view(documents.values(), backend)
    peers = mesh.asked([node.name for node in cluster])
    rounds = await asyncio.gather(
        *(_peers_of(calls[node.name], node, cluster, peers[node.name]) for node in cluster if node.name in calls)
    )
    return with_answers(documents, cluster, dict(rounds))


def with_answers(
    documents: Mapping[str, Document], cluster: Cluster, answers: Mapping[str, Answer]
) -> tuple[dict[str, Document], Cluster]:
    """Documents and facts with what the nodes gave in a further round; what was there is not decoded again."""
    merged = {name: decode.merge(documents[name], answer) for name, answer in answers.items()}
    return {**documents, **merged}, view.with_answers(cluster, answers)


async def _facts_of(fleet: Fleet, session: Session, layers: Layers, calls: dict[str, Call]) -> Document:
    name = session.host.name
    index = next(i for i, host in enumerate(fleet.hosts) if host.name == name)
    subjects: dict[str, dict[str, Any]] = {}
    missing: dict[str, Missing] = {}
    arguments = {"environment": [list(layer) for layer in layers], "sysfs": "/sys", "proc": "/proc"}
    try:
        call = await session.start("facts", arguments, seconds=FACTS_SECONDS + PEERS_SECONDS)
        call.deadline = time.monotonic() + FACTS_SECONDS  # a node that hangs must not use up its peers' second round
        async for event in call.events():
            if "collected" in event:
                call.deadline += PEERS_SECONDS
                calls[name] = call
                break
            _take(event, subjects, missing)
    except HostError as error:
        if session.failure or not subjects:
            raise
        # Some subjects came before the call broke or ran out of time: those count, the rest is missing.
        for subject in COLLECTED - subjects.keys():
            missing.setdefault(subject, Missing(error.reason))
    offset, uncertainty = session.clock
    subjects["clock"] = {"offset_seconds": offset, "uncertainty_seconds": uncertainty}
    reached = session.hello.get("reached") or [session.host.address]
    slots = session.host.slots or 0
    return Document(decode.SCHEMA, name, index, str(reached[0]), slots, subjects, missing)


async def _peers_of(call: Call, node: NodeFacts, cluster: Cluster, names: Collection[str]) -> tuple[str, Answer]:
    """The second round of one node: its name, and the subject that came or is missing."""
    subjects: dict[str, dict[str, Any]] = {}
    missing: dict[str, Missing] = {}
    is_asked = len(cluster) > 1 or any(node.has_variable(name) for name in ("MASTER_ADDR", "MASTER_PORT"))
    if not is_asked:
        missing["peers"] = Missing("one node, and no MASTER_ADDR: there was nothing to ask", "absent")
    try:
        await call.send({"peers": _about_peers(node, cluster, names)} if is_asked else {"finish": True})
        async for event in call.events():
            _take(event, subjects, missing)
    except HostError as error:
        missing["peers"] = Missing(error.reason)
    return node.name, (subjects, missing)


def _about_peers(node: NodeFacts, cluster: Cluster, names: Collection[str]) -> dict[str, Any]:
    peers = []
    for peer in cluster:
        if peer.name in names:
            try:
                called = {"hostname": peer.identity.hostname, "fqdn": peer.identity.fqdn}
            except FactMissing:
                continue
            peers.append({"name": peer.name, "address": peer.address_for_peers(), **called})
    return {
        "peers": peers,
        "master_address": node.variable("MASTER_ADDR") if node.has_variable("MASTER_ADDR") else "",
        "bind": _port_to_bind(node),
    }


def _take(event: dict[str, Any], subjects: dict[str, dict[str, Any]], missing: dict[str, Missing]) -> None:
    subject = str(event.get("subject"))
    if isinstance(event.get("facts"), dict):
        subjects[subject] = event["facts"]
    else:
        kind = event.get("kind")
        missing[subject] = Missing(
            str(event.get("missing"))[:4000], kind if kind in {"absent", "failed", "denied"} else "failed"
        )


def _port_to_bind(node: NodeFacts) -> dict[str, Any] | None:
    """Rank 0's node proves that the job's MASTER_PORT is free by binding it."""
    if node.index != 0 or not node.has_variable("MASTER_PORT"):
        return None
    text = node.variable("MASTER_PORT")
    return {"address": "", "port": int(text)} if text.isdecimal() and 0 < int(text) < 65536 else None
