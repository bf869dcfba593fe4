"""What did the mesh, the bench and the reference training measure? Each is the section of that name in report.json."""

from __future__ import annotations

from preflight.facts.results.bench import (
    RING,
    Bench,
    Device,
    Direction,
    Disputed,
    Expected,
    NoDevice,
    Part,
    RankReport,
    Result,
    Slow,
    Stream,
    Transport,
    same_measurement,
)
from preflight.facts.results.measured import Measured
from preflight.facts.results.mesh import Edge, Filter, Mesh, Reason, Rendezvous, Way
from preflight.facts.results.rehearsal import Rehearsal
from preflight.facts.results.training import Drill, JobFailure, TrainedRank, Training

__all__ = [
    "RING",
    "Bench",
    "Device",
    "Direction",
    "Disputed",
    "Drill",
    "Edge",
    "Expected",
    "Filter",
    "JobFailure",
    "Measured",
    "Mesh",
    "NoDevice",
    "Part",
    "RankReport",
    "Reason",
    "Rehearsal",
    "Rendezvous",
    "Result",
    "Slow",
    "Stream",
    "TrainedRank",
    "Training",
    "Transport",
    "Way",
    "same_measurement",
]
