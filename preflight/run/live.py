"""One run: open the sessions, collect the facts, start mesh, bench and training on first use, keep the deadline."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar

import msgspec

from preflight.collect import ending, files, subjects, trust, vendor
from preflight.errors import NotApplicable, NotMeasured, PreflightError, TimedOut, UsageError
from preflight.facts import view
from preflight.facts.cluster import Cluster
from preflight.facts.decode import Answer
from preflight.facts.documents import Documents
from preflight.facts.neighbours import ALL_PAIRS_LIMIT
from preflight.facts.node import NodeFacts
from preflight.facts.racks import racks_of
from preflight.hosts import Host, fold
from preflight.jobs.outcome import Outcome
from preflight.jobs.patience import RESERVE_SECONDS
from preflight.jobs.placement import JobNodes
from preflight.measure import bench, devices, mesh, rails, rendezvous, scope, streams, training
from preflight.measure.rdma import writes
from preflight.options.options import Options
from preflight.report.compare import Snapshot
from preflight.report.document import NodeInfo, Proof
from preflight.results import Bench, Mesh, Rendezvous, Training
from preflight.run import certificates, interpreters, jumps, topology, turns
from preflight.run.certificates import Archive, Asked, Certificate
from preflight.run.moved import confirmed
from preflight.run.progress import Progress
from preflight.run.source import Measurements
from preflight.session.fleet import Fleet
from preflight.transport.kubernetes import machines

T = TypeVar("T")
DEEPSPEED_ON_CPU = "without GPUs accelerate's DeepSpeed gives every rank a world of one"
FACTS_SECONDS = 90.0
FIRST_TURN_SHARE = 0.5  # of the time, where nodes are visited in turns
UNCONFIRMED = "the connection ended before the node confirmed that nothing is left"
SLACK_SECONDS = 0.5  # of a stage, reserved for handling the answers
MESH_SECONDS = 30.0
BENCH_SECONDS = 90.0
SEARCH_SECONDS = 60.0
TRAINING_SECONDS = 90.0
FILES_SECONDS = 110.0
TRUST_SECONDS = 45.0
FURTHER_SHARE = 0.5  # of the time that is left: a node that answers nothing costs the others no more
LOG_OF = {"nccl": "nccl", "trace": "flight-recorder"}
CLOSING_SECONDS = 8.0  # reserved for ending the nodes and writing the report; a fifth of a short deadline


@dataclass
class Run:
    """A live run: `open` it, use it, `close` it; a stage that has no time left is NotMeasured."""

    options: Options
    progress: Progress = field(default_factory=lambda: Progress(0))
    started: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    stage_seconds: dict[str, float] = field(default_factory=dict)
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
        self.deadline = time.monotonic() + self.options.deadline_seconds
        self._fleet: Fleet | None = None
        self._mesh: Mesh | None = None
        self._bench: Bench | None = None
        self._training: Training | None = None
        self._broken: dict[str, str] = {}

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
        self._fleet = Fleet(self.hosts, opts.reach, run_id=opts.run_id, deadline=self.deadline)
        if self._fleet.is_whole:
            self._open_at_once()
        else:
            self._open_in_turns()
        failures = {name: error.reason for name, error in self.fleet.failures.items()}
        self.failures = jumps.explained(self.hosts, failures, opts.reach)
        seconds = max(1.0, min(interpreters.MOST_SECONDS, self._left(interpreters.MOST_SECONDS)))
        with contextlib.suppress(PreflightError):  # without it, the reason stands as it is
            asked = interpreters.explained(self.hosts, self.failures, opts.reach, run_id=opts.run_id)
            self.failures = self.fleet.run(asked, seconds=seconds)
        self.transports = {host.name: host.transport for host in self.hosts}
        self.logins = {host.name: host.written for host in self.hosts}
        self.notes += machines(self.hosts)

    def _open_at_once(self) -> None:
        opts = self.options
        self._begin("facts: reaching the nodes and reading them")
        seconds = self._left(FACTS_SECONDS)
        work = partial(subjects.collect, self.fleet, opts.layers, opts.backend, seconds=seconds - SLACK_SECONDS)
        self.documents, self.cluster = self._timed("facts", lambda: self.fleet.run(work(), seconds=seconds))
        self._begin("files: what all nodes share, and what takes long")
        self._timed("files", self._further_facts)
        if opts.tests_of_vendors:
            self._begin(f"vendors' tests of GPUs: {opts.vendor_tests}")
            seconds = opts.seconds_of_vendors + 2 * vendor.ENDING_SECONDS
            self._timed("vendor", lambda: self._within(seconds, self._tests_of_vendors))
        self.notes += self.fleet.remarks
        self.notes += [
            f"{name}: {remark}" for name, session in self.fleet.sessions.items() for remark in session.remarks
        ]
        self.notes += [
            f"{name}: text before our replies: {session.decoder.text()[:200]!r}"
            for name, session in self.fleet.sessions.items()
            if session.decoder.noise.strip()
        ]

    def _open_in_turns(self) -> None:
        """More nodes than can be connected at once: each is visited for its facts, then with some of the others."""
        self._begin(f"facts: visiting the nodes, {self.fleet.at_once} at a time")
        seconds = self._left(self.options.deadline_seconds) * FIRST_TURN_SHARE
        work = partial(turns.collect, self.fleet, self.options, seconds=seconds - SLACK_SECONDS)
        self.documents, self.cluster = self._timed(
            "facts", lambda: self.fleet.run(work(), seconds=seconds + SLACK_SECONDS)
        )
        self._note_partings()
        self._begin("mesh: connecting the nodes group by group")
        left = self._left(self.options.deadline_seconds)
        further = subjects.Further(self.documents, self.cluster)
        second = turns.Second(self.fleet, self.options, self.cluster, further.take)
        rest = partial(second.run, seconds=left - SLACK_SECONDS, say=self.progress.say)
        try:
            self._timed("mesh", lambda: self.fleet.run(rest(), seconds=left + SLACK_SECONDS))
        finally:
            self.documents, self.cluster = further.whole()
        self._note_partings()
        self._mesh = second.mesh()
        self.stage_seconds["ending"] = 0.0
        self.notes.append(
            f"mesh within groups: {self.fleet.why_in_turns()} connects each node with 16 of all the others"
        )

    def _note_partings(self) -> None:
        """The notes about the visits that are over."""
        for name, parting in self.fleet.partings.items():
            self.notes += [f"{name}: {remark}" for remark in parting.remarks]
            self.notes += [f"{name}: text before our replies: {parting.noise!r}"] * bool(parting.noise)
            self.notes += [f"{name}: left behind: {left}" for left in parting.residue]
            self.notes += [f"{name}: {UNCONFIRMED}"] * (not parting.ended and name not in self.fleet.failures)
        self.fleet.partings.clear()

    def _needs_all(self) -> None:
        if self._fleet is not None and not self._fleet.is_whole:
            raise NotMeasured(f"it needs all nodes at once: {self.fleet.why_in_turns()}")

    def _begin(self, stage: str) -> None:
        self.progress.stage(stage, tuple if self._fleet is None else self._fleet.waiting)

    def _further_facts(self) -> None:
        """What needs all nodes at once, or may take long: folders and files, and logins from node to node."""
        opts = self.options
        sessions = {name: self.fleet.sessions[name] for name in self.documents}
        seconds = self._share(FILES_SECONDS)
        work = partial(files.collect, sessions, opts, seconds=seconds - SLACK_SECONDS)
        self._add(self.fleet.run(work(), seconds=seconds + SLACK_SECONDS))
        hosts_of = {host.name: host for host in self.hosts if host.name in sessions}
        self._add(self._within(self._share(TRUST_SECONDS), partial(trust.collect, sessions, hosts_of, opts)))

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
        asked = Asked(self.options, checks)
        try:
            found = Archive.opened(certificates.state_folder()).find(asked)
        except UsageError as error:
            found = str(error)
        reason = found if isinstance(found, str) else ""
        if isinstance(found, Certificate):
            now = datetime.now(timezone.utc)
            reason = certificates.why_not(found, self.documents, asked, now=now, reuse=reuse)
        if reason or isinstance(found, str):
            self.notes.append(f"--reuse: measured again: {reason}")
            return
        self._bench, self._training = found.bench, found.training
        jobs = {"bench": found.bench, "training": found.training}
        measured = tuple(name for name, result in jobs.items() if result is not None)
        self.proof = Proof(run=found.run, at=found.at.isoformat(timespec="seconds"), jobs=measured)

    def certify(self, checks: tuple[str, ...]) -> None:
        """After a run that ended well with --reuse: leave a certificate of what it measured itself."""
        if self.options.reuse is None or self.proof is not None or not (self._bench or self._training):
            return
        certificate = certificates.made(
            self.options,
            self.documents,
            checks,
            bench=self._bench,
            training=self._training,
            at=datetime.now(timezone.utc),
        )
        try:
            Archive.opened(certificates.state_folder()).keep(Asked(self.options, checks), certificate)
        except (OSError, UsageError) as error:
            self.notes.append(f"--reuse: no certificate could be written: {error}")

    def _add(self, answers: Mapping[str, Answer]) -> None:
        """What the nodes gave in a further round."""
        self.documents, self.cluster = subjects.with_answers(self.documents, self.cluster, answers)

    @property
    def seconds(self) -> float:
        """How long the run has taken so far."""
        return time.monotonic() - (self.deadline - self.options.deadline_seconds)

    def measured(self) -> Measurements:
        """What the jobs have measured so far; starts none."""
        return Measurements(self._mesh, self._bench, self._training)

    def node_infos(self) -> dict[str, NodeInfo]:
        """How each node was addressed, and whether it answered."""
        return {host.name: self._node_info(host) for host in self.hosts}

    def _node_info(self, host: Host) -> NodeInfo:
        try:
            address = self.cluster[host.name].address_for_peers()
        except (KeyError, PreflightError):
            address = host.address
        return NodeInfo(
            host=written(host),
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
        self._timed("close", self._fleet.close)
        for name, error in self._fleet.failures.items():
            if isinstance(error, TimedOut) and name not in self._fleet.sessions:
                self.notes.append(f"{name}: never answered; what the login started there may still be running")
        for name, session in self._fleet.sessions.items():
            self.notes += [f"{name}: left behind: {left}" for left in session.residue]
            if not session.ended and name not in self.failures:
                self.notes.append(f"{name}: {UNCONFIRMED}")

    def leave_out(self, names: Collection[str]) -> None:
        """Run the further jobs without these nodes, and say so."""
        if not self.left_out.issuperset(names):
            self.left_out |= frozenset(names)
            ran = fold(node.name for node in self.crew.cluster)
            asked = f"--need {self.options.need}" if self.options.need else "--prune"
            self.notes.append(f"{asked}: {fold(sorted(self.left_out))} left out; later jobs ran on {ran}")

    @property
    def crew(self) -> JobNodes:
        """The nodes that jobs run on."""
        nodes = tuple(node for node in self.cluster if node.name not in self.left_out)
        return JobNodes(Cluster(nodes, asked=len(self.names)), self.names, self.options)

    def mesh(self) -> Mesh:
        """The port mesh between the nodes that have a training interface."""
        if self._mesh is None:
            self._begin("mesh: connecting every pair of nodes on random ports")
            addresses = {
                node.name: node.address_for_peers() for node in self.cluster if self._has_training_interface(node)
            }
            longest = self._all_pairs_seconds(len(addresses)) if self.options.full_mesh else MESH_SECONDS
            seconds = self._left(longest)
            work = partial(mesh.run, self.fleet.sessions, addresses, full=self.options.full_mesh, seconds=seconds)
            result = self._timed("mesh", lambda: self.fleet.run(work(), seconds=seconds + 5.0))
            self._mesh = msgspec.structs.replace(result, node_names=tuple(addresses), rendezvous=self.rendezvous())
        return self._mesh

    def _all_pairs_seconds(self, count: int) -> float:
        """The time limit for connections between all pairs; NotMeasured at once where the time is too short."""
        expected = mesh.full_seconds(count)
        if count <= ALL_PAIRS_LIMIT:
            return MESH_SECONDS
        said = f"connections between all {count * (count - 1)} pairs of {count} nodes: about {expected:.0f} s"
        if expected > self._left(expected):
            raise NotMeasured(f"{said}, more than the deadline leaves: give a longer --deadline")
        self.notes.append(said)
        self.progress.say(said)
        return max(MESH_SECONDS, 3 * expected)

    def rendezvous(self) -> Rendezvous | None:
        """Connections of all nodes to the job's own MASTER_PORT on the first; None where no port is known."""
        port = rendezvous.port_of(self.cluster)
        addresses = {node.name: node.address_for_peers() for node in self.cluster if self._has_training_interface(node)}
        first = self.cluster.nodes[0].name if self.cluster.nodes else ""
        if not port or first != self.names[0] or first not in addresses or len(addresses) < 2:
            return None
        if self._mesh is not None and self._mesh.rendezvous is not None:
            return self._mesh.rendezvous  # of nodes that were visited in turns, and are no longer connected
        self._needs_all()
        self._begin(f"rendezvous: connecting every node to port {port} of {first}")
        addresses = {**addresses, first: rendezvous.address_of(self.cluster.first)}
        seconds = self._left(rendezvous.SECONDS)
        work = rendezvous.run(self.fleet.sessions, addresses, port=port, seconds=seconds)
        return self._timed("rendezvous", lambda: self.fleet.run(work, seconds=seconds + 5.0))

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
        self._begin(f"{stage}: measuring the bandwidth")
        opts, crew = self.options, self.crew
        searching = self._full_mesh_seconds() if opts.full_mesh else SEARCH_SECONDS
        searching += devices.SECONDS
        if crew.backend == "nccl":
            most = max(placement.local_world_size for placement in crew.placements())
            searching += rails.longest_seconds(len(crew.cluster), most, is_full=opts.full_mesh)
            searching += writes.LONGEST_SECONDS
        groups = scope.rounds(opts.sweep.scope, crew.placements(), self.racks)
        seconds = self._left(max(BENCH_SECONDS, bench.seconds_of(opts.sweep, max(1, len(groups)))))
        earlier = self.baseline.results if self.baseline is not None else ()
        workload = bench.settings(
            crew.backend, len(crew.cluster), opts.sweep, groups=groups, seconds=seconds, earlier=earlier
        )
        plan = bench.Plan(
            "direct",
            is_localizing=opts.localize,
            is_full_mesh=opts.full_mesh,
            is_burning_in=opts.burn_in,
            thresholds=opts.settings,
            baseline=earlier,
            say=self.progress.say,
            scope=opts.sweep.scope,
        )
        seconds += RESERVE_SECONDS
        job = crew.job("collectives", workload, seconds=self._left(seconds))
        work = partial(bench.run, self.fleet.sessions, crew.cluster, job, plan)
        left = self._left(seconds + searching)
        result, outcomes = self._timed(stage, lambda: self.fleet.run(work(), seconds=left))
        for name, outcome in outcomes.items():
            self._keep_logs(name, outcome)
        racks = {node: self.racks[node] for node in job.nodes if opts.sweep.scope == "racks" and node in self.racks}
        return msgspec.structs.replace(result, node_names=job.nodes, racks=racks)

    def training(self) -> Training:
        """The reference training through the launcher of the options."""
        if self._training is None:
            self._needs_all()
            self._begin("training: running the reference job")
            opts, crew = self.options, self.crew
            if self.not_started():
                raise NotApplicable(self.not_started())
            from preflight.launch.launchers import why_not  # imported here: not every run trains

            workload = training.settings(crew.backend, opts)
            job = crew.job("train", workload, seconds=self._left(TRAINING_SECONDS + RESERVE_SECONDS))
            job = replace(job, starting=opts.starting, placements=crew.placements(opts.starting))
            refusal = why_not(opts.launcher, job, view.packages(crew.cluster))
            if refusal:
                raise NotMeasured(refusal)
            work = partial(training.run, self.fleet.sessions, job, opts, algbw_gbytes_per_s=self._algbw())
            left = self._left(300.0)
            result, outcomes = self._timed("training", lambda: self.fleet.run(work(), seconds=left))
            self._training = msgspec.structs.replace(result, node_names=job.nodes)
            for name, outcome in outcomes.items():
                self._keep_logs(name, outcome)
        return self._training

    def not_started(self) -> str:
        """Why the launch files cannot start the reference job on these nodes, "" where they can."""
        starting = self.options.starting
        reason = starting.refusal
        if starting.needs_gpus and self.crew.backend == "gloo":
            reason = f"{starting.needs_gpus}: {DEEPSPEED_ON_CPU}"
        return f"the reference job was not started: {reason}" if reason else ""

    def end(self) -> None:
        """Ask the nodes once more, after everything else, what has moved: the subject ending."""
        if "ending" in self.stage_seconds:
            return
        self._begin("ending: looking at the nodes once more")
        sessions = {name: self.fleet.sessions[name] for name in self.documents}
        work = partial(ending.collect, sessions, self.options.layers)
        self._add(self._timed("ending", lambda: self._within(20.0, work)))

    def planned(self) -> tuple[str, ...]:
        """The node of every rank of the training, by rank; empty where its agents number them as they like."""
        return self.crew.planned()

    def _full_mesh_seconds(self) -> float:
        """The time limit for streams between all pairs; NotMeasured at once where the time is too short."""
        seconds = streams.full_mesh_seconds(len(self.crew.cluster))
        said = f"streams between all pairs of {len(self.crew.cluster)} nodes: about {seconds:.0f} s"
        if seconds > self._left(seconds):
            raise NotMeasured(f"{said}, more than the deadline leaves: give a longer --deadline")
        self.notes.append(said)
        self.progress.say(said)
        return 2 * seconds + SEARCH_SECONDS

    def _algbw(self) -> float | None:
        """What the bench's all-reduce reached over these ranks, where it ran."""
        results = self._bench.results if self._bench is not None else ()
        return max((result.algbw_gbytes_per_s for result in results if result.title == "all_reduce"), default=None)

    def _has_training_interface(self, node: NodeFacts) -> bool:
        try:
            return bool(node.network.training_interface.name)
        except PreflightError:
            return False

    def _left(self, wanted: float) -> float:
        left = self.deadline - time.monotonic() - min(CLOSING_SECONDS, self.options.deadline_seconds / 5)
        if left < 1.0:
            raise NotMeasured(f"the deadline of {self.options.deadline_seconds:g} s was reached")
        return min(wanted, left)

    def _share(self, wanted: float) -> float:
        """How much of the remaining time further facts may take, so that measurements have theirs."""
        return min(wanted, max(1.0, FURTHER_SHARE * self._left(self.options.deadline_seconds)))

    def _within(self, seconds: float, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run on the sessions' loop what is only made once there is time for it: else nobody would await it."""
        left = self._left(seconds)
        return self.fleet.run(work(), seconds=left)

    def _timed(self, stage: str, work: Callable[[], T]) -> T:
        """Run a stage once: a stage that failed is not started again, and gives every later check the same reason."""
        if stage in self._broken:
            raise NotMeasured(self._broken[stage])
        begun = time.monotonic()
        try:
            return work()
        except PreflightError as error:
            self._broken[stage] = str(error)
            raise NotMeasured(str(error)) from None
        finally:
            self.stage_seconds[stage] = round(time.monotonic() - begun, 3)

    def _keep_logs(self, stage: str, outcome: Outcome) -> None:
        for node, commands in outcome.commands.items():
            self.logs[f"{stage}-launch-{node}.log"] = commands
        for story in outcome.stories:
            placement = story.placement
            name = f"{stage}-rank{placement.rank}-{placement.node}"
            self.logs[f"{name}.log"] = story.log
            for kind, text in story.files.items():
                self.logs[f"{name}-{LOG_OF[kind]}.log"] = text


def written(host: Host) -> str:
    """The host as a user writes it, without options: user@address:port."""
    user = f"{host.user}@" if host.user else ""
    if host.port:
        address = f"[{host.address}]" if ":" in host.address else host.address
        return f"{user}{address}:{host.port}"
    return f"{user}{host.address}"
