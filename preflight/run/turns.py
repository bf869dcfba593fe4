"""How are more nodes asked than can be connected at a time?

In two turns. Each node is visited for its facts first; then, for only now all names and addresses are known, groups of
nodes are connected together: they are asked about their peers, connect to each other, and are looked at once more. A
group has nodes from the whole list, not its neighbours in it, so that its connections cross racks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from preflight.facts import neighbours
from preflight.facts.cluster import Cluster
from preflight.facts.decode import Answer, Document
from preflight.facts.documents import Documents
from preflight.facts.results import Mesh, Rendezvous
from preflight.facts.value import Missing
from preflight.job.collect import ending, files, subjects
from preflight.job.measure import mesh, rendezvous
from preflight.job.options.options import Options
from preflight.reach.host import Host
from preflight.reach.session.connection import Session
from preflight.reach.session.fleet import Fleet, of_host
from preflight.said import said
from preflight.said.errors import HostError

GROUP_SECONDS = 60.0
NEEDS_ALL = Missing("--shared and --checkpoint-dir need all nodes connected at once: raise `ulimit -n`")
NO_TRUST = Missing("asked where all nodes are connected at once: raise `ulimit -n`", "absent")


def groups(names: Sequence[str], most: int) -> list[tuple[str, ...]]:
    """The nodes of each group, `most` at most; none is alone where there are others."""
    count = -(-len(names) // max(2, most))
    return [tuple(names[start::count]) for start in range(count)]


async def collect(fleet: Fleet, options: Options, *, seconds: float) -> tuple[Documents, Cluster]:
    """The first turn: facts and folders of every node, as far as one node alone can tell; each is closed after it."""
    answered = subjects.Answered(len(fleet.hosts))
    places = {host.name: place for place, host in enumerate(fleet.hosts)}
    until = time.monotonic() + seconds

    async def ask(session: Session) -> None:
        name = session.host.name
        calls: dict[str, Any] = {}
        document = await subjects.facts_of(session, places[name], options.layers, calls, until=until)
        if not calls:
            fleet.late.add(name)
        given: Mapping[str, dict[str, Any]] = {}
        lost: Mapping[str, Missing] = {"files": NEEDS_ALL}
        if not options.paths_to_share:
            given, lost = (await files.collect({name: session}, options))[name]
        further = (given, {**lost, "trust": NO_TRUST})
        answered.take(_with(document, further))

    await fleet.visit(fleet.hosts, ask, seconds=seconds)
    return answered.whole(places, options.backend)


def _with(document: Document, answer: Answer) -> Document:
    subjects_of, missing = {**document.subjects, **answer[0]}, {**document.missing, **answer[1]}
    return msgspec.structs.replace(document, subjects=subjects_of, missing=missing)


@dataclass
class Second:
    """The second turn: what became of it so far."""

    fleet: Fleet
    options: Options
    cluster: Cluster
    take: Callable[[Mapping[str, Answer]], None]
    meshes: list[Mesh] = field(default_factory=list)
    meetings: list[Rendezvous] = field(default_factory=list)

    async def run(self, *, seconds: float, say: Callable[[str], None]) -> None:
        """Every group in its turn; `take` is given the answers of each. What there was no time for is missing."""
        names = [node.name for node in self.cluster]
        self.peers = neighbours.asked(names)
        self.hosts = {host.name: host for host in self.fleet.hosts}
        self.port = rendezvous.port_of(self.cluster)
        first = names[0] if names and names[0] == self.fleet.hosts[0].name else ""
        until = time.monotonic() + seconds
        rest = [name for name in names if name != first]
        made = [tuple(rest)]
        if len(names) > self.fleet.at_once:
            # one that had no time to tell all would keep a whole group waiting: those are by themselves, at the end
            prompt, late = (
                [name for name in rest if (name in self.fleet.late) == is_late] for is_late in (False, True)
            )
            made = [group for part in (prompt, late) if part for group in groups(part, self.fleet.at_once - 1)]
        for number, group in enumerate(made, 1):
            left = until - time.monotonic()
            say(said("group {number} of {made}", number, len(made)))
            if left < 1.0:
                self.take({name: _lost("the time of the stage was over before its turn") for name in group})
                continue
            await self._group(((first,) if first else ()) + group, first, min(left, GROUP_SECONDS), number == len(made))

    async def _group(self, names: Sequence[str], first: str, seconds: float, is_last: bool) -> None:
        lost: dict[str, Answer] = {}

        async def opened(host: Host) -> None:
            try:
                self.fleet.sessions[host.name] = await self.fleet.open_patiently(host)
            except Exception as error:
                lost[host.name] = _lost(of_host(host.name, error).reason)

        fresh = [name for name in names if name not in self.fleet.sessions]
        await asyncio.gather(*(opened(self.hosts[name]) for name in fresh))
        sessions = {name: self.fleet.sessions[name] for name in names if name in self.fleet.sessions}
        asked = {name: session for name, session in sessions.items() if name != first or is_last}
        answers = dict(await asyncio.gather(*(self._peers(session) for session in asked.values())))
        addresses = mesh.addresses_of(self.cluster[name] for name in sessions)
        found = await mesh.run(self.fleet.sessions, addresses, full=True, seconds=seconds)
        self.meshes.append(msgspec.structs.replace(found, node_names=tuple(addresses)))
        if self.port and first in addresses and len(addresses) > 1:
            own = {**addresses, first: rendezvous.address_of(self.cluster.first)}
            self.meetings.append(await rendezvous.run(self.fleet.sessions, own, port=self.port, seconds=seconds))
        for name, (given, missing) in (await ending.collect(asked, self.options.layers)).items():
            answers[name] = ({**answers[name][0], **given}, {**answers[name][1], **missing})
        self.take({**answers, **lost})
        await self.fleet.part([name for name in names if name != first or is_last])

    async def _peers(self, session: Session) -> tuple[str, Answer]:
        node = self.cluster[session.host.name]
        try:
            call = await session.start("facts", {"subjects": False}, seconds=subjects.PEERS_SECONDS)
            await call.first("collected", bool)
        except HostError as error:
            return node.name, ({}, {"peers": Missing(error.reason)})
        return await subjects.peers_of(call, node, self.cluster, self.peers[node.name])

    def mesh(self) -> Mesh:
        """The connections of all groups as one mesh, those to the job's own port with it."""
        return msgspec.structs.replace(mesh.joined(self.meshes), rendezvous=rendezvous.joined(self.meetings))


def _lost(reason: str) -> Answer:
    return {}, {subject: Missing(reason) for subject in ("peers", "ending")}
