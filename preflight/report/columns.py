"""Which columns do the tables of results have: title, unit, figure, digits, where each is shown, and its metric?

A new figure of the benchmark is one row of RESULTS, its field in `preflight.facts.results.Result` and its value in the
workload's `summary`. The terminal, report.md, report.html and report.prom draw their columns from here, and report.json
has every field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from preflight.facts.results import Bench, Device, Expected, Result, TrainedRank, Training
from preflight.said import said

Row = TypeVar("Row")
Whole = TypeVar("Whole")
Value = str | float | tuple[float, float] | None  # a pair is a range; None where this row has no such figure
Place = Literal["summary", "table", "page"]

# The summary on the terminal and in report.md; what `bench` and `train` print, the lines below the rows of nccl-tests
# included; report.html.
EVERYWHERE: tuple[Place, ...] = ("summary", "table", "page")
# How much of the base unit, in which Prometheus wants its samples, one of ours is.
BASE_UNITS = {"": 1.0, "%": 0.01, "ms": 1e-3, "s": 1.0, "MiB": float(1 << 20), "GB/s": 1e9, "TFLOP/s": 1e12}


@dataclass(frozen=True)
class Metric:
    """A family of Prometheus: its name after ``preflight_`` with the base unit at the end, and what it means."""

    name: str
    help: str
    type: Literal["gauge", "counter"] = "gauge"  # a run measures once: nearly everything is a gauge


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Row, Whole]):
    """One column. `value` reads a row's figure, in `unit`, given the row and the section of the report it is of."""

    title: str
    value: Callable[[Row, Whole], Value]
    unit: str = ""
    digits: str = ""  # Python's format of a number: ".4g"
    where: tuple[Place, ...] = EVERYWHERE
    align: Literal["left", "right"] = "right"
    metric: Metric | None = None

    @property
    def header(self) -> str:
        """Title and unit: ``busbw (GB/s)``."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def text(self, row: Row, whole: Whole) -> str:
        """The figure without its unit; "" where this row has none."""
        value = self.value(row, whole)
        if value is None:
            return ""
        return " to ".join(format(part, self.digits) for part in (value if isinstance(value, tuple) else (value,)))

    def phrase(self, row: Row, whole: Whole) -> str:
        """Title, figure and unit in one: ``busbw 0.1194 GB/s``; "" where this row has none."""
        text = self.text(row, whole)
        return " ".join(filter(None, (self.title, text, self.unit))) if text else ""

    def sample(self, row: Row, whole: Whole) -> float | None:
        """The figure in base units, as Prometheus takes it; None where this row has none."""
        value = self.value(row, whole)
        return value * BASE_UNITS[self.unit] if isinstance(value, (int, float)) else None


def columns_of(
    columns: tuple[Column[Row, Whole], ...], place: Place, rows: tuple[Row, ...], whole: Whole
) -> tuple[Column[Row, Whole], ...]:
    """The columns that a place shows of these rows: without those that are empty in every row."""
    return tuple(column for column in columns if place in column.where and any(column.text(row, whole) for row in rows))


def size_text(size_bytes: int) -> str:
    """A number of bytes in the largest binary unit that fits: ``64 MiB``."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes} B"


def counted(count: int, thing: str) -> str:
    """A number of things, in the singular where there is one: ``1 rank``, ``3 ranks``."""
    return said(f"{{count}} {thing}{{s}}", count, "" if count == 1 else "s")


def rate_text(gbytes_per_s: float) -> str:
    """A bandwidth in both units that people use: ``0.1196 GB/s (0.957 Gbit/s)``."""
    return f"{gbytes_per_s:.4g} GB/s ({gbytes_per_s * 8:.3g} Gbit/s)"


def expected_by_links(result: Result, bench: Bench) -> Expected | None:
    """What the links make of this collective; None for one that no link rate says anything about."""
    expected = bench.expected_for(result)
    is_known = expected is not None and expected.busbw_gbytes_per_s and result.op in bench.link_bound_operations()
    return expected if is_known else None


def _percent_of_expected(result: Result, bench: Bench) -> float | None:
    expected = expected_by_links(result, bench)
    return 100 * result.busbw_gbytes_per_s / expected.busbw_gbytes_per_s if expected is not None else None


