"""What did the benchmark measure, what was expected, and who is slow? The section `bench` of report.json."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from preflight.facts.results.measured import Measured, OnDevice
from preflight.said import said
from preflight.said.errors import NotMeasured

Direction = Literal["egress", "ingress", "both", "path"]
RING = "NCCL_ALGO=Ring"  # the group of the results for which NCCL was held to a ring


class Result(Measured, frozen=True, kw_only=True):
    """One collective at one size. Seconds are of one operation, the maximum over ranks, over `iterations`."""

    op: str
    bytes: int
    iterations: int
    seconds_first: float
    seconds_median: float
    seconds_p5: float
    seconds_p95: float
    seconds_low: float  # 95 % interval of the median
    seconds_high: float
    cv: float
    algbw_gbytes_per_s: float
    busbw_gbytes_per_s: float
    busbw_low_gbytes_per_s: float
    busbw_high_gbytes_per_s: float
    wrong: int
    wrong_ranks: tuple[int, ...] = ()
    dtype: str = "float32"
    in_place: bool = True
    mode: str = "blocking"  # or "pipelined": several operations on their way at once
    group: str = ""  # of --scope: "node2", "rail 3"; empty where all ranks are one
    ranks: int = 0  # of that group

    @property
    def title(self) -> str:
        """The collective and, where it is not all ranks, who ran it."""
        return f"{self.op} ({self.group})" if self.group else self.op


def same_measurement(then: Iterable[Result], now: Iterable[Result]) -> list[tuple[Result, Result]]:
    """What an earlier run and a later one both measured: the same collective, size, element type, mode and group."""

    def key(result: Result) -> tuple[object, ...]:
        return result.op, result.bytes, result.dtype, result.mode, result.in_place, result.group

    earlier = {key(result): result for result in then}
    return [(earlier[key(result)], result) for result in now if key(result) in earlier]


class Expected(Measured, frozen=True, kw_only=True):
    """The bandwidth these nodes should show, and how the figure came about, one step a line."""

    busbw_gbytes_per_s: float
    bound_gbytes_per_s: float | None  # nothing can be faster than this; None where that is not known
    derivation: tuple[str, ...]
    is_floor: bool = False  # the least of what healthy nodes of the kind show, for they differ
    is_by_streams: bool = False  # no link tells its rate: what raw streams reached in this run


class Slow(Measured, frozen=True, kw_only=True):
    """A slow place that the shift rounds found."""

    nodes: tuple[str, ...]
    direction: Direction
    part: str = ""  # of the nodes: "rail 3", or "cuda:3" within one
    gbytes_per_s: float
    peers_gbytes_per_s: float
    sent_again: float = 0.0  # the share of segments that each TCP stream there sent again

    @property
    def share_of_peers(self) -> float:
        """Its rate over that of its peers."""
        return self.gbytes_per_s / self.peers_gbytes_per_s if self.peers_gbytes_per_s else 1.0


class Stream(Measured, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """One raw TCP stream of one shift round, timed at both ends."""

    source: str
    target: str
    shift: int
    gbytes_per_s: float  # the lower of what both ends say
    most_gbytes_per_s: float = 0.0  # the higher; 0 where one end alone told, as in runs of earlier versions
    failure: str = ""  # what both ends say where it gave its receiver no figure
    sent_again: float = 0.0  # the share of its segments that were lost and sent again


class Disputed(Measured, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """A stream, or a pair of ranks, whose two ends contradict each other, or that failed: it counts for nobody."""

    source: str
    target: str
    part: str = ""  # of the nodes: "rail 3", or "cuda:3 and cuda:5" within one
    least_gbytes_per_s: float
    most_gbytes_per_s: float
    failure: str = ""  # what both ends say of a stream that gave its receiver no figure


class Part(Measured, frozen=True, kw_only=True):
    """The best that one rail of a node, or one GPU among those of its node, sent and received."""

    node: str
    part: str  # "rail 3", "cuda:3"
    sends_gbytes_per_s: float
    receives_gbytes_per_s: float


class RankReport(OnDevice, frozen=True, kw_only=True):
    """What one rank says of itself when it has joined."""

    import_seconds: float
    init_seconds: float
    nccl: str = ""


class Transport(Measured, frozen=True, kw_only=True):
    """What NCCL's own log says one rank used; empty where it says nothing."""

    rank: int
    node: str
    network: str  # as NCCL calls it: IB, Socket, AWS Libfabric; "" where the log could not be read
    ports: tuple[str, ...]  # mlx5_0:1/RoCE, eth0:10.0.0.1<0>
    between_nodes: tuple[str, ...]  # NET/IB/GDRDMA, NET/Socket, COLLNET/SHARP/GDRDMA
    within_node: tuple[str, ...]  # P2P/CUMEM, SHM/direct
    channels: int
    algorithm: str  # of the largest all-reduce, from the log of rank 0, which alone has it: "RING SIMPLE"
    algorithms: dict[str, str] = {}  # operation, "" where old versions name none -> at its largest size
    nvls_channels: int = 0
    nvls: str = ""  # "available" or "not available": whether switches can add up on this GPU
    is_rack: bool = False  # NVLink joins several nodes (MNNVL)
    rack_ranks: int = 0  # so many ranks are in the NVLink domain of this one; 0 where the log does not say
    is_proxied: bool = False  # a ring's traffic goes through the GPU next to the adapter (PXN)
    is_data_direct: bool = False  # adapters reach the memory of GPUs by a function of their own (mlx5_0_dma)
    gpudirect_ports: tuple[str, ...] = ()  # whose adapter can reach the memory of GPUs
    other_ports: tuple[str, ...] = ()  # whose adapter cannot
    lost_plugin: str = ""  # why no external network plugin was loaded
    topology: tuple[str, ...] = ()  # what NCCL found of the node, a line for each part; of one rank of each node
    graphs: tuple[str, ...] = ()  # what it chose by that


