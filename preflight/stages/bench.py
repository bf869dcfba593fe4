"""How is the bandwidth measured: raw streams where no rate is known, an all-reduce over all ranks, a search if slow?"""

from __future__ import annotations

from typing import Any

from preflight import bandwidth
from preflight.facts.cluster import Cluster
from preflight.facts.measured import Bench, Expected, RankReport, Result, Slow, Stream
from preflight.jobs import run_job
from preflight.launchers import Job
from preflight.outcome import Outcome
from preflight.session import Session
from preflight.settings import Settings
from preflight.stages import links
from preflight.stages.facts import training_address

JOIN_SECONDS = 30
TARGET_SECONDS = 0.3
CAP_SECONDS = 6.0
ONE_NODE_CAP_SECONDS = 1.0  # nothing is gated on one node: memory traffic never settles


def settings(backend: str, nodes: int) -> dict[str, Any]:
    """What the workload is told."""
    return {
        "backend": backend,
        "operations": ["all_reduce"],
        "sizes": [],
        "target_seconds": TARGET_SECONDS if nodes > 1 else 0.05,
        "cap_seconds": CAP_SECONDS if nodes > 1 else ONE_NODE_CAP_SECONDS,
        "join_seconds": JOIN_SECONDS,
    }


async def run(
    sessions: dict[str, Session], cluster: Cluster, job: Job, *, launcher: str, localize: bool, thresholds: Settings
) -> tuple[Bench, Outcome]:
    """The bench's section of the report; `not_measured` names who failed where the all-reduce did not end."""
    addresses = {node.name: training_address(node) for node in cluster}
    backend = str(job.settings["backend"])
    has_links = len(addresses) > 1
    nics = {node.name: bandwidth.nics_of(node, backend="nccl" if backend == "nccl" else "gloo") for node in cluster}
    most_ranks = max(placement.local_world_size for placement in job.placements)

    def expect(measured: tuple[Stream, ...]) -> Expected | None:
        return bandwidth.expected(nics, measured, world_size=job.world_size, ranks_per_node=most_ranks)

    is_rate_known = all(nics.values())
    expected = expect(()) if is_rate_known else None
    streams: tuple[Stream, ...] = ()
    slow: tuple[Slow, ...] = ()
    if has_links and (localize or not is_rate_known):
        streams, slow = await _search(sessions, addresses, thresholds)
        expected = expect(streams)
    outcome = await run_job(sessions, job, launcher=launcher)
    results = tuple(_result(record) for record in outcome.records("result"))
    if has_links and not streams and _disappoints(results, expected, thresholds):
        streams, slow = await _search(sessions, addresses, thresholds)
    node_of = {placement.rank: placement.node for placement in job.placements}
    bench = Bench(
        backend=backend,
        world_size=job.world_size,
        nodes=len(addresses),
        results=results if not outcome.failure else (),
        expected=expected,
        slow=slow,
        streams=streams,
        ranks=tuple(_rank(record, node_of) for record in outcome.records("joined")),
        not_measured=outcome.failure,
        not_measured_nodes=outcome.guilty,
    )
    return bench, outcome


async def _search(
    sessions: dict[str, Session], addresses: dict[str, str], thresholds: Settings
) -> tuple[tuple[Stream, ...], tuple[Slow, ...]]:
    """The shift rounds; whatever looks slow is measured once more before anybody is named."""
    names = tuple(addresses)
    share = thresholds.bench.slow_below
    streams = await links.run(sessions, addresses)
    slow = bandwidth.locate(streams, names, threshold=share)
    if slow:
        again = await links.run(sessions, addresses)
        streams = tuple(max(pair, key=lambda stream: stream.gbytes_per_s) for pair in zip(streams, again, strict=True))
        slow = bandwidth.locate(streams, names, threshold=share)
    return streams, slow


def _disappoints(results: tuple[Result, ...], expected: Expected | None, thresholds: Settings) -> bool:
    if expected is None:
        return True
    gate = thresholds.bench.warn_below * expected.busbw_gbytes_per_s
    return any(result.busbw_gbytes_per_s < gate for result in results)


def _result(record: dict[str, Any]) -> Result:
    known = {name: record[name] for name in Result.__struct_fields__ if name in record}
    return Result(**{**known, "wrong_ranks": tuple(known.get("wrong_ranks", ()))})


def _rank(record: dict[str, Any], node_of: dict[int, str]) -> RankReport:
    return RankReport(
        rank=record["rank"],
        node=node_of[record["rank"]],
        device=record["device"],
        import_seconds=record["import_seconds"],
        init_seconds=record["init_seconds"],
        nccl=record["nccl"],
    )
