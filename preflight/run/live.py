"""One run: open the sessions, collect the facts, start mesh, bench and training on first use, keep the deadline."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar

import msgspec

from preflight.facts.cluster import Cluster
from preflight.facts.decode import Answer
from preflight.facts.documents import Documents
from preflight.facts.neighbours import ALL_PAIRS_LIMIT
from preflight.facts.racks import racks_of
from preflight.facts.results import Bench, Mesh, Rehearsal, Rendezvous, Training
from preflight.job.collect import ending, files, subjects, trust, vendor
from preflight.job.measure import bench, mesh, rendezvous, streams, training
from preflight.job.options.options import Options
from preflight.job.start.placement import JobNodes
from preflight.reach import known
from preflight.reach.host import Host
from preflight.reach.hosts import fold
from preflight.reach.session.fleet import Fleet
from preflight.reach.transport.kubernetes import machines
from preflight.report.compare import Snapshot
from preflight.report.document import NodeInfo, Proof
from preflight.run import interpreters, jobs, jumps, topology, turns
from preflight.run.moved import confirmed
from preflight.run.progress import Progress
from preflight.run.reuse import paths
from preflight.run.reuse.certificates import Asked
from preflight.run.reuse.recall import keep, recalled
from preflight.run.source import Measurements
from preflight.run.stages import Stages
from preflight.said import said
from preflight.said.errors import NotMeasured, PreflightError, TimedOut

T = TypeVar("T")
FACTS_SECONDS = 90.0
FIRST_TURN_SHARE = 0.5  # of the time, where nodes are visited in turns
UNCONFIRMED = "the connection ended before the node confirmed that nothing is left"
SLACK_SECONDS = 0.5  # of a stage, reserved for handling the answers
MESH_SECONDS = 30.0
FILES_SECONDS = 110.0
TRUST_SECONDS = 45.0


@dataclass
class Run:
    """A live run: `open` it, use it, `close` it; a stage that has no time left is NotMeasured."""

    options: Options
    progress: Progress = field(default_factory=lambda: Progress(0))
    started: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    logs: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    transports: dict[str, str] = field(default_factory=dict)  # the address by which a node was to be reached
    logins: dict[str, str] = field(default_factory=dict)  # and as HOSTS writes it
    documents: Documents = field(default_factory=Documents)
    cluster: Cluster = field(default_factory=lambda: Cluster(()))
    notes: list[str] = field(default_factory=list)
    left_out: frozenset[str] = frozenset()
    baseline: Snapshot | None = None  # the earlier run to compare with
    racks: Mapping[str, str] = field(default_factory=dict)  # of the nodes whose rack or switch is known
    proof: Proof | None = None  # of the earlier run whose measurements hold

    def __post_init__(self) -> None:
        self.hosts: tuple[Host, ...] = self.options.hosts
        self.names = tuple(host.name for host in self.hosts)
        self.stages = Stages(self.options.deadline_seconds)
        self._fleet: Fleet | None = None
        self._mesh: Mesh | None = None
        self._bench: Bench | None = None
        self._training: Training | None = None
        self._paths: dict[str, float] | None = None  # what a burst over each carried, with --reuse
        self._rehearsal: Rehearsal | None = None

    @property
    def fleet(self) -> Fleet:
        """The sessions; only after `open`."""
        if self._fleet is None:
            raise PreflightError("the run was not opened")
        return self._fleet

    def open(self) -> None:
        """Reach every node and collect its facts; nodes that fail are in `failures`."""
        opts = self.options
        self.hosts = confirmed(self.hosts)
        self.racks = racks_of(self.hosts, opts.topology or topology.asked(self.hosts))
        self._fleet = Fleet(self.hosts, opts.reach, run_id=opts.run_id, deadline=self.stages.deadline)
        if self._fleet.is_whole:
            self._open_at_once()
        else:
            self._open_in_turns()
        failures = {name: error.reason for name, error in self.fleet.failures.items()}
        failures = jumps.explained(self.hosts, failures, opts.reach)
        self.failures = known.explained(failures, [host.address for host in self.hosts], known.names())
        seconds = max(1.0, min(interpreters.MOST_SECONDS, self.stages.left(interpreters.MOST_SECONDS)))
        with contextlib.suppress(PreflightError):  # without it, the reason stands as it is
            asked = interpreters.explained(self.hosts, self.failures, opts.reach, run_id=opts.run_id)
            self.failures = self.fleet.run(asked, seconds=seconds)
        self.transports = {host.name: host.transport for host in self.hosts}
        self.logins = {host.name: host.written for host in self.hosts}
        self.notes += machines(self.hosts)

    def _open_at_once(self) -> None:
        opts = self.options
        self._begin("facts: reaching the nodes and reading them")
        seconds = self.stages.left(FACTS_SECONDS)
        work = partial(subjects.collect, self.fleet, opts.layers, opts.backend, seconds=seconds - SLACK_SECONDS)
        self.documents, self.cluster = self.stages.timed("facts", lambda: self.fleet.run(work(), seconds=seconds))
        self._begin("files: what all nodes share, and what takes long")
        self.stages.timed("files", self._further_facts)
        if opts.tests_of_vendors:
            self._begin(said("vendors' tests of GPUs: {vendor_tests}", opts.vendor_tests))
            seconds = opts.seconds_of_vendors + 2 * vendor.ENDING_SECONDS
            self.stages.timed("vendor", lambda: self._within(seconds, self._tests_of_vendors))
        self.notes += self.fleet.remarks
        self.notes += [
            f"{name}: {remark}" for name, session in self.fleet.sessions.items() for remark in session.remarks
        ]
        self.notes += [
            said("{name}: text before our replies: {text!r}", name, session.decoder.text()[:200])
            for name, session in self.fleet.sessions.items()
            if session.decoder.noise.strip()
        ]

    def _open_in_turns(self) -> None:
        """More nodes than can be connected at once: each is visited for its facts, then with some of the others."""
        self._begin(said("facts: visiting the nodes, {at_once} at a time", self.fleet.at_once))
        seconds = self.stages.left(self.options.deadline_seconds) * FIRST_TURN_SHARE
        work = partial(turns.collect, self.fleet, self.options, seconds=seconds - SLACK_SECONDS)
        self.documents, self.cluster = self.stages.timed(
            "facts", lambda: self.fleet.run(work(), seconds=seconds + SLACK_SECONDS)
        )
        self._note_partings()
        self._begin("mesh: connecting the nodes group by group")
        left = self.stages.left(self.options.deadline_seconds)
        further = subjects.Further(self.documents, self.cluster)
        second = turns.Second(self.fleet, self.options, self.cluster, further.take)
        rest = partial(second.run, seconds=left - SLACK_SECONDS, say=self.progress.say)
        try:
            self.stages.timed("mesh", lambda: self.fleet.run(rest(), seconds=left + SLACK_SECONDS))
        finally:
            self.documents, self.cluster = further.whole()
        self._note_partings()
        self._mesh = second.mesh()
        self.stage_seconds["ending"] = 0.0
        self.notes.append(
            said(
                "mesh within groups: {why_in_turns} connects each node with 16 of all the others",
                self.fleet.why_in_turns(),
            )
        )

    def _note_partings(self) -> None:
        """The notes about the visits that are over."""
        for name, parting in self.fleet.partings.items():
            self.notes += [f"{name}: {remark}" for remark in parting.remarks]
            self.notes += [said("{name}: text before our replies: {noise!r}", name, parting.noise)] * bool(
                parting.noise
            )
            self.notes += [said("{name}: left behind: {left}", name, left) for left in parting.residue]
            self.notes += [f"{name}: {UNCONFIRMED}"] * (not parting.ended and name not in self.fleet.failures)
        self.fleet.partings.clear()

    def _needs_all(self) -> None:
        if self._fleet is not None and not self._fleet.is_whole:
            raise NotMeasured(said("it needs all nodes at once: {why_in_turns}", self.fleet.why_in_turns()))

    def _begin(self, stage: str) -> None:
        self.progress.stage(stage, tuple if self._fleet is None else self._fleet.waiting)

    def _further_facts(self) -> None:
        """What needs all nodes at once, or may take long: folders and files, and logins from node to node."""
        opts = self.options
        sessions = {name: self.fleet.sessions[name] for name in self.documents}
        seconds = self.stages.share(FILES_SECONDS)
        work = partial(files.collect, sessions, opts, seconds=seconds - SLACK_SECONDS)
        self._add(self.fleet.run(work(), seconds=seconds + SLACK_SECONDS))
        hosts_of = {host.name: host for host in self.hosts if host.name in sessions}
        self._add(self._within(self.stages.share(TRUST_SECONDS), partial(trust.collect, sessions, hosts_of, opts)))

    async def _tests_of_vendors(self) -> None:
        """The vendors' tests, which take minutes, where they were asked for."""
        sessions = {name: self.fleet.sessions[name] for name in self.documents}
        self._add(await vendor.collect(sessions, self.cluster, self.options))

    def recall(self, checks: tuple[str, ...]) -> None:
        """With --reuse, take over an earlier run's measurements where its certificate holds, or say why it does not.

        `checks` are those that bandwidth and training are measured for.
        """
        reuse = self.options.reuse
        if reuse is None or not checks:
            return
        found = recalled(Asked(self.options, checks), self.documents, reuse=reuse)
        why = found if isinstance(found, str) else ""
        why = self._probe({} if isinstance(found, str) else found.paths) or why
        if isinstance(found, str) or why:
            self.notes.append(said("--reuse: measured again: {why}", why))
            return
        self._bench, self._training = found.bench, found.training
        self.proof = found.proof()
        unread = [node.name for node in self.cluster if paths.hides_limits(node)]
        if unread:
            self.notes.append(
                said("--reuse: the packet filter of {unread} is shown to root alone: only bursts tell", fold(unread))
            )

    def _probe(self, before: dict[str, float]) -> str:
        """Send a burst over each path -> why what was measured no longer holds; "" where every path carries the same.

        What no fact says shows here: a limit in a switch, or on a node whose packet filter we may not read.
        """
        self._begin("paths: sending a short burst over each")
        addresses = mesh.addresses_of(self.cluster)
        work = partial(paths.probed, self.fleet.sessions, addresses, before)
        try:
            self._needs_all()
            found = self.stages.timed("paths", lambda: self._within(paths.SECONDS, work))
        except PreflightError as error:
            return said("the paths between the nodes could not be tried: {error}", error)
        self._paths = found if all(found.values()) else None
        return paths.slower(before, found)

    def certify(self, checks: tuple[str, ...]) -> None:
        """After a run that ended well with --reuse: leave a certificate of what it measured itself."""
        if self.options.reuse is None or self.proof is not None or not (self._bench or self._training):
            return
        if self._paths is None:
            self.notes.append("--reuse: no certificate is written: the paths between the nodes could not all be tried")
            return
        asked = Asked(self.options, checks)
        measured: dict[str, Any] = {"bench": self._bench, "training": self._training, "paths": self._paths}
        trouble = keep(asked, self.documents, **measured)
        if trouble:
            self.notes.append(said("--reuse: no certificate could be written: {trouble}", trouble))

    def _add(self, answers: Mapping[str, Answer]) -> None:
        """What the nodes gave in a further round."""
        self.documents, self.cluster = subjects.with_answers(self.documents, self.cluster, answers)

    @property
    def seconds(self) -> float:
        """How long the run has taken so far."""
        return self.stages.seconds

    @property
    def stage_seconds(self) -> dict[str, float]:
        """How long each stage took that is over."""
        return self.stages.seconds_of

    def measured(self) -> Measurements:
        """What the jobs have measured so far; starts none."""
        return Measurements(self._mesh, self._bench, self._training, self._rehearsal)

    def node_infos(self) -> dict[str, NodeInfo]:
        """How each node was addressed, and whether it answered."""
        return {host.name: self._node_info(host) for host in self.hosts}

    def _node_info(self, host: Host) -> NodeInfo:
        try:
            address = self.cluster[host.name].address_for_peers()
        except (KeyError, PreflightError):
            address = host.address
        is_named_alone = host.user is None and host.port is None
        return NodeInfo(
            host=host.address if is_named_alone else host.written,
            address=address,
            reached=host.name in self.documents,
            proof=self.proof,
            rack=self.racks.get(host.name, ""),
        )

    def close(self) -> None:
        """End every node agent; what a node could not clean up is a note."""
        self.progress.end()
        if self._fleet is None:
            return
        self.stages.timed("close", self._fleet.close)
        for name, error in self._fleet.failures.items():
            if isinstance(error, TimedOut) and name not in self._fleet.sessions:
                self.notes.append(
                    said("{name}: never answered; what the login started there may still be running", name)
                )
        for name, session in self._fleet.sessions.items():
            self.notes += [said("{name}: left behind: {left}", name, left) for left in session.residue]
            if not session.ended and name not in self.failures:
                self.notes.append(said("{name}: {UNCONFIRMED}", name, UNCONFIRMED))

    def leave_out(self, names: Collection[str]) -> None:
        """Run the further jobs without these nodes, and say so."""
        if not self.left_out.issuperset(names):
            self.left_out |= frozenset(names)
            ran = fold(node.name for node in self.crew.cluster)
            asked = f"--need {self.options.need}" if self.options.need else "--prune"
            self.notes.append(
                said("{asked}: {left_out} left out; later jobs ran on {ran}", asked, fold(sorted(self.left_out)), ran)
            )

    @property
    def crew(self) -> JobNodes:
        """The nodes that jobs run on."""
        nodes = tuple(node for node in self.cluster if node.name not in self.left_out)
        return JobNodes(Cluster(nodes, asked=len(self.names)), self.names, self.options)

    def mesh(self) -> Mesh:
        """The port mesh between the nodes that have a training interface."""
        if self._mesh is None:
            self._begin("mesh: connecting every pair of nodes on random ports")
            addresses, is_full = mesh.addresses_of(self.cluster), self.options.full_mesh
            seconds = self.stages.left(self._all_pairs_seconds(len(addresses)) if is_full else MESH_SECONDS)
            work = partial(mesh.run, self.fleet.sessions, addresses, full=is_full, seconds=seconds)
            result = self.stages.timed("mesh", lambda: self.fleet.run(work(), seconds=seconds + 5.0))
            self._mesh = msgspec.structs.replace(result, node_names=tuple(addresses), rendezvous=self.rendezvous())
        return self._mesh

    def _all_pairs_seconds(self, count: int) -> float:
        """The time limit for connections between all pairs."""
        if count <= ALL_PAIRS_LIMIT:
            return MESH_SECONDS
        seconds = mesh.full_seconds(count)
        pairs = count * (count - 1)
        self._announce(
            said(
                "connections between all {pairs} pairs of {count} nodes: about {seconds:.0f} s", pairs, count, seconds
            ),
            seconds,
        )
        return max(MESH_SECONDS, 3 * seconds)

    def _announce(self, message: str, seconds: float) -> None:
        """Say beforehand what takes so long; NotMeasured at once where the time is too short."""
        if seconds > self.stages.left(seconds):
            raise NotMeasured(said("{message}, more than the deadline leaves: give a longer --deadline", message))
        self.notes.append(message)
        self.progress.say(message)

    def rendezvous(self) -> Rendezvous | None:
        """Connections of all nodes to the job's own MASTER_PORT on the first; None where no port is known."""
        port = rendezvous.port_of(self.cluster)
        addresses = mesh.addresses_of(self.cluster)
        first = self.cluster.nodes[0].name if self.cluster.nodes else ""
        if not port or first != self.names[0] or first not in addresses or len(addresses) < 2:
            return None
        if self._mesh is not None and self._mesh.rendezvous is not None:
            return self._mesh.rendezvous  # of nodes that were visited in turns, and are no longer connected
        self._needs_all()
        self._begin(said("rendezvous: connecting every node to port {port} of {first}", port, first))
        addresses[first] = rendezvous.address_of(self.cluster.first)
        seconds = self.stages.left(rendezvous.SECONDS)
        work = rendezvous.run(self.fleet.sessions, addresses, port=port, seconds=seconds)
        return self.stages.timed("rendezvous", lambda: self.fleet.run(work, seconds=seconds + 5.0))

    def bench(self) -> Bench:
        """The all-reduce and the streams beside it; again without the slow nodes, where a job does not need them."""
        if self._bench is None:
            found = self._measured_bench("bench")
            slow = {name for place in found.slow for name in place.nodes}
            if slow and 0 < (self.options.need or 0) <= len(self.crew.cluster) - len(slow):
                self.leave_out(slow)
                again = self._measured_bench("bench again")
                found = msgspec.structs.replace(again, dropped=found.slow)
            self._bench = found
        return self._bench

    def _measured_bench(self, stage: str) -> Bench:
        self._needs_all()
        self._begin(said("{stage}: measuring the bandwidth", stage))
        crew, opts = self.crew, self.options
        if opts.full_mesh:
            count, seconds = len(crew.cluster), streams.full_mesh_seconds(len(crew.cluster))
            self._announce(
                said("streams between all pairs of {count} nodes: about {seconds:.0f} s", count, seconds), seconds
            )
        searching = jobs.search_seconds(crew)
        earlier = self.baseline.results if self.baseline is not None else ()
        job = jobs.bench_job(crew, self.stages, racks=self.racks, earlier=earlier)
        plan = jobs.bench_plan(opts, earlier=earlier, say=self.progress.say)
        work = partial(bench.run, self.fleet.sessions, crew.cluster, job, plan)
        seconds = self.stages.left(job.seconds + searching)
        result, outcomes = self.stages.timed(stage, lambda: self.fleet.run(work(), seconds=seconds))
        self.logs |= jobs.logs_of(outcomes)
        racks = {node: self.racks[node] for node in job.nodes if opts.sweep.scope == "racks" and node in self.racks}
        return msgspec.structs.replace(result, node_names=job.nodes, racks=racks)

    def training(self) -> Training:
        """The reference training through the launcher of the options."""
        if self._training is None:
            self._needs_all()
            self._begin("training: running the reference job")
            job = jobs.training_job(self.crew, self.stages)
            reached = jobs.all_reduce_gbytes_per_s(self._bench)
            work = partial(training.run, self.fleet.sessions, job, self.options, algbw_gbytes_per_s=reached)
            seconds = self.stages.left(300.0)
            result, outcomes = self.stages.timed("training", lambda: self.fleet.run(work(), seconds=seconds))
            self._training = msgspec.structs.replace(result, node_names=job.nodes)
            self.logs |= jobs.logs_of(outcomes)
        return self._training

    def rehearsal(self) -> Rehearsal:
        """The user's own start, for real, with the reference program in the place of theirs."""
        if self._rehearsal is None:
            from preflight.job.measure.rehearsal import whole  # here, as most runs rehearse nothing

            self._needs_all()
            self._begin("rehearsal: running the script with the reference program in place of its own")
            seconds = self.stages.left(self.options.deadline_seconds) - whole.ENDING_SECONDS
            work = partial(whole.rehearse, self.fleet.sessions, self.cluster, self.options, self.progress.say)
            found, logs = self.stages.timed(
                "rehearsal",
                lambda: self.fleet.run(work(seconds=seconds), seconds=seconds + whole.ENDING_SECONDS - 1.0),
            )
            self._rehearsal = found
            self.logs |= logs
        return self._rehearsal

    def not_started(self) -> str:
        """Why the launch files cannot start the reference job on these nodes, "" where they can."""
        return jobs.not_started(self.crew)

    def end(self) -> None:
        """Ask the nodes once more, after everything else, what has moved: the subject ending."""
        if "ending" in self.stage_seconds:
            return
        self._begin("ending: looking at the nodes once more")
        sessions = {name: self.fleet.sessions[name] for name in self.documents}
        work = partial(ending.collect, sessions, self.options.layers)
        self._add(self.stages.timed("ending", lambda: self._within(20.0, work)))

    def planned(self) -> tuple[str, ...]:
        """The node of every rank of the training, by rank; empty where its agents number them as they like."""
        return self.crew.planned()

    def _within(self, seconds: float, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run on the sessions' loop what is only made once there is time for it: else nobody would await it."""
        left = self.stages.left(seconds)
        return self.fleet.run(work(), seconds=left)
