"""What do tests/data/said/started.txt list of whole jobs: what nodes are told and when, and who is to blame?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from preflight.job.start.run import run_job
from preflight.launch.job import Job, Placement
from preflight.said.errors import HostError, NotMeasured
from tests import found
from tests.clock import Clock
from tests.job.collect.nodes import LOST
from tests.job.figures import figures
from tests.job.measure.rehearsal.followed import Node

STAGES = ("import", "rendezvous", "communicator", "running")


def said(rank: int, kind: str, **more: Any) -> dict[str, Any]:
    """A record of a rank."""
    return {"record": {"rank": rank, "record": kind, **more}}


def at(rank: int, *stages: str) -> list[Any]:
    """A rank comes to these stages, a second each."""
    return [part for stage in stages for part in (1.0, said(rank, "stage", stage=stage))]


def ended(rank: int, code: str = "0", log: str = "one\nlast words\n") -> dict[str, Any]:
    """The process of a rank."""
    return {"name": f"rank{rank}", "exit": code, "log": log}


def well(rank: int, *between: Any) -> list[Any]:
    """A rank that comes to its end."""
    return [*at(rank, *STAGES), *between, said(rank, "done"), ended(rank)]


ERROR = "RuntimeError: Connection closed by peer [10.0.0.2]:4711"
PROGRESS = {"op": "all_reduce", "bytes": 8, "iterations": 2, "seconds_left": 3.0}
WAITS = [*at(0, *STAGES[:2]), 300.0]
# What both nodes say, and when.
JOBS: dict[str, tuple[list[Any], list[Any]]] = {
    "all well": (well(0, said(0, "progress", **PROGRESS)), well(1)),
    "one fails": (WAITS, [*at(1, *STAGES), said(1, "failed", error=ERROR), 1.0, ended(1, "1")]),
    "one fails, and the other says why": (
        [*at(0, *STAGES), 2.0, said(0, "failed", error="ImportError: x"), ended(0, "1"), 300.0],
        [*at(1, *STAGES), said(1, "failed", error=ERROR), ended(1, "1"), 300.0],
    ),
    "one leaves without a word": (WAITS, [*at(1, "import"), ended(1, "-9")]),
    "one stays in its import": (WAITS, [*at(1, "import"), 300.0]),
    "one never starts": (WAITS, [300.0]),
    "a node is lost": (WAITS, [*at(1, "import"), 5.0, LOST]),
    "one rank speaks for the other": ([*WAITS[:-1], said(1, "failed", error="x"), *well(0)], well(1)),
    "a file of NCCL": (well(0), [*at(1, *STAGES), {"file": "nccl", "rank": 1, "text": "NET/IB"}, *well(1)]),
    "a server ends": (WAITS, [{"name": "n2: ray", "exit": "1", "log": "address in use\n\n"}, 300.0]),
    "a server is ended by us": (well(0), [{"name": "n2: ray", "exit": "stopped", "log": ""}, *well(1)]),
    "a word that is none": (WAITS, [said(1, "stage", stage=7), 300.0]),
}


def of_jobs() -> Iterator[str]:
    """Each job by our own start, and by agents that start a failed rank again: asked, told, heard and blamed."""
    for (title, scripts), (launcher, restarts) in itertools.product(JOBS.items(), (("env", 0), ("torchrun", 2))):
        nodes = {
            f"n{number}": Node(f"n{number}", free_port=[{"port": 29511}], ranks=script)
            for number, script in enumerate(scripts, 1)
        }
        yield f"=== {title}, {launcher} {restarts}"
        yield from followed(nodes, launcher, restarts)
    yield "=== the first node has no port"
    yield from followed({"n1": Node("n1"), "n2": Node("n2", ranks=[])}, "env", 0)
    yield "=== the second node starts nothing"
    yield from followed({"n1": Node("n1", free_port=[{"port": 29511}], ranks=WAITS), "n2": Node("n2")}, "env", 0)


def followed(nodes: dict[str, Node], launcher: str, restarts: int) -> Iterator[str]:
    """One job."""
    clock = Clock()
    for one in nodes.values():
        one.clock = clock
    placements = tuple(Placement(rank, node, 0, 1) for rank, node in enumerate(nodes))
    settings = {"operations": ["all_reduce"], "dtype": "float32"}
    job = Job("collectives", settings, placements, "10.0.0.1", (("--env", {"A": "1"}),), 60.0, restarts)
    heard: list[dict[str, Any]] = []
    try:
        outcome = clock.run(run_job(nodes, job, launcher=launcher, hear=heard.append))  # type: ignore[arg-type]
        why = f"{figures(outcome.failure)} {outcome.guilty} {outcome.is_proven} {bool(outcome.why.cause)}"
        yield f"{why if outcome.failure else 'well'} after {outcome.seconds:.1f} s {sorted(outcome.commands)} {heard}"
        for one in outcome.stories:
            where = f"{one.placement.node} {one.elsewhere} {one.is_placed} {one.kept_waiting}"
            yield f"  {one.placement.rank}: {one.stage} {one.error[:40]!r} {where} {one.files} {len(one.records)}"
    except (NotMeasured, HostError) as error:
        yield f"raises {' '.join(found.values(str(error)))} after {clock.passed:.1f} s"
    yield from (f"{name}: {' | '.join(node.told)}" for name, node in nodes.items())
