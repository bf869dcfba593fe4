"""What do tests/data/said/measured.txt list of benchmarks, trainings and drills over nodes that are played?"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import msgspec

from preflight.job.measure import bench, drill, scope, training
from preflight.job.options.options import Options
from preflight.job.options.sweep import Sweep
from preflight.launch.job import Placement
from preflight.testing import roce
from tests import found
from tests.checks.samples import with_netdevs
from tests.instead import instead
from tests.job.figures import figures
from tests.job.measure import test_bench, test_training


def of_benches() -> Iterator[str]:
    """Benchmarks over nodes that are played: what is asked of the ranks, and the section of the report."""
    log = {"record": "nccl_log", "lines": [test_bench.USING, test_bench.NVLS_TREE]}
    left_out = {"record": "left_out", "op": "all_reduce", "bytes": 9, "room_bytes": 8}
    gpus, rate, joined = with_netdevs(roce(3)), test_bench.LINE_RATE, test_bench.joined
    failed = {"record": "failed", "error": "RuntimeError: CUDA error: unspecified launch failure"}
    progress = {"record": "progress", "op": "all_reduce", "bytes": 8, "iterations": 2, "seconds_left": 3.4}
    runs: dict[str, dict[str, Any]] = {
        "as fast as the links": {"collectives": test_bench.said(rate, left_out)},
        "slow": {"collectives": test_bench.said(0.5), "rate": lambda source: 0.4 if source == "node3" else rate},
        "asked for": {"collectives": test_bench.said(rate), "is_localizing": True},
        "asked for, and slow": {
            "collectives": test_bench.said(0.5),
            "rate": lambda source: 0.4 if source == "node3" else rate,
            "is_localizing": True,
        },
        "full mesh": {"collectives": test_bench.said(rate), "is_full_mesh": True},
        "a rank is silent": {"collectives": lambda rank: [] if rank == 2 else test_bench.said(rate)(rank)},
        "a rank fails": {"collectives": lambda rank: [*test_bench.said(rate)(rank), *([failed] if rank == 1 else [])]},
        "each says another rate": {"collectives": lambda rank: [joined(rank), test_bench.result(rate * (1 + rank))]},
        "progress": {"collectives": test_bench.said(rate, progress, {**progress, "iterations": 9})},
        "within nodes": {"collectives": test_bench.said(0.5), "scope": "intra"},
        "NCCL": {"collectives": test_bench.said(370.0, log), "given": gpus, "backend": "nccl", "ranks_per_node": 8},
        "a slow rail": {
            "collectives": test_bench.said(100.0, log),
            "given": gpus,
            "backend": "nccl",
            "ranks_per_node": 2,
            "pair": lambda source, _target: 11.0 if source == 3 else 48.0,
            "is_burning_in": True,
        },
    }
    for name, words in runs.items():
        heard: list[str] = []
        section, ends, started = test_bench.run(**words, say=heard.append)
        yield f"=== {name}"
        for field in section.__struct_fields__:
            if held := getattr(section, field):
                yield f"{field}: {figures(held)[:1500]}"
        quickly = [name for name, end in ends.items() if 0 <= end.seconds < 60]
        yield f"ended {' '.join(quickly)}; asked {figures(started)[:1500]}"
        yield f"said {' / '.join(' '.join(found.values(line)) for line in heard)[:400]}"
    for backend, nodes, kind, seconds in itertools.product(
        ("gloo", "nccl"), (1, 2), ("all", "intra", "rails"), (20, 60, 600)
    ):
        sweep = Sweep(operations=("all_reduce", "reduce"), sizes=(8, 16) if seconds > 20 else (), scope=kind)
        groups = scope.rounds(kind, [Placement(rank, f"n{rank // 2}", rank % 2, 2) for rank in range(4)])
        asked = bench.settings(backend, nodes, sweep, groups=groups, seconds=seconds)
        yield f"{backend} {nodes} {kind} {seconds}: {figures(asked)} in {figures(bench.seconds_of(sweep, nodes))}"


def of_trainings() -> Iterator[str]:
    """The section of a training that ended well, of one that failed, and of ranks alone; and what ranks are asked."""
    for backend, options in itertools.product(
        ("gloo", "nccl"),
        (Options(run_id="x"), Options(run_id="x", launcher="deepspeed", accumulate="2", precision="bf16")),
    ):
        yield f"{backend} {options.launcher}: {figures(training.settings(backend, options))}"
    for failure, rate in itertools.product(("", "rank 1 on node2 stopped"), (None, 2.0)):
        end = test_training.outcome(failure, ("node2",) if failure else ())
        end.stories[0].records[-1] |= {"gradient_bytes": 4 << 20, **({"samples_missing": 3} if failure else {})}
        told = training.summarise(test_training.JOB, end, launcher="torchrun", algbw_gbytes_per_s=rate)
        yield f"{failure} {rate}: {figures(told)}"
    for alone in ((0.1, 0.2), (0.4, 0.4), (None, 0.1)):
        ranks = tuple(
            msgspec.structs.replace(test_training.RANK, rank=rank, node=f"n{rank}", alone_step_seconds_median=seconds)
            for rank, seconds in enumerate(alone)
        )
        yield f"alone {alone}: {figures(training.scaling_efficiency(ranks))}"
    yield f"drill {drill.LATE_SECONDS}"
    yield f"none: {drilled('', 8, drills=False)}"
    for failure, losses in itertools.product(("", "rank 1 stopped"), (None, 0, 1, 2)):
        yield f"{failure} {losses}: {drilled(failure, losses)}"


def drilled(failure: str, begin: int | None, *, drills: bool = True) -> str:
    """A training, and what is asked of the ranks that are to come back."""
    again = test_training.outcome(failure)
    again.stories[0].records.pop()
    if begin is not None:
        again.stories[0].records.append({"record": "losses", "losses": [4.0, 3], "tokens_per_s": 1.0, "begin": begin})
    died = test_training.outcome("rank 1 died", ("node2",))
    asked: list[str] = []

    async def ran(_sessions: Any, job: Any, **words: Any) -> Any:
        asked.append(f"{figures({**job.settings, 'checkpoint_name': '*'})} {job.restarts} {words}")
        return (test_training.outcome(), died, again)[len(asked) - 1]

    options = Options(run_id="x", drill=drills, launcher="torchrun")
    with instead(training, "run_job", ran), instead(drill, "run_job", ran):
        told, ends = asyncio.run(training.run({}, test_training.JOB, options, algbw_gbytes_per_s=2.0))
    why = len(told.drill.not_restarted.split()) if told.drill else 0
    return f"{list(ends)} {figures(told.drill)} {why} words {told.not_measured} asked {asked}"
