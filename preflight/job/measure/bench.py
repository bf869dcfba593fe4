"""How is the bandwidth measured: raw streams where no rate is known, collectives over all ranks, a search if slow?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from preflight.facts.cluster import Cluster
from preflight.facts.results import RING, Bench, Disputed, Expected, RankReport, Result, Slow, Stream, Transport
from preflight.job.measure import devices, rails
from preflight.job.measure.expectations import expectations, is_over_tcp, uplinks_of
from preflight.job.measure.nccl_log import parse_nccl_log, took_a_ring
from preflight.job.measure.rdma import writes
from preflight.job.measure.scope import Rounds, as_settings
from preflight.job.measure.streams import search as search_streams
from preflight.job.options.sweep import Sweep
from preflight.job.start.contradiction import contradiction, unheard
from preflight.job.start.outcome import Outcome
from preflight.job.start.patience import WAIT_SECONDS
from preflight.job.start.run import run_job
from preflight.judge.blame import agreed, disputes
from preflight.judge.settings import Settings
from preflight.launch.job import Job
from preflight.reach.session.connection import Session
from preflight.said import joined, said
from preflight.said.errors import BadReply, HostError

JOIN_SECONDS = 30
TARGET_SECONDS = 0.3
CAP_SECONDS = 6.0
ONE_NODE_CAP_SECONDS = 1.0  # nothing is gated on one node: memory traffic never settles


# Streams on which both ends agree, disputed streams, slow places, and why nothing was measured.
Streams = tuple[tuple[Stream, ...], tuple[Disputed, ...], tuple[Slow, ...], str]
NO_STREAMS: Streams = (), (), (), ""
START_SECONDS = 30.0  # for the ranks to start, before they measure
SECONDS_A_CELL = 8.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the user asked for."""

    is_localizing: bool
    is_full_mesh: bool
    is_burning_in: bool
    thresholds: Settings
    baseline: tuple[Result, ...] = ()
    say: Callable[[str], None] = lambda _text: None
    scope: str = "all"


def seconds_of(sweep: Sweep, rounds: int = 1) -> float:
    """How long the ranks may take, at most."""
    return 2 * START_SECONDS + (rounds * sweep.cells + max(1, len(sweep.sizes))) * SECONDS_A_CELL


def sizes_again(earlier: Iterable[Result], sweep: Sweep) -> dict[str, tuple[int, ...]]:
    """Collective -> the sizes in bytes that an earlier run measured it at; nothing where the sweep asks for sizes.

    A size found by probing differs from run to run, and only equal sizes can be compared.
    """
    found: dict[str, set[int]] = {}
    for result in earlier if not sweep.sizes else ():
        if result.op in sweep.operations and (result.dtype, result.mode) == (sweep.dtype, sweep.mode):
            found.setdefault(result.op, set()).add(result.bytes)
    return {name: tuple(sorted(sizes)) for name, sizes in found.items()}


def settings(
    backend: str, nodes: int, sweep: Sweep, *, groups: Rounds, seconds: float, earlier: Iterable[Result] = ()
) -> dict[str, Any]:
    """The settings of the workload; what it measures fits into `seconds`. `earlier` is what it is compared with."""
    again = sizes_again(earlier, sweep)
    cap = CAP_SECONDS if nodes > 1 and sweep.scope != "intra" else ONE_NODE_CAP_SECONDS
    holds_to_ring = backend == "nccl" and nodes > 1 and sweep.scope == "all" and "all_reduce" in sweep.operations
    sizes = [again.get(name, sweep.sizes) for name in sweep.operations]
    cells = sum(max(1, len(held)) for held in sizes) * max(1, len(groups)) + holds_to_ring * max(1, *map(len, sizes))
    exactly = {"min_iterations": sweep.iterations, "max_iterations": sweep.iterations, "ci": 0.0}
    return {
        "backend": backend,
        "operations": list(sweep.operations),
        "sizes": list(sweep.sizes),
        "sizes_by_operation": {name: list(held) for name, held in again.items()},
        "dtype": sweep.dtype,
        "mode": sweep.mode,
        "warmup": sweep.warmup,
        "target_seconds": TARGET_SECONDS if nodes > 1 else 0.05,
        "cap_seconds": max(0.2, min(cap, (seconds - START_SECONDS) / cells / 1.5)),
        "join_seconds": JOIN_SECONDS,
        "wait_seconds": WAIT_SECONDS,
        "rounds": as_settings(groups),
        "holds_to_ring": holds_to_ring,
        "device_seconds": devices.SECONDS_IN_BENCH if backend == "nccl" else 0.0,
        **(exactly if sweep.iterations else {}),
    }