RESULTS: tuple[Column[Result, Bench], ...] = (
    Column(title="collective", value=lambda r, _: r.title, where=("summary", "page"), align="left"),
    Column(title="type", value=lambda r, _: r.dtype, where=("page",), align="left"),
    Column(
        title="buffers",
        value=lambda r, _: "in place" if r.in_place else "out of place",
        where=("page",),
        align="left",
    ),
    Column(title="size", value=lambda r, _: size_text(r.bytes), where=("summary", "page")),
    Column(
        title="time",
        unit="ms",
        value=lambda r, _: r.seconds_median * 1e3,
        digits=".2f",
        where=("summary", "page"),
        metric=Metric("collective_seconds", "Median time of one operation on its slowest rank."),
    ),
    Column(
        title="p5 to p95",
        unit="ms",
        value=lambda r, _: (r.seconds_p5 * 1e3, r.seconds_p95 * 1e3),
        digits=".2f",
        where=("table", "page"),
    ),
    Column(
        title="algbw",
        unit="GB/s",
        value=lambda r, _: r.algbw_gbytes_per_s,
        digits=".4g",
        where=("summary", "page"),
        metric=Metric("algbw_bytes_per_second", "Algorithm bandwidth: size over median time."),
    ),
    Column(
        title="busbw",
        unit="GB/s",
        value=lambda r, _: r.busbw_gbytes_per_s,
        digits=".4g",
        metric=Metric("busbw_bytes_per_second", "Bus bandwidth as nccl-tests defines it."),
    ),
    Column(
        title="95 % interval",
        unit="GB/s",
        value=lambda r, _: (r.busbw_low_gbytes_per_s, r.busbw_high_gbytes_per_s),
        digits=".4g",
        where=("table", "page"),
    ),
    Column(
        title="of expected",
        unit="%",
        value=_percent_of_expected,
        digits=".0f",
        metric=Metric("busbw_expected_ratio", "Bus bandwidth over what these nodes should show."),
    ),
    Column(title="cv", unit="%", value=lambda r, _: 100 * r.cv, digits=".1f"),
    Column(
        title="wrong",
        value=lambda r, _: r.wrong,
        where=("summary", "page"),
        metric=Metric("wrong_values", "Values that differ from the exact result."),
    ),
    Column(title="iterations", value=lambda r, _: r.iterations, where=("table",)),
    Column(title="mode", value=lambda r, _: r.mode, where=("table",), align="left"),
)

DEVICES: tuple[Column[Device, Bench], ...] = (
    Column(title="rank", value=lambda d, _: d.rank, where=("page",)),
    Column(title="node", value=lambda d, _: d.node, where=("page",), align="left"),
    Column(title="device", value=lambda d, _: f"{d.named} {d.model}", where=("page",), align="left"),
    Column(
        title="matmul",
        unit="TFLOP/s",
        value=lambda d, _: d.matmul_tflops_per_s,
        digits=".4g",
        where=("table", "page"),
    ),
    Column(title="matmul type", value=lambda d, _: d.matmul_dtype, where=("table", "page"), align="left"),
    Column(
        title="memory", unit="GB/s", value=lambda d, _: d.memory_gbytes_per_s, digits=".4g", where=("table", "page")
    ),
    Column(
        title="host to device",
        unit="GB/s",
        value=lambda d, _: d.to_device_gbytes_per_s,
        digits=".4g",
        where=("table", "page"),
    ),
    Column(
        title="device to host",
        unit="GB/s",
        value=lambda d, _: d.from_device_gbytes_per_s,
        digits=".4g",
        where=("table", "page"),
    ),
    Column(title="clock MHz", value=lambda d, _: d.sm_mhz, digits=".0f", where=("page",)),
    Column(title="power W", value=lambda d, _: d.power_watts, digits=".0f", where=("page",)),
    Column(title="temperature °C", value=lambda d, _: d.temperature_celsius, digits=".0f", where=("page",)),
    Column(title="memory °C", value=lambda d, _: d.memory_celsius, digits=".0f", where=("page",)),
    Column(title="PCIe generation", value=lambda d, _: d.pcie_generation, digits=".0f", where=("page",)),
    Column(title="PCIe lanes", value=lambda d, _: d.pcie_width, digits=".0f", where=("page",)),
    Column(title="wrong", value=lambda d, _: max(d.wrong, d.wrong_products), where=("table", "page")),
)


def _unsharded(milliseconds: Callable[[TrainedRank], float]) -> Callable[[TrainedRank, Training], float | None]:
    """None where parameters are sharded: there communication and computation overlap and cannot be separated."""
    return lambda rank, training: milliseconds(rank) if training.strategy == "ddp" else None


RANKS: tuple[Column[TrainedRank, Training], ...] = (
    Column(title="rank", value=lambda r, _: r.rank),
    Column(title="node", value=lambda r, _: r.node, align="left"),
    Column(title="device", value=lambda r, _: r.named, align="left"),
    Column(title="step p50", unit="ms", value=lambda r, _: r.step_seconds_median * 1e3, digits=".1f"),
    Column(title="p95", unit="ms", value=lambda r, _: r.step_seconds_p95 * 1e3, digits=".1f"),
    Column(
        title="communication",
        unit="ms",
        value=_unsharded(lambda r: r.communication_seconds_median * 1e3),
        digits=".1f",
    ),
    Column(title="compute", unit="ms", value=_unsharded(lambda r: r.compute_seconds_mean * 1e3), digits=".1f"),
    Column(title="data", unit="ms", value=lambda r, _: r.data_seconds_median * 1e3, digits=".1f"),
    Column(title="memory", unit="MiB", value=lambda r, _: r.memory_peak_bytes / (1 << 20), digits=".0f"),
    Column(title="import torch", unit="s", value=lambda r, _: r.import_seconds, digits=".1f"),
    Column(title="parameters", value=lambda r, _: r.parameters_digest, where=("page",), align="left"),
)
