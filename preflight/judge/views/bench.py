"""What did the benchmark measure, and of which node does each figure speak? The fixture `bench`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.results import RING, Bench, Device, Disputed, Expected, NoDevice, Result, Slow, same_measurement
from preflight.facts.value import Missing
from preflight.judge.blame import liars
from preflight.judge.tables import devices
from preflight.judge.views import topology
from preflight.judge.views.nccl import NcclView
from preflight.said import joined, said
from preflight.said.errors import Blame, BlameMany, BlockedBy, FactMissing, NotApplicable, NotMeasured

IMPORT_SECONDS = 10.0  # below it no rank waits long enough to time out, however the ranks differ
# Below both, what is measured is how an operation starts.
BEYOND_STREAMS = (
    2.0  # times a raw stream: no collective over one connection to a peer gets there, so the stream was held up
)
LOSES = 0.01  # of TCP's segments; what two streams that share a link lose to each other is a tenth of it
PLATEAU_SECONDS = 0.02
PLATEAU_BYTES = 1 << 30


@dataclass(frozen=True)
class BenchView:
    """The benchmark over the nodes of `cluster`."""

    result: Bench
    cluster: Cluster

    def all_reduce(self) -> Result:
        """The all-reduce at its largest size; NotMeasured where there is none, NotApplicable where none was asked."""
        if "all_reduce" not in self.result.operations:
            raise NotApplicable(
                said("no all_reduce was asked for, but {operations}", ", ".join(self.result.operations))
            )
        return self.result.result("all_reduce")

    def others(self) -> tuple[str, ...]:
        """The other collectives that were run; NotApplicable where there are none."""
        found = tuple(name for name in self.result.operations if name != "all_reduce")
        if not found:
            raise NotApplicable("no other collective was asked for (preflight bench --op all)")
        return found

    def needs_correct(self, *operations: str) -> None:
        """Raise a Blame for each size at which one of these collectives gave wrong elements."""
        if self.result.world_size == 1:
            raise NotApplicable("one rank alone sends nothing: --ranks-per-node=2, or more hosts")
        blames = []
        for result in (one for name in operations for one in self.result.of(name)):
            if result.wrong:
                ranks = ", ".join(map(str, result.wrong_ranks)) or "unknown"
                message = said(
                    "{title} of {bytes} bytes: {wrong} wrong elements; wanted 0 (ranks {ranks})",
                    result.title,
                    result.bytes,
                    result.wrong,
                    ranks,
                )
                blames.append(Blame(message, nodes=self.nodes_of(result.wrong_ranks)))
        if blames:
            raise BlameMany(blames)

    def gated(self) -> tuple[Result, ...]:
        """The other collectives whose bandwidth is the links', each at its largest size."""
        gated = self.result.link_bound_operations()
        found = [self.result.result(name) for name in self.others() if name in gated]
        if not found:
            raise NotApplicable(
                said("on {backend} only {gated} are as fast as the links", self.result.backend, ", ".join(gated))
            )
        return tuple(found)

    def below_baseline(self, *, share: float) -> list[str]:
        """The collectives that are slower than `share` of an earlier run's, each at the sizes that both have."""
        if not self.result.baseline:
            raise NotApplicable("no earlier run with a bandwidth was given (--baseline RUN)")
        pairs = same_measurement(self.result.baseline, self.result.results)
        if not pairs:
            raise NotMeasured(self.result.not_measured or "no collective of the earlier run was run at the same size")
        return [
            said(
                "{op} of {bytes} bytes: busbw {busbw_gbytes_per_s:.4g} GB/s, {busbw_gbytes_per_s2:.0%} of "
                "the earlier {busbw_gbytes_per_s3:.4g}",
                now.op,
                now.bytes,
                now.busbw_gbytes_per_s,
                now.busbw_gbytes_per_s / then.busbw_gbytes_per_s,
                then.busbw_gbytes_per_s,
            )
            for then, now in pairs
            if now.busbw_high_gbytes_per_s < share * then.busbw_low_gbytes_per_s
        ]

    def other_topologies(self) -> list[Blame]:
        """A Blame for each node of which NCCL found, or chose, something else than of its equals."""
        return topology.differences(self.result, self.cluster)

    @property
    def nccl(self) -> NcclView:
        """What NCCL's own log proves."""
        return NcclView(self.result, self.cluster)

    def gpus(self) -> tuple[Device, ...]:
        """The GPUs that measured themselves; NotApplicable where none was asked to.

        A node with a GPU that should have and did not cannot be judged, one of which all are too small is left out.
        """
        if self.result.devices_not_measured:
            raise NotMeasured(self.result.devices_not_measured)
        found = tuple(device for device in self.result.devices if device.device != "cpu")
        missing = self.result.no_devices
        for name, why in self._by_node(one for one in missing if not one.is_too_small).items():
            self.cluster.cannot_judge(name, FactMissing("GPU by itself", why))
        too_small = self._by_node(one for one in missing if one.is_too_small)
        if not found:
            asked = "" if self.result.devices else " (preflight bench --burn-in)"
            reasons = f": {'; '.join(too_small.values())}" if too_small else "" if missing else asked
            raise NotApplicable(said("no GPU was measured by itself{reasons}", reasons))
        for name, why in too_small.items():
            if name in {device.node for device in found}:
                self.cluster.untold.append(said("{why} ({name})", why, name))
            else:
                self.cluster.does_not_apply(name, why)
        return found

    def _by_node(self, missing: Iterable[NoDevice]) -> dict[str, str]:
        """The nodes of GPUs without a figure, in HOSTS order, each with what is said of the first, and of how many."""
        of_node: dict[str, list[str]] = {}
        for one in missing:
            of_node.setdefault(one.node, []).append(one.why)
        listed = {
            name: whys[0] + (said(", and {whys} more", len(whys) - 1) if len(whys) > 1 else "")
            for name, whys in of_node.items()
        }
        return {name: listed[name] for name in self.names if name in listed}

    def needs_equal_gpus(self, *, share: float) -> None:
        """Leave the check as blocked where a GPU computes more slowly than its equals: then no link is to blame."""
        cause = [name for blame in devices.outliers(self.result.devices, share=share) for name in blame.nodes]
        if cause:
            raise BlockedBy("bench.no_gpu_is_slower_than_its_equals", nodes=self.ordered(cause))

    def slow_imports(self, *, limit_seconds: float, ratio: float) -> list[Blame]:
        """A Blame for the nodes whose ranks needed longer than that to import torch, or that much longer than most."""
        if not self.result.ranks:
            raise NotMeasured(self.result.not_measured or "no rank reported")
        middle = devices.middle_of((report.node, report.import_seconds) for report in self.result.ranks)
        limit = min(limit_seconds, max(ratio * middle, IMPORT_SECONDS))
        slow = {report.node: report.import_seconds for report in self.result.ranks if report.import_seconds > limit}
        message = joined([said("{seconds:.3g} s on {name}", seconds, name) for name, seconds in slow.items()], ", ")
        words = said("`import torch` takes {message}; the median of all ranks is {middle:.3g} s", message, middle)
        return [Blame(words, nodes=self.ordered(slow))] if slow else []

    def slow_groups(self, *, share: float) -> list[Blame]:
        """A Blame for each group of ranks whose collective is slower than `share` of the median of the groups."""
        groups = {result.group for result in self.result.results} - {RING}
        if len(groups) < 2:
            raise NotApplicable("all ranks are one group: --scope intra, rails and racks compare several")
        if self.result.scope == "intra" and self.result.backend != "nccl":
            raise NotApplicable("within a node Gloo measures the memory, which all ranks of the node share")
        blames = []
        for op in self.result.operations:
            of_groups = [result for result in self.result.of(op) if result.group != RING]
            largest = max(result.bytes for result in of_groups)
            equals = [result for result in of_groups if result.bytes == largest]
            usual = median(result.busbw_gbytes_per_s for result in equals)
            for one in equals:
                if one.busbw_high_gbytes_per_s < share * usual:
                    message = said("{title} busbw {busbw_gbytes_per_s:.4g} GB/s", one.title, one.busbw_gbytes_per_s)
                    message += said("; the median of {equals} is {usual:.4g}", len(equals), usual)
                    blames.append(Blame(message, nodes=self.nodes_in(one)))
        return blames

    def nodes_in(self, result: Result) -> tuple[str, ...]:
        """The nodes whose ranks ran a collective."""
        in_rack = [name for name, rack in self.result.racks.items() if rack == result.group]
        return self.ordered([result.group, *in_rack]) or self.names

    def nodes_of(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The nodes these ranks ran on, in HOSTS order; all of them where the ranks are not known."""
        wanted = set(ranks)
        names = {report.node for report in self.result.ranks if report.rank in wanted}
        found = tuple(node.name for node in self.cluster if node.name in names)
        return found or self.names

    @property
    def names(self) -> tuple[str, ...]:
        """Every node that took part."""
        return tuple(node.name for node in self.cluster)

    def same_nccl(self) -> None:
        """Every rank loaded the same NCCL; otherwise the nodes of the minority are blamed, all of them on a tie."""
        loaded = [report for report in self.result.ranks if report.nccl]
        if not loaded:
            raise NotApplicable(said("no rank loaded NCCL (backend {backend})", self.result.backend))
        groups: dict[str, tuple[str, ...]] = {}
        for report in loaded:
            groups[report.nccl] = tuple(dict.fromkeys((*groups.get(report.nccl, ()), report.node)))
        blames = self.cluster.differing(groups, "NCCL that the ranks loaded")
        if blames:
            raise BlameMany(blames)

    def slow_blames(self) -> list[Blame]:
        """A Blame for each slow place; NotApplicable on one node, or where a good all-reduce left nothing to search.

        Raises NotMeasured when no stream ran although there was something to look for. Who contradicts its peers cannot
        be judged.
        """
        self._needs_a_search()
        disputed = self.result.disputed
        for nodes in liars(disputed, self.names):
            for name in nodes:
                words = "its figures and its peers' contradict each other (bench.both_ends_of_a_stream_agree)"
                self.cluster.cannot_judge(name, FactMissing("streams", words))
        return [Blame(slow_text(place, self.cluster), nodes=self.ordered(place.nodes)) for place in self.result.slow]

    def contradictions(self) -> list[Blame]:
        """A Blame for each node, or pair of nodes, that explains why the two ends of streams contradict each other."""
        self._needs_a_search()
        disputed = self.result.disputed
        blames = []
        for nodes in liars(disputed, self.names):
            theirs = [one for one in disputed if one.source in nodes or one.target in nodes]
            worst = min(theirs, key=_agreement)
            ends = " to ".join(dict.fromkeys((worst.source, worst.target)))
            what = f"{worst.part}, {ends}" if worst.part else ends
            more = said(", and {theirs} more like it", len(theirs) - 1) if len(theirs) > 1 else ""
            unsure = said(": one of {nodes} reports a wrong figure", " and ".join(nodes)) if len(nodes) > 1 else ""
            most, least = worst.most_gbytes_per_s, worst.least_gbytes_per_s
            words = said(
                "{what}: one end says {most:.4g} GB/s, the other {least:.4g}{more}{unsure}",
                what,
                most,
                least,
                more,
                unsure,
            )
            if worst.failure:
                words = said("{what}: the stream gave no figure twice: {failure}{more}", what, worst.failure, more)
            blames.append(Blame(words, nodes=self.ordered(nodes)))
        return blames

    def _needs_a_search(self) -> None:
        """Leave the check where nothing was searched: nothing had to be, or there was no figure."""
        if not self.result.parts:
            self._needs_links()
        searched = self.result.streams or self.result.parts or self.result.disputed
        if self.result.parts_not_measured and not self.result.slow:
            raise NotMeasured(
                said("the search for what is slow gave no figure: {parts_not_measured}", self.result.parts_not_measured)
            )
        if self.result.scope == "intra" and not searched:
            raise NotApplicable("--scope intra: no link between nodes was measured (--localize)")
        if not searched and self.result.results and self.result.expected is not None:
            raise NotApplicable("the all-reduce is as fast as the links, so no slow node was searched for (--localize)")
        if not searched and not self.result.slow:
            raise NotMeasured(self.result.not_measured or "no stream was measured between the nodes")

    def by_ring(self) -> Result:
        """The all-reduce for which NCCL was held to a ring, else the all-reduce itself."""
        return self.result.by_ring() or self.all_reduce()

    def expected(self, measured: Result) -> Expected:
        """What is expected of a result; NotApplicable on one node, NotMeasured where nothing is known of the links."""
        found = self.result.expected_for(measured)
        if found is not None:
            return found
        if self.result.scope != "intra":
            self._needs_links()
        elif not self.result.not_measured:
            raise NotApplicable("--scope intra: nothing says what joins the GPUs of a node")
        raise NotMeasured(self.result.not_measured or "neither a link rate nor a raw stream is known")

    def is_by_streams(self, measured: Result) -> bool:
        """Whether what is expected is only what raw streams reached in this run."""
        expected = self.expected(measured)
        older = expected.bound_gbytes_per_s is None and not self.result.expected_of  # a run of an earlier version
        return expected.is_by_streams or older

    def needs_rate(self, measured: Result) -> None:
        """Leave the check as not applicable where no link reports its rate: the nodes are compared with each other."""
        if self.is_by_streams(measured):
            raise NotApplicable("no link reports its rate: the nodes are compared with each other")

    def needs_a_sure_figure(self, measured: Result) -> None:
        """Leave the check as not applicable where only a floor is known: healthy nodes of the kind differ."""
        if self.expected(measured).is_floor:
            raise NotApplicable("healthy nodes of this kind differ: only a floor is known for them")

    def shortfall(self, measured: Result, *, share: float, impossible_above: float, needs_certainty: bool) -> str:
        """What there is to say when the busbw of a collective stays below `share` of the expected; "" when it does not.

        The 95 % interval of the median is judged: wholly below the gate is a shortfall; one that straddles it is
        NotMeasured where certainty is needed, else NotApplicable with a median below it. A figure above what the links
        can carry, or far above the streams, is NotMeasured too.
        """
        expected = self.expected(measured)
        if measured.seconds_median < PLATEAU_SECONDS and measured.bytes < PLATEAU_BYTES:
            took = said(
                "{title} of {bytes} bytes took {seconds_median:.3g} ms",
                measured.title,
                measured.bytes,
                measured.seconds_median * 1000.0,
            )
            raise NotApplicable(
                said(
                    "{took}: too short to measure a bandwidth; wanted {PLATEAU_SECONDS:.0f} ms",
                    took,
                    PLATEAU_SECONDS * 1000.0,
                )
            )
        if self.result.slow:
            cause = self.ordered(name for place in self.result.slow for name in place.nodes)
            raise BlockedBy("bench.no_node_is_slower_than_its_peers", nodes=cause)
        if measured.wrong:
            check = "all_reduce_is_correct" if measured.op == "all_reduce" else "other_collectives_are_correct"
            raise BlockedBy(f"bench.{check}", nodes=self.nodes_of(measured.wrong_ranks))
        low, high = measured.busbw_low_gbytes_per_s, measured.busbw_high_gbytes_per_s
        message = said(
            "{title} busbw {busbw_gbytes_per_s:.4g} GB/s (95 % interval {low:.4g}-{high:.4g}) at {bytes} "
            "bytes over {ranks} ranks",
            measured.title,
            measured.busbw_gbytes_per_s,
            low,
            high,
            measured.bytes,
            measured.ranks or self.result.world_size,
        )
        bound = expected.bound_gbytes_per_s
        if bound is not None and low > impossible_above * bound:
            raise NotMeasured(
                said(
                    "{message}: more than the links can carry ({bound:.4g} GB/s), a fact or a figure is wrong",
                    message,
                    bound,
                )
            )
        if self.is_by_streams(measured) and low > BEYOND_STREAMS * expected.busbw_gbytes_per_s:
            beyond = low / expected.busbw_gbytes_per_s
            words = said(
                "{message}: {beyond:.2g} times what raw streams reached ({busbw_gbytes_per_s:.4g} GB/s)",
                message,
                beyond,
                expected.busbw_gbytes_per_s,
            )
            if self.result.backend == "nccl":
                raise NotApplicable(said("{words}, for NCCL opens several connections to a peer", words))
            raise NotMeasured(said("{words}, so the streams were held up; run it again when the nodes are idle", words))
        gate = share * expected.busbw_gbytes_per_s
        if low < gate <= high and (needs_certainty or measured.busbw_gbytes_per_s < gate):
            unsure = NotMeasured if needs_certainty else NotApplicable
            raise unsure(
                said("{message}: straddles the gate of {gate:.4g} GB/s; run it again, or longer", message, gate)
            )
        derivation = joined(expected.derivation)
        what = f"{expected.busbw_gbytes_per_s:.4g}"
        if expected.is_floor:
            what = said("the floor of {busbw_gbytes_per_s:.4g}", expected.busbw_gbytes_per_s)
        wanted = said(
            "wanted at least {gate:.4g} GB/s, {share:.0%} of {what} ({derivation})", gate, share, what, derivation
        )
        return f"{message}; {wanted}" if high < gate else ""

    def _needs_links(self) -> None:
        if not self.cluster.has_peers:
            raise NotApplicable("one node: no link measured")

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names in HOSTS order."""
        wanted = set(names)
        return tuple(name for name in self.names if name in wanted)


def _agreement(one: Disputed) -> float:
    """The lower word of both ends over the higher; what failed agrees least."""
    return one.least_gbytes_per_s / one.most_gbytes_per_s if one.most_gbytes_per_s and not one.failure else 0.0


def slow_text(place: Slow, cluster: Cluster) -> str:
    """A slow place as a message says it, its rails with their adapters."""
    names = " and ".join(place.nodes)
    if place.part:
        names = said("{with_adapters} of {names}", _with_adapters(place.part, cluster[place.nodes[0]]), names)
    what = {
        "egress": said("{names} sends", names),
        "ingress": said("{names} receives", names),
        "both": said("{names} sends and receives", names),
        "path": said("the path between {names} carries", names)
        if not place.part
        else said("the path on {names} carries", names),
    }[place.direction]
    rate = said(
        "{what} {gbytes_per_s:.4g} GB/s where its peers reach {peers_gbytes_per_s:.4g} GB/s",
        what,
        place.gbytes_per_s,
        place.peers_gbytes_per_s,
    )
    lost = said("{sent_again:.0%} of its segments were lost on the way and sent again", place.sent_again)
    return f"{rate}; {lost}" if place.sent_again >= LOSES else rate


def _with_adapters(parts: str, node: NodeFacts) -> str:
    """Each rail with the adapter nearest to the GPU of its number: "rail 3 (mlx5_3)"."""
    try:
        topology = node.gpu.topology
    except FactMissing:
        return parts
    near = {} if isinstance(topology, Missing) else topology.nearest_adapters()
    listed = []
    for part in parts.split(", "):
        adapters = near.get(f"GPU{part.removeprefix('rail ')}", ())
        listed.append(f"{part} ({', '.join(adapters)})" if part.startswith("rail ") and adapters else part)
    return ", ".join(listed)