async def run(sessions: dict[str, Session], cluster: Cluster, job: Job, plan: Plan) -> tuple[Bench, dict[str, Outcome]]:
    """The bench's section of the report, and the end of each job that was run, by name."""
    addresses = {node.name: node.address_for_peers() for node in cluster}
    backend = str(job.settings["backend"])
    has_links = len(addresses) > 1 and (plan.scope != "intra" or plan.is_localizing or plan.is_full_mesh)
    uplinks = uplinks_of(cluster, backend=backend)
    outcomes: dict[str, Outcome] = {}
    alone = devices.DeviceResults()
    if plan.is_burning_in:
        plan.say("measuring each device by itself")
        alone, outcomes["devices"] = await devices.run(sessions, job)
    expect = partial(expectations, cluster, job, scope=plan.scope)
    is_rate_known = all(uplink.nics for uplink in uplinks.values())
    streams, disputed, slow, without_streams = NO_STREAMS
    is_asked = plan.is_localizing or plan.is_full_mesh
    if has_links and is_over_tcp(uplinks) and (is_asked or not is_rate_known):
        streams, disputed, slow, without_streams = await _streams(sessions, addresses, plan)
    outcome = outcomes["bench"] = await _ended(sessions, job, plan)
    results, unheld = _held(outcome)
    node_of = _nodes_by_rank(job)
    transports = tuple(_transport(record, node_of) for record in outcome.records("nccl_log"))
    is_tcp = is_over_tcp(uplinks_of(cluster, backend=backend, transports=transports))
    if not is_tcp:  # contrary to the nodes' facts: the streams went over a network that the job does not use
        streams, disputed, slow, without_streams = NO_STREAMS
    expected_of = expect(streams=streams, transports=transports, results=results)
    disappoints = bool(has_links or expected_of) and _disappoints(results, expected_of, plan.thresholds)
    if has_links and disappoints and not (streams or disputed) and is_tcp:
        streams, disputed, slow, without_streams = await _streams(sessions, addresses, plan)
        # On fast Ethernet the processor may be the limit, not the link.
        expected_of = expect(streams=streams, transports=transports, results=results)
    parts = ports = rails.Found()
    if backend == "nccl" and not outcome.failure and (disappoints or is_asked):
        if not is_tcp or not has_links:
            named = {one.rank: one.named for one in _ranks(outcome, _nodes_by_rank(job))}
            parts, ended = await _slow_rails(sessions, job, named, plan)
            outcomes |= {"rails": ended} if ended is not None else {}
        if not is_tcp and has_links:
            ports = await _slow_ports(sessions, cluster, job, plan)
    bench = _as_reported(job, outcome, nodes=len(addresses), results=results, transports=transports, unheld=unheld)
    first = str(job.settings["operations"][0])
    found: dict[str, Any] = {
        "expected": expected_of.get("all_reduce", expected_of.get(first)),
        "expected_of": expected_of,
        "slow": slow + parts.slow + ports.slow,
        "streams": streams,
        "disputed": disputed + parts.disputed,
        "parts": parts.parts + ports.parts,
        "parts_not_measured": parts.not_measured or without_streams,
        "ports_not_measured": ports.not_measured,
        "scope": plan.scope,
        "baseline": plan.baseline,
    }
    if "devices" in outcomes:
        found |= _of_devices(alone)
    return msgspec.structs.replace(bench, **found), outcomes


async def _streams(sessions: dict[str, Session], addresses: dict[str, str], plan: Plan) -> Streams:
    """The raw streams, the slow places, and why there are none: the ranks' own results count without them.

    Raises BadReply where a node reports an impossible figure.
    """
    try:
        streams, slow = await search_streams(sessions, addresses, **_how(plan))
    except BadReply:
        raise
    except HostError as error:
        return (), (), (), str(error)
    return agreed(streams), disputes(streams), slow, ""


async def _slow_rails(
    sessions: dict[str, Session], job: Job, named: Mapping[int, str], plan: Plan
) -> tuple[rails.Found, Outcome | None]:
    """What is slow rail by rail and GPU by GPU, and the end of the job that looked for it."""
    plan.say("looking for what is slow, rail by rail and GPU by GPU")
    return await rails.search(sessions, job, named=named, **_how(plan))


async def _slow_ports(sessions: dict[str, Session], cluster: Cluster, job: Job, plan: Plan) -> rails.Found:
    """The RDMA ports that ib_write_bw finds slow."""
    plan.say("looking for a slow RDMA port")
    return await writes.search(sessions, cluster, job, **_how(plan))


def _how(plan: Plan) -> dict[str, Any]:
    """The arguments of each search for what is slow."""
    return {"threshold": plan.thresholds.bench.slow_below, "is_full": plan.is_full_mesh, "say": plan.say}


