"""What do tests/data/said/gathered.txt list of whole rounds: a fleet's facts, writes over RDMA, and short messages?"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType
from typing import Any

import msgspec

from preflight.job.collect import record, subjects
from preflight.job.measure import mesh, streams
from preflight.job.measure.rdma import writes
from preflight.job.start import records
from preflight.job.start.rehearsal import run as rehearsal
from preflight.job.start.rehearsal import story
from preflight.said.errors import HostError
from preflight.testing import roce
from tests import found
from tests.clock import Clock
from tests.instead import instead
from tests.job.collect.nodes import Node, shown
from tests.job.figures import figures
from tests.job.measure.played import PlayedNode, job_of

LAYERS = [("--env", {"A": "1"})]
FACTS = [{"subject": "kernel", "missing": "no", "kind": "absent"}, {"collected": True}]
PEERS = {"subject": "peers", "missing": "nobody is there"}


class Fleet:
    """Nodes that are all reached at once."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.hosts = [node.host for node in nodes]
        self.failures: dict[str, HostError] = {}
        self.seconds = 0.0

    async def open(self, *, then: Callable[[Any], Awaitable[None]], seconds: float) -> None:
        """Each is asked as soon as it is reached."""
        self.seconds = seconds
        for node in self.nodes:
            try:
                await then(node)
            except HostError as error:
                self.failures[node.host.name] = error


def of_fleets() -> Iterator[str]:
    """A fleet that is asked for its facts, and then for what they know of each other; one of them may not answer."""
    late, gone = HostError("n2", "slow"), HostError("n2", "gone")
    plans: dict[str, list[Any]] = {
        "all well": [*FACTS, PEERS],
        "one never answers": [gone],
        "one does not know its peers": [*FACTS, late],
        "one came half-way": [FACTS[0], late],
    }
    for (title, script), seconds in itertools.product(plans.items(), (90.0, 20.0, 4.0)):
        nodes = [Node(name, facts=script if name == "n2" else [*FACTS, PEERS]) for name in ("n3", "n1", "n2")]
        fleet = Fleet(nodes)
        yield f"=== {title}, {seconds:g} s"
        documents, cluster = Clock().run(subjects.collect(fleet, LAYERS, "gloo", seconds=seconds))  # type: ignore[arg-type]
        yield from (f"{node.host.name}: {' | '.join(node.told)}" for node in nodes)
        yield f"within {fleet.seconds:g} s, {list(documents)} not {sorted(fleet.failures)}"
        for node in cluster:
            told = [
                f"{name} {figures(node.missing[name])}" for name in ("gpu", "kernel", "peers") if name in node.missing
            ]
            yield f"  {node.name}: {len(node.missing)} missing, {', '.join(told)}"


class Writing(PlayedNode):
    """A node that notes what it is asked, and may answer of other ports than that."""

    def __init__(self, gbytes_per_s: float, *, other: str = "") -> None:
        super().__init__({}, write=lambda _number: {"gbytes_per_s": gbytes_per_s})
        self.told: list[str] = []
        self.other = other

    async def start(self, name: str, arguments: dict[str, Any], **options: Any) -> Any:
        """A server of writes, or the writes."""
        self.told.append(f"{name} within {options['seconds']:g} s: {shown(arguments)}")
        if name == self.other:
            key = "ports" if name == "rdma_serve" else "writes"
            arguments = {**arguments, key: [{**one, "number": 7} for one in arguments[key]]}
        return await super().start(name, arguments, **options)


def of_writes() -> Iterator[str]:
    """What is asked of nodes that write over RDMA to each other, by IPv4 and by IPv6, and with NCCL's own choices."""
    settings: tuple[dict[str, str], ...] = ({}, {"NCCL_IB_SL": "3", "NCCL_IB_TC": "106", "NCCL_IB_GID_INDEX": "1"})
    for variables, (title, address), (gbytes_per_s, other) in itertools.product(
        settings,
        {"IPv4": "10.0.0.1", "IPv6": "fd00::1"}.items(),
        ((40.0, ""), (1000.0, ""), (40.0, "rdma_serve"), (40.0, "rdma_write")),
    ):
        if other and variables:
            continue
        cluster = roce(2).with_variables(**variables).cluster
        ports = [port._replace(address=address) for port in writes.ports_of(cluster)][::4]
        ports = [port._replace(asked={**port.asked, "number": number}) for number, port in enumerate(ports)]
        nodes = {node.name: Writing(gbytes_per_s, other=other) for node in cluster}
        with instead(writes, "ports_of", gives=ports):
            work = writes.search(nodes, cluster, job_of(*nodes, backend="nccl"), threshold=0.8, say=str)  # type: ignore[arg-type]
            given = asyncio.run(work)
        yield f"=== {variables} {title} {gbytes_per_s:g} GB/s {other}"
        yield from (f"{name}: {' | '.join(node.told[:4])} of {len(node.told)}" for name, node in nodes.items())
        yield f"{figures(given.slow)} {' '.join(found.values(given.not_measured))}"


MODULES: tuple[ModuleType, ...] = (record, subjects, mesh, writes, streams, records, rehearsal, story)


def of_messages() -> Iterator[str]:
    """Each message of a node that tells no more than it must: what stands for the rest."""
    for module in MODULES:
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__:
                told = least(msgspec.inspect.type_info(kind))
                try:
                    yield f"{module.__name__.rpartition('.')[2]} {name}: {figures(msgspec.convert(told, kind))}"
                except msgspec.ValidationError as error:
                    yield f"{name}: {error}"


def least(kind: Any) -> Any:
    """The shortest value of a type, as JSON has it."""
    info = msgspec.inspect
    if isinstance(kind, info.StructType):
        fields = [field for field in kind.fields if field.required]
        if kind.array_like:
            return [least(field.type) for field in fields]
        return {field.encode_name: least(field.type) for field in fields}
    if isinstance(kind, info.LiteralType):
        return kind.values[0]
    if isinstance(kind, info.TupleType):
        return [least(one) for one in kind.item_types]
    if isinstance(kind, info.UnionType):
        return least(kind.types[0])
    plain = {info.IntType: 1, info.FloatType: 1.0, info.StrType: "x", info.BoolType: True, info.AnyType: "x"}
    return plain.get(type(kind), {} if isinstance(kind, info.DictType) else [])