class Device(OnDevice, frozen=True, kw_only=True):
    """What the device of one rank does by itself; None for what was not measured, or is not there."""

    model: str  # "NVIDIA H200", "cpu"
    matmul_tflops_per_s: float
    matmul_dtype: str
    wrong: int  # elements of a repeated product that differ
    memory_gbytes_per_s: float | None = None  # read and written
    to_device_gbytes_per_s: float | None = None
    from_device_gbytes_per_s: float | None = None
    products: int = 0  # that were verified
    wrong_products: int = 0
    paths_differ: int = 0  # elements in which two ways to the same exact product differ
    sm_mhz: float | None = None  # this and what follows: the median while it multiplied
    sm_mhz_max: float | None = None
    memory_mhz: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    memory_celsius: float | None = None
    memory_limit_celsius: float | None = None
    pcie_generation: float | None = None
    pcie_generation_max: float | None = None
    pcie_width: float | None = None
    slowed_by: tuple[str, ...] = ()
    has_cores_near: bool | None = None  # whether its rank may use a core of its NUMA node


class NoDevice(OnDevice, frozen=True, kw_only=True):
    """Why the GPU of one rank gave no figure by itself."""

    why: str
    device: str = ""  # "" where its rank did not say
    is_too_small: bool = False  # for what is measured, whoever else uses it; else it should have given a figure


class Bench(Measured, frozen=True, kw_only=True):
    """Collectives over all ranks, the raw streams beside them, and who is slow."""

    backend: str
    world_size: int
    nodes: int
    results: tuple[Result, ...]
    expected: Expected | None
    slow: tuple[Slow, ...]
    dropped: tuple[Slow, ...] = ()  # found in a first look, and left out of this one: the job does not need them
    streams: tuple[Stream, ...] = ()
    disputed: tuple[Disputed, ...] = ()  # of the streams, and of the pairs of ranks
    parts: tuple[Part, ...] = ()  # over the network that NCCL uses, and within the nodes
    parts_not_measured: str = ""
    ports_not_measured: str = ""  # why no RDMA port, or not every one, was measured by itself
    ranks: tuple[RankReport, ...] = ()
    left_out: tuple[str, ...] = ()  # sizes that were asked for and need more memory than the ranks have
    not_measured: str = ""  # why `results` is empty, with the node that is to blame
    not_measured_nodes: tuple[str, ...] = ()
    transports: tuple[Transport, ...] = ()
    operations: tuple[str, ...] = ("all_reduce",)  # what was asked for
    scope: str = "all"
    expected_of: dict[str, Expected] = {}  # of each collective by its name, and of the all-reduce held to a ring
    baseline: tuple[Result, ...] = ()  # the results of the earlier run that --baseline names
    devices: tuple[Device, ...] = ()  # beside a slow result the matrices alone, all figures where they were asked for
    devices_not_measured: str = ""  # why there are none at all
    no_devices: tuple[NoDevice, ...] = ()  # of the ranks whose GPU was to be measured by itself, and was not
    node_names: tuple[str, ...] = ()  # the nodes it was started on
    racks: dict[str, str] = {}  # of the nodes, where each rack measured by itself

    def link_bound_operations(self) -> tuple[str, ...]:
        """The collectives that are as fast as the links, so that `expected` speaks of them.

        Gloo's others have a ceiling of their own (its broadcast is a tree whose root sends to several at once), and
        gather and scatter load the links unevenly.
        """
        if self.backend == "nccl":
            return ("all_reduce", "broadcast", "sendrecv", "reduce", "all_gather", "reduce_scatter", "all_to_all")
        return ("all_reduce", "sendrecv", *(("broadcast",) if self.world_size == 2 else ()))

    def of(self, op: str) -> tuple[Result, ...]:
        """The results of a collective, each of another size."""
        found = tuple(result for result in self.results if result.op == op)
        if not found:
            raise NotMeasured(self.not_measured or said("no {op} was run", op))
        return found

    def result(self, op: str) -> Result:
        """The result of a collective at its largest size, of the slowest group, by the algorithm NCCL chose."""
        found = [result for result in self.of(op) if result.group != RING]
        return max(found, key=lambda result: (result.bytes, -result.busbw_gbytes_per_s))

    def by_ring(self) -> Result | None:
        """The all-reduce for which NCCL was held to a ring, None where there is none."""
        return next((result for result in self.results if result.group == RING), None)

    def expected_for(self, result: Result) -> Expected | None:
        """What is expected of a result; None where nothing is known of it."""
        if not self.expected_of:
            return self.expected if result.op in self.link_bound_operations() else None
        return self.expected_of.get(RING if result.group == RING else result.op)