async def _ended(sessions: dict[str, Session], job: Job, plan: Plan) -> Outcome:
    """How the ranks ended; a rank that contradicts the others, or does not say what it ran with, is a failure too."""
    plan.say("starting the ranks of the benchmark")
    outcome = await run_job(sessions, job, launcher="direct", hear=lambda record: plan.say(_progress(record)))
    untrue = [(why, nodes) for why, nodes in (contradiction(outcome.stories), unheard(outcome.stories)) if why]
    if untrue and not outcome.failure:
        why, nodes = untrue[0]
        return dataclasses.replace(outcome, failure=why, guilty=nodes)
    before = {} if untrue else {record["op"]: record for record in outcome.records("result")}
    if outcome.failure and before:  # the results do not count, but they show how far the ranks came
        measured = joined([said("{op} of {one} bytes", op, one["bytes"]) for op, one in before.items()], ", ")
        return dataclasses.replace(
            outcome,
            failure=said("{failure}; measured before it failed, at last: {measured}", outcome.failure, measured),
        )
    return outcome


def _as_reported(
    job: Job,
    outcome: Outcome,
    *,
    nodes: int,
    results: tuple[Result, ...],
    transports: tuple[Transport, ...],
    unheld: tuple[str, ...],
) -> Bench:
    """What the ranks reported, before anybody knows what to expect of it, or who is slow."""
    node_of = _nodes_by_rank(job)
    return Bench(
        backend=str(job.settings["backend"]),
        world_size=job.world_size,
        nodes=nodes,
        results=results if not outcome.failure else (),
        expected=None,
        slow=(),
        ranks=_ranks(outcome, node_of),
        left_out=unheld
        + tuple(
            said(
                "{one} of up to {one2} bytes: the ranks have room for {one3}",
                one["op"],
                one["bytes"],
                one["room_bytes"],
            )
            for one in outcome.records("left_out")
        ),
        not_measured=outcome.failure,
        not_measured_nodes=outcome.guilty,
        operations=tuple(job.settings["operations"]),
        transports=transports,
        **_of_devices(devices.results_of(job, outcome)),
    )


def _of_devices(found: devices.DeviceResults) -> dict[str, Any]:
    """What the devices are by themselves, as the section of the report has it."""
    return {"devices": found.devices, "no_devices": found.missing, "devices_not_measured": found.not_measured}


def _progress(record: dict[str, Any]) -> str:
    """A record of progress, in words for the person who waits."""
    what = said(
        "{record} of {record2} bytes, {record3} iterations", record["op"], record["bytes"], record["iterations"]
    )
    return said("{what}, at most {record:.0f} s left", what, record["seconds_left"])


def _transport(record: dict[str, Any], node_of: dict[int, str]) -> Transport:
    use = parse_nccl_log(str(line) for line in record["lines"])
    found, chosen = tuple(record.get("topo", ())), tuple(record.get("graph", ()))
    reported = {**dataclasses.asdict(use), "topology": found, "graphs": chosen}
    return Transport(rank=record["rank"], node=node_of[record["rank"]], **reported)


def _disappoints(results: tuple[Result, ...], expected: Mapping[str, Expected], thresholds: Settings) -> bool:
    """Whether a collective limited by the links stays below what they should give, or its expectation is unknown."""
    if not expected:
        return True
    largest = {result.title: result for result in sorted(results, key=lambda result: result.bytes)}
    for result in largest.values():
        of_it = expected.get(RING if result.group == RING else result.op)
        if of_it is not None and result.op in ("all_reduce", "sendrecv"):
            share = thresholds.bench.fail_below if of_it.is_floor else thresholds.bench.warn_below
            if result.busbw_gbytes_per_s < share * of_it.busbw_gbytes_per_s:
                return True
    return False


def _held(outcome: Outcome) -> tuple[tuple[Result, ...], tuple[str, ...]]:
    """The results, and why those over a ring are not among them where NCCL's own log does not show that it took one."""
    results = tuple(_result(record) for record in outcome.records("result"))
    of_all = tuple(result for result in results if result.group != RING)
    lines = [str(line) for record in outcome.records("ring_log") for line in record["lines"]]
    why = took_a_ring(lines) if len(of_all) < len(results) else ""
    return (of_all, (said("all_reduce with {RING}: {why}", RING, why),)) if why else (results, ())


def _result(record: dict[str, Any]) -> Result:
    known = {name: record[name] for name in Result.__struct_fields__ if name in record}
    return Result(**{**known, "wrong_ranks": tuple(known.get("wrong_ranks", ()))})


def _nodes_by_rank(job: Job) -> dict[int, str]:
    return {placement.rank: placement.node for placement in job.placements}


def _ranks(outcome: Outcome, node_of: Mapping[int, str]) -> tuple[RankReport, ...]:
    return tuple(RankReport.told(record, node=node_of[record["rank"]]) for record in outcome.records("joined"))
