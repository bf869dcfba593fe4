"""Does the table of the training say what each rank did, and where it stopped?"""

from __future__ import annotations

import msgspec

from preflight.facts.results import Drill, JobFailure, TrainedRank, Training
from preflight.report.formats.training import training_table

RANK = TrainedRank(
    rank=0,
    node="node1",
    device="cpu",
    step_seconds_median=0.02,
    step_seconds_p95=0.03,
    parameters_digest="d0",
    gradient_error=0.0,
    parameters_error=0.0,
    import_seconds=1.25,
    finite=True,
    communication_seconds_median=0.015,
    compute_seconds_mean=0.005,
    memory_peak_bytes=300 << 20,
)
TRAINING = Training(
    launcher="torchrun",
    world_size=2,
    losses=(5.0, 4.0, 3.5),
    ranks=(RANK, msgspec.structs.replace(RANK, rank=1, node="node2")),
    tokens_per_s=20480.0,
)


def test_each_rank_is_a_row_with_its_split():
    """Step, communication, computation, memory and the import of torch."""
    row = next(line for line in training_table(TRAINING).splitlines() if "node2" in line)
    assert row.split() == ["1", "node2", "cpu", "20.0", "30.0", "15.0", "5.0", "0.0", "300", "1.2"]


def test_the_speed_of_all_is_told_where_it_is_known():
    """No figure stands for one that was not measured."""
    assert "Tokens/s            : 2.048e+04" in training_table(TRAINING)
    assert "Scaling" not in training_table(TRAINING)
    more = msgspec.structs.replace(TRAINING, scaling_efficiency=0.75, expected_communication_seconds=0.004)
    assert "Scaling efficiency  : 75 %" in training_table(more).replace("75%", "75 %")
    assert "Expected all-reduce : 4 ms a step" in training_table(more)


def test_a_job_that_stopped_says_where_why_and_what_to_do():
    """With the last lines, in which a node may not draw on the terminal."""
    failure = JobFailure(
        nodes=("node3",),
        is_proven=True,
        message="rank 2 on node3 stopped",
        stage="import",
        cause="no torch",
        fix="pip",
        last_lines=("\x1b[31mred",),
    )
    text = training_table(Training(launcher="direct", world_size=3, losses=(), ranks=(), failure=failure))
    assert "Stopped at stage import on node3: rank 2 on node3 stopped" in text
    assert "Likely cause : no torch\n# Fix          : pip" in text
    assert "\x1b" not in text


def test_a_drill_is_told_with_its_time():
    """Or with why nothing was restarted."""
    drill = Drill(rank=1, node="node2", named=("node2",), seconds_to_end=5.5, limit_seconds=44.0)
    assert "ended after 5.5 s (limit 44 s); torchrun restarted it" in training_table(
        msgspec.structs.replace(TRAINING, drill=drill)
    )
    lost = msgspec.structs.replace(drill, not_restarted="port taken")
    assert "; port taken" in training_table(msgspec.structs.replace(TRAINING, drill=lost))
