"""Do people and parsers of nccl-tests find what they know?"""

import re

import msgspec
import pytest

from preflight.facts.results import Device, Part
from preflight.report.formats.table import bench_table

replace = msgspec.structs.replace


def rows(text):
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_row_has_the_columns_and_widths_of_nccl_tests(bench):
    """Size, count, type, redop, root, then time, algbw, busbw and wrong for both halves."""
    first, second = rows(bench_table(bench))
    assert len(first) == 118
    assert first.split() == [
        "1048576", "262144", "float", "sum", "-1", "N/A", "N/A", "N/A", "N/A", "500000", "0.09", "0.12", "0",
    ]  # fmt: skip
    assert second.split()[0] == str(1 << 26)
    header = [line for line in bench_table(bench).splitlines() if "busbw" in line and "#wrong" in line]
    assert [len(line) for line in header] == [118]


def test_both_halves_stand_in_one_row(bench):
    """Out of place left, in place right, of the same size."""
    result = replace(bench.results[0], in_place=False, seconds_median=0.01234, wrong=2)
    (row,) = rows(bench_table(replace(bench, results=(result, bench.results[0]))))
    assert row.split()[5:] == ["12340.0", "0.09", "0.12", "2", "500000", "0.09", "0.12", "0"]


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        ("broadcast", "float32", ["float", "none", "0"]),
        ("reduce", "float16", ["half", "sum", "0"]),
        ("all_gather", "bfloat16", ["bfloat16", "none", "-1"]),
        ("reduce_scatter", "int64", ["int64", "sum", "-1"]),
    ],
)
def test_type_operation_and_root_are_those_of_the_collective(bench, op, dtype, expected):
    """A collective that does not reduce says none, one without a root says -1."""
    (row,) = rows(bench_table(replace(bench, results=(replace(bench.results[0], op=op, dtype=dtype),))))
    assert row.split()[2:5] == expected


def test_below_the_rows_stand_certainty_expectation_and_the_slow_node(bench):
    """The columns have two decimals; the lines below say how sure the figure is and what it should have been."""
    text = bench_table(bench)
    assert "busbw 0.1194 GB/s, 95 % interval 0.119 to 0.12 GB/s, of expected 100 %, cv 0.6 %, iterations 20" in text
    assert "# Expected bus bandwidth : 0.1196 GB/s (0.957 Gbit/s)\n#   raw TCP stream 0.1196 GB/s\n" in text
    assert "# Slow : node3 egress: 0.02 GB/s (0.16 Gbit/s), 17% of its peers' 0.119 GB/s" in text
    assert "# Out of bounds values : 0 OK" in text


def test_rails_stand_in_a_row_a_node(bench):
    """What each sends and receives, and the slow one with its rail."""
    ways = ((48.0, 47.5), (11.0, 48.0))
    parts = [
        Part(node="node3", part=f"rail {i}", sends_gbytes_per_s=one, receives_gbytes_per_s=other)
        for i, (one, other) in enumerate(ways)
    ]
    text = bench_table(replace(bench, parts=tuple(parts), slow=(replace(bench.slow[0], part="rail 1"),)))
    assert "# node3 sends/receives GB/s: rail 0 48/47.5, rail 1 11/48\n" in text
    assert "# Slow : node3 rail 1 egress: 0.02 GB/s" in text


def test_wrong_values_are_said_loudly(bench):
    """A fast wrong answer is no result."""
    text = bench_table(replace(bench, results=(replace(bench.results[0], wrong=5),)))
    assert "# Out of bounds values : 5 FAILED" in text


def test_nothing_measured_says_why_and_shows_no_figure(bench):
    """No zero stands where nothing was measured."""
    text = bench_table(
        replace(bench, results=(), expected=None, slow=(), not_measured="rank 2 died", not_measured_nodes=("node3",))
    )
    assert rows(text) == []
    assert "# not measured: rank 2 died (node3)" in text
    assert "bandwidth" not in text


def test_every_line_but_the_rows_is_a_comment_whatever_a_node_says(hostile_report):
    """A parser of the rows cannot be fed by a device name."""
    text = bench_table(hostile_report.bench)
    assert all(letter == "\n" or letter.isprintable() for letter in text)
    for line in rows(text):
        assert re.match(r" *\d+ +\d+ ", line)


def test_what_each_device_does_alone_stands_below(bench):
    """A processor has no way to a device; beside a slow result there are the matrices only."""
    gpu = Device(
        rank=0,
        node="node1",
        device="cuda:0",
        model="NVIDIA H200",
        matmul_tflops_per_s=701.0,
        matmul_dtype="bfloat16",
        wrong=0,
        memory_gbytes_per_s=4301.0,
        to_device_gbytes_per_s=54.5,
        from_device_gbytes_per_s=53.5,
    )
    cpu = Device(
        rank=1, node="node2", device="cpu", model="cpu", matmul_tflops_per_s=0.09, matmul_dtype="float32", wrong=0
    )
    text = bench_table(replace(bench, devices=(gpu, cpu)))
    figures = "matmul 701 TFLOP/s, matmul type bfloat16, memory 4301 GB/s"
    host = "host to device 54.5 GB/s, device to host 53.5 GB/s, wrong 0"
    assert f"#  Rank  0 alone: NVIDIA H200, {figures}, {host}\n" in text
    assert "#  Rank  1 alone: cpu, matmul 0.09 TFLOP/s, matmul type float32, wrong 0\n" in text
