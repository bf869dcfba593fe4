"""How is one thing of a made-up cluster broken?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from preflight.facts import selection
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.results import Bench, Edge, Mesh, Rehearsal, Training
from preflight.facts.results.rehearsal import Cause
from preflight.facts.subjects.environment import Environment, Variable
from preflight.facts.subjects.gpu import Gpus
from preflight.facts.subjects.identity import Identity
from preflight.facts.subjects.network import Network
from preflight.facts.subjects.rdma import Rdma
from preflight.facts.value import Missing, Value
from preflight.report.document import Proof
from preflight.said import plain_text
from preflight.said.errors import MissingKind
from preflight.testing.hardware import node_address

V = TypeVar("V", bound=msgspec.Struct)


@dataclass(frozen=True, repr=False)
class FakeRun:
    """A cluster, and what a run measured on it, all of it made up. Each method gives a copy with one thing changed.

    ``subjects`` is node -> subject -> facts, as `preflight facts --json` shows them. A node, a subject or a field that
    does not exist raises KeyError or TypeError, so that a misspelt word breaks the test and not the cluster.
    """

    subjects: Mapping[str, Mapping[str, Value]]
    measured_mesh: Mesh
    measured_bench: Bench
    measured_training: Training
    backend: selection.Backend
    missing: Mapping[str, Mapping[str, Missing]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    transports: dict[str, str] = field(default_factory=dict)
    logins: dict[str, str] = field(default_factory=dict)
    stage_seconds: dict[str, float] = field(default_factory=dict)
    racks: dict[str, str] = field(default_factory=dict)
    measured_rehearsal: Rehearsal = field(default_factory=lambda: Rehearsal(scripts=(), ranks=(), causes=()))
    proof: Proof | None = None

    def __repr__(self) -> str:
        """Short: pytest prints it where an assertion fails."""
        return f"FakeRun({', '.join(self.names)})"

    # -- breaking one thing

    def broken(self, nodes: str | Collection[str], subject: str, /, **fields: Any) -> FakeRun:
        """Other facts in one subject of one or several nodes: ``broken("node3", "kernel", oom_kills=2)``."""
        names = (nodes,) if isinstance(nodes, str) else nodes
        changed = {name: {**self.subjects[name], subject: self._changed(name, subject, fields)} for name in names}
        return replace(self, subjects={**self.subjects, **changed})

    def broken_interface(self, node: str, name: str = "eth0", /, **fields: Any) -> FakeRun:
        """Other facts of a network interface: ``broken_interface("node3", mtu=1400)``."""
        network = self.facts(node, "network", Network)
        place = [interface.name for interface in network.interfaces].index(name)
        return self.broken(node, "network", interfaces=_with(network.interfaces, place, fields))

    def broken_gpu(self, node: str, index: int = 0, /, **fields: Any) -> FakeRun:
        """Other facts of one GPU: ``broken_gpu("node3", 5, processes=1)``."""
        devices = self.facts(node, "gpu", Gpus).devices
        if isinstance(devices, Missing):
            raise KeyError(f"{node} has no readable GPUs: {devices.missing}")
        return self.broken(node, "gpu", devices=_with(devices, index, fields))

    def broken_rdma_port(self, node: str, device: int = 0, /, **fields: Any) -> FakeRun:
        """Other facts of the port of one RDMA device: ``broken_rdma_port("node3", state="DOWN")``."""
        devices = self.facts(node, "rdma", Rdma).devices
        ports = _with(devices[device].ports, 0, fields)
        return self.broken(node, "rdma", devices=_with(devices, device, {"ports": ports}))

    def with_variables(self, *nodes: str, **variables: str) -> FakeRun:
        """More variables in the job's environment of some nodes, of all where none is named."""
        run = self
        more = {name: Variable(text, "--env") for name, text in variables.items()}
        for node in nodes or self.names:
            held = self.facts(node, "environment", Environment)
            run = run.broken(node, "environment", variables={**held.variables, **more})
        return run

    def with_subject(self, nodes: str | Collection[str], subject: str, value: Value) -> FakeRun:
        """Other facts for a whole subject of a node, or of several."""
        names = (nodes,) if isinstance(nodes, str) else nodes
        changed = {name: {**self.subjects[name], subject: value} for name in names}
        return replace(self, subjects={**self.subjects, **changed})

    def without(
        self, nodes: str | Collection[str], subject: str, reason: str = "the tool broke", kind: MissingKind = "failed"
    ) -> FakeRun:
        """A subject that a node, or several, could not give: absent there, failed, or denied to this user."""
        names = (nodes,) if isinstance(nodes, str) else nodes
        lost = {name: {**self.missing.get(name, {}), subject: Missing(reason, kind)} for name in names}
        return replace(self, missing={**self.missing, **lost})

    def unreached(self, node: str, reason: str = "connection refused") -> FakeRun:
        """A host that did not answer."""
        return replace(self, failures={**self.failures, node: reason})

    # -- other measurements

    def mesh_fails(self, *edges: tuple[str, str], blamed: tuple[tuple[str, ...], ...]) -> FakeRun:
        """Connections that failed, each from a node to a node, and the sets of nodes that are blamed for them."""
        failed = tuple(Edge(source=source, target=target, port=40001, reason="filtered") for source, target in edges)
        total = self.measured_mesh.edges
        return replace(self, measured_mesh=Mesh(edges=total, ok=total - len(failed), failed=failed, blamed=blamed))

    def bench_has(self, **fields: Any) -> FakeRun:
        """Other values in the benchmark's section of report.json."""
        return replace(self, measured_bench=msgspec.structs.replace(self.measured_bench, **fields))

    def all_reduce_has(self, **fields: Any) -> FakeRun:
        """Other values in the all-reduce's result."""
        return self.bench_has(results=(msgspec.structs.replace(self.measured_bench.results[0], **fields),))

    def training_has(self, **fields: Any) -> FakeRun:
        """Other values in the training's section of report.json."""
        return replace(self, measured_training=msgspec.structs.replace(self.measured_training, **fields))

    def rank_has(self, rank: int, /, **fields: Any) -> FakeRun:
        """Other values for one rank of the training."""
        return self.training_has(ranks=_with(self.measured_training.ranks, rank, fields))

    # -- what checks ask of a run

    @property
    def names(self) -> tuple[str, ...]:
        """Every host that was named, whether it answered or not."""
        return tuple(self.subjects)

    @cached_property
    def cluster(self) -> Cluster:
        """The nodes that answered, each with its training interface chosen from its variables."""
        return Cluster(tuple(self._node(name) for name in self.names if name not in self.failures))

    def facts(self, node: str, subject: str, kind: type[V]) -> V:
        """One subject of a node. Raises TypeError where it is of another type."""
        value = self.subjects[node][subject]
        if not isinstance(value, kind):
            raise TypeError(f"{subject} of {node} is {type(value).__name__}, not {kind.__name__}")
        return value

    def mesh(self) -> Mesh:
        """The mesh."""
        return self.measured_mesh

    def bench(self) -> Bench:
        """The benchmark."""
        return self.measured_bench

    def training(self) -> Training:
        """The reference training."""
        return self.measured_training

    def rehearsal(self) -> Rehearsal:
        """The rehearsal."""
        return self.measured_rehearsal

    def rehearsal_has(self, *causes: Cause) -> FakeRun:
        """Causes that the rehearsal found."""
        return replace(self, measured_rehearsal=msgspec.structs.replace(self.measured_rehearsal, causes=causes))

    def end(self) -> None:
        """The state at the end of the run is among the facts already."""

    def leave_out(self, names: Collection[str]) -> None:
        """The measurements are given, whatever nodes are left out."""

    def not_started(self) -> str:
        """Nothing is started here."""
        return "a made-up cluster"

    def planned(self) -> tuple[str, ...]:
        """Rank -> the node that should run it."""
        ranks_per_node = self.measured_training.world_size // len(self.names)
        return tuple(name for name in self.names for _ in range(ranks_per_node))

    def _changed(self, node: str, subject: str, fields: Mapping[str, Any]) -> Value:
        """A subject with other values, each of the type that a node could send."""
        changed = msgspec.structs.replace(self.subjects[node][subject], **fields)
        try:
            return msgspec.convert(msgspec.to_builtins(changed, enc_hook=plain_text), type=type(changed), strict=True)
        except msgspec.ValidationError as error:
            raise TypeError(f"no node could send this as {subject}: {error}") from None

    def _node(self, name: str) -> NodeFacts:
        subjects = dict(self.subjects[name])
        missing = dict(self.missing.get(name, {}))
        index = self.names.index(name)
        address = node_address(index + 1)
        subjects["network"] = selection.with_training_interface(
            self.facts(name, "network", Network),
            self.facts(name, "identity", Identity),
            self.facts(name, "environment", Environment),
            backend=self.backend,
            reached_address=address,
            has_peers=len(self.names) > 1,
        )
        present = {subject: value for subject, value in subjects.items() if subject not in missing}
        return NodeFacts(name, index, address, present, missing, backend=self.backend)


def _with(held: tuple[V, ...], place: int, fields: Mapping[str, Any]) -> tuple[V, ...]:
    """The same structs, one of them with other values."""
    return (*held[:place], msgspec.structs.replace(held[place], **fields), *held[place + 1 :])
