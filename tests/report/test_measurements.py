"""Are mesh, bench and training told in a few lines, and what was not measured as such?"""

import msgspec

from preflight.facts.results import Mesh
from preflight.report.measurements import measurement_lines

replace = msgspec.structs.replace


def test_what_did_not_run_takes_no_line(make_report):
    """A run of facts alone says nothing of bandwidth."""
    assert list(measurement_lines(make_report())) == []


def test_the_mesh_is_a_count_and_the_first_failure(full_report, make_report):
    """How many of how many, and where to look."""
    line = next(measurement_lines(full_report))
    assert "5 of 6 connections" in line
    assert "node1 -> node3 (filtered)" in line
    line = next(
        measurement_lines(make_report(mesh=Mesh(edges=2, ok=2, failed=(), unmeasured={"node3": "no interface"})))
    )
    assert line == "mesh      2 of 2 connections on random ports ok; not tried: node3"


def test_a_mesh_that_tried_nothing_is_not_ok(make_report):
    """One node, or none with an interface: no connection is no success."""
    alone = Mesh(edges=0, ok=0, failed=(), unmeasured={"node1": "no interface"})
    line = next(measurement_lines(make_report(mesh=alone)))
    assert line == "mesh      no connection between nodes was tried; not tried: node1"


def test_the_bench_is_a_table_of_the_largest_size_of_each_collective(full_report):
    """Two sizes of one collective give one row; the slow node follows."""
    lines = [line for line in measurement_lines(full_report) if not line.startswith(("mesh", "training"))]
    assert lines[0] == "bench     gloo, 3 ranks on 3 nodes, expected busbw 0.1196 GB/s (0.957 Gbit/s)"
    assert lines[1].split() == ["collective", "size", "time", "algbw", "busbw", "of", "expected", "cv", "wrong"]
    assert lines[2].split() == ["(ms)", "(GB/s)", "(GB/s)", "(%)", "(%)"]
    assert lines[3].split() == ["all_reduce", "64", "MiB", "500.00", "0.0896", "0.1194", "100", "0.6", "0"]
    assert lines[4] == "slow      node3 (egress): 0.02 GB/s (0.16 Gbit/s), 17% of its peers' 0.119 GB/s"
    assert len(lines) == 5


def test_every_collective_has_a_row(make_report, bench):
    """Nine are nine."""
    names = [f"op{number}" for number in range(9)]
    results = tuple(replace(bench.results[0], op=name) for name in names)
    text = "\n".join(measurement_lines(make_report(bench=replace(bench, results=results))))
    assert [name for name in names if name in text] == names


def test_the_training_is_one_line_with_its_slowest_rank(full_report):
    """Launcher, ranks, first and last loss, a step, and who is slow."""
    line = list(measurement_lines(full_report))[-1]
    assert line == (
        "training  direct, 3 ranks: loss 4.170 -> 2.310 in 3 steps, 100 ms a step, slowest rank 2 on node3 200 ms"
    )


def test_the_slowest_rank_is_the_one_that_computes_longest(make_report, training):
    """A step takes as long on every rank, as all wait: the straggler is the rank that waits least."""
    ranks = tuple(
        replace(rank, step_seconds_median=0.2, compute_seconds_mean=0.15 if rank.rank == 1 else 0.05)
        for rank in training.ranks
    )
    (line,) = measurement_lines(make_report(training=replace(training, ranks=ranks)))
    assert line.endswith("200 ms a step, slowest rank 1 on node2 (computes 150 ms of it)")


def test_losses_that_are_no_numbers_are_said(make_report, training):
    """The job ended, and nothing was learned."""
    (line,) = measurement_lines(make_report(training=replace(training, losses=(), not_measured="")))
    assert line == "training  direct, 3 ranks: from the first step on no loss was a finite number"


def test_what_gave_no_result_says_why(make_report, bench, training):
    """No figure stands where nothing was measured."""
    report = make_report(
        bench=replace(bench, results=(), not_measured="rank 1 died", not_measured_nodes=("node2",)),
        training=replace(training, ranks=(), losses=(), not_measured=""),
    )
    lines = list(measurement_lines(report))
    assert lines == [
        "bench     gloo, 3 ranks on 3 nodes: not measured: rank 1 died (node2)",
        "training  direct, 3 ranks: not measured: no reason given",
    ]
