"""What did the mesh, the bench and the reference training measure? Each is the section of that name in report.json."""

from __future__ import annotations

from preflight.results.bench import (
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
from preflight.results.measured import Measured
from preflight.results.mesh import Edge, Filter, Mesh, Reason, Rendezvous, Way
from preflight.results.rehearsal import Rehearsal
from preflight.results.training import Drill, JobFailure, TrainedRank, Training

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
