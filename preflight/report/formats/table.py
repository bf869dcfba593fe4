"""How does a benchmark look in the columns of nccl-tests, which people and their parsers know?"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.facts.results import Bench, Result, Transport
from preflight.reach.hosts import fold
from preflight.report.columns import DEVICES, RESULTS, Column, Row, counted, rate_text
from preflight.report.printable import printable
from preflight.said import said

# Widths as nccl-tests prints them: size count type redop root, then time algbw busbw #wrong out of place and in place.
FRONT = "{:12d}  {:12d}  {:>8}  {:>6}  {:6d}"
TIMED = "  {:>7}  {:>6}  {:>6}  {:6d}"
UNTIMED = f"  {'N/A':>7}  {'N/A':>6}  {'N/A':>6}  {'N/A':>6}"
TITLES = "#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}"
HEADER = (
    f"#{'':51}{'out-of-place':^33}{'in-place':^33}".rstrip(),
    TITLES.format("size", "count", "type", "redop", "root", *("time", "algbw", "busbw", "#wrong") * 2),
    TITLES.format("(B)", "(elements)", "", "", "", *("(us)", "(GB/s)", "(GB/s)", "") * 2).rstrip(),
)
TYPES = {"float32": "float", "float64": "double", "float16": "half"}
BYTES = {"float64": 8, "int64": 8, "uint64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1}
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")


def bench_table(bench: Bench) -> str:
    """The whole benchmark: ranks, one row a size, what was expected and who is slow. Ends in a newline."""
    return "".join(f"{line}\n" for line in _lines(bench))


def _lines(bench: Bench) -> Iterator[str]:
    nodes = counted(bench.nodes, "node")
    yield said(
        "# backend {backend}, {counted} on {nodes}", printable(bench.backend), counted(bench.world_size, "rank"), nodes
    )
    for rank in bench.ranks:
        nccl = said(" nccl {nccl}", printable(rank.nccl)) if rank.nccl else ""
        yield said(
            "#  Rank {rank:2d} on {node} device {device}{nccl}",
            rank.rank,
            printable(rank.node),
            printable(rank.named),
            nccl,
        )
    if bench.not_measured:
        on = f" ({printable(fold(bench.not_measured_nodes))})" if bench.not_measured_nodes else ""
        yield said("# not measured: {not_measured}{on}", printable(bench.not_measured), on)
    for title in dict.fromkeys(result.title for result in bench.results):
        results = [result for result in bench.results if result.title == title]
        yield "#"
        yield f"# {printable(title)}"
        yield from HEADER
        for size, dtype in dict.fromkeys((result.bytes, result.dtype) for result in results):
            yield _row([result for result in results if (result.bytes, result.dtype) == (size, dtype)])
        for result in results:
            yield f"#   {result.bytes} B: {_phrases(RESULTS, result, bench)}"
    yield "#"
    yield from (said("#  Rank {rank:2d} NCCL {used}", used.rank, _used(used)) for used in bench.transports)
    for device in bench.devices:
        yield said(
            "#  Rank {rank:2d} alone: {model}, {phrases}",
            device.rank,
            printable(device.model),
            _phrases(DEVICES, device, bench),
        )
    if bench.results:
        wrong = sum(result.wrong for result in bench.results)
        mean = sum(result.busbw_gbytes_per_s for result in bench.results) / len(bench.results)
        yield said("# Out of bounds values : {wrong} {wrong2}", wrong, "FAILED" if wrong else "OK")
        yield said("# Avg bus bandwidth    : {mean:g}", mean)
    if bench.expected:
        yield said("# Expected bus bandwidth : {rate_text}", rate_text(bench.expected.busbw_gbytes_per_s))
        yield from (f"#   {printable(step)}" for step in bench.expected.derivation)
    for node in dict.fromkeys(part.node for part in bench.parts):
        ways = [
            f"{part.part} {part.sends_gbytes_per_s:.4g}/{part.receives_gbytes_per_s:.4g}"
            for part in bench.parts
            if part.node == node
        ]
        yield printable(f"# {node} sends/receives GB/s: {', '.join(ways)}")
    if bench.ports_not_measured:
        yield said("# RDMA ports by themselves: {ports_not_measured}", printable(bench.ports_not_measured))
    for slow in bench.slow:
        part = f" {slow.part}" if slow.part else ""
        yield (
            said(
                "# Slow : {nodes}{part} {direction}: {rate_text}, {share_of_peers:.0%} of its peers' "
                "{peers_gbytes_per_s:.4g} GB/s",
                printable(fold(slow.nodes)),
                printable(part),
                slow.direction,
                rate_text(slow.gbytes_per_s),
                slow.share_of_peers,
                slow.peers_gbytes_per_s,
            )
        )


def _row(results: list[Result]) -> str:
    """One size: what was measured out of place and in place; what was not stands as N/A, never as 0."""
    first = results[0]
    redop = "sum" if first.op in REDUCING else "none"
    root = 0 if first.op in ROOTED else -1
    count = first.bytes // BYTES.get(first.dtype, 4)
    text = FRONT.format(first.bytes, count, TYPES.get(first.dtype, printable(first.dtype)), redop, root)
    for in_place in (False, True):
        timed = [result for result in results if result.in_place is in_place]
        text += _timed(timed[0]) if timed else UNTIMED
    return text


def _timed(result: Result) -> str:
    return TIMED.format(
        _fitted(result.seconds_median * 1e6, 7),
        _fitted(result.algbw_gbytes_per_s, 6),
        _fitted(result.busbw_gbytes_per_s, 6),
        result.wrong,
    )


def _fitted(value: float, width: int) -> str:
    """As nccl-tests does it: two decimals, fewer where they would break the column."""
    return next((text for digits in (2, 1) if len(text := f"{value:.{digits}f}") <= width), f"{value:.0f}")


def _used(used: Transport) -> str:
    """What NCCL took, by its own log."""
    parts = {
        "network": used.network,
        "between nodes": ", ".join(used.between_nodes),
        "within": ", ".join(used.within_node),
        "channels": str(used.channels or ""),
        "algorithm": used.algorithm,
    }
    return printable("; ".join(f"{name} {value}" for name, value in parts.items() if value) or "nothing in its log")


def _phrases(columns: tuple[Column[Row, Bench], ...], row: Row, bench: Bench) -> str:
    """What the columns of nccl-tests have no room for."""
    phrases = (column.phrase(row, bench) for column in columns if "table" in column.where)
    return printable(", ".join(filter(None, phrases)))
