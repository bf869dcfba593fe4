"""What did mesh, benchmark and training measure, in a few lines of text?"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from preflight.facts.results import Bench, Mesh, Rehearsal, Training
from preflight.reach.hosts import fold
from preflight.report.columns import RESULTS, columns_of, counted, rate_text
from preflight.report.document import RunReport
from preflight.report.language import ENGLISH, Language
from preflight.report.language.wrap import width_of
from preflight.report.printable import printable
from preflight.said import said


def measurement_lines(report: RunReport, language: Language = ENGLISH, *, told_apart: str = "") -> Iterator[str]:
    """One line for the mesh, a small table for the bench, one line for the training; nothing for what did not run.

    What is `told_apart` (bench, training, rehearsal) is left out. The heads of the table are in the language given; the
    other lines are sentences, for whoever shows them to say.
    """
    proof = next((info.proof for info in report.nodes.values() if info.proof), None)
    if proof:
        yield (
            said(
                "proved    {jobs}: not measured in this run, {text}; facts and connections were tried again "
                "and have not changed",
                " and ".join(proof.jobs),
                printable(proof.text()),
            )
        )
    if report.mesh:
        yield _mesh_line(report.mesh)
    if report.bench and told_apart != "bench":
        yield from _bench_lines(report.bench, language)
    if report.training and told_apart != "training":
        yield _training_line(report.training)
    if report.rehearsal and told_apart != "rehearsal":
        yield _rehearsal_line(report.rehearsal)


def _rehearsal_line(rehearsal: Rehearsal) -> str:
    done = sum(rank.stage == "done" for rank in rehearsal.ranks)
    files = ", ".join(dict.fromkeys(printable(script.file) for script in rehearsal.scripts)) or "not run"
    return said(
        "rehearsal {files}: {done} of {counted} came to the end of their steps",
        files,
        done,
        counted(len(rehearsal.ranks), "rank"),
    )


def _mesh_line(mesh: Mesh) -> str:
    text = said("{ok} of {edges} connections on random ports ok", mesh.ok, mesh.edges)
    if not mesh.edges:
        text = "no connection between nodes was tried"
    if mesh.failed:
        first = mesh.failed[0]
        text += said(
            "; first failed: {source} -> {target} ({reason})",
            printable(first.source),
            printable(first.target),
            first.reason,
        )
    if mesh.unmeasured:
        text += said("; not tried: {unmeasured}", printable(fold(mesh.unmeasured)))
    return said("mesh      {text}", text)


def _bench_lines(bench: Bench, language: Language) -> Iterator[str]:
    who = said(
        "{backend}, {counted} on {counted2}",
        printable(bench.backend),
        counted(bench.world_size, "rank"),
        counted(bench.nodes, "node"),
    )
    if not bench.results:
        yield said("bench     {who}: not measured: {why}", who, _why(bench.not_measured, bench.not_measured_nodes))
        return
    yield said("bench     {who}", who) + (
        said(", expected busbw {rate_text}", rate_text(bench.expected.busbw_gbytes_per_s)) if bench.expected else ""
    )
    largest = {result.title: result for result in sorted(bench.results, key=lambda result: result.bytes)}
    results = tuple(largest.values())
    columns = columns_of(RESULTS, "summary", results, bench)
    table = [
        [language.say(column.title) for column in columns],
        [column.unit and f"({column.unit})" for column in columns],
        *([printable(column.text(result, bench)) for column in columns] for result in results),
    ]
    widths = [max(width_of(row[place]) for row in table) for place in range(len(columns))]
    for row in table:
        cells = (_filled(text, wide, column.align) for text, wide, column in zip(row, widths, columns, strict=True))
        yield f"          {'  '.join(cells)}".rstrip()
    yield from (said("          left out: {text}", printable(text)) for text in bench.left_out)
    for model in dict.fromkeys(device.model for device in bench.devices):
        alone = sorted(device.matmul_tflops_per_s for device in bench.devices if device.model == model)
        what = said("matmul {alone:.4g} to {alone2:.4g} TFLOP/s, each GPU by itself", alone[0], alone[-1])
        yield said("devices   {alone} x {model}, {what}", len(alone), printable(model), what)
    for slow in bench.slow:
        where = printable(f"{fold(slow.nodes)} {slow.part}".rstrip())
        yield (
            said(
                "slow      {where} ({direction}): {rate_text}, {share_of_peers:.0%} of its peers' "
                "{peers_gbytes_per_s:.4g} GB/s",
                where,
                slow.direction,
                rate_text(slow.gbytes_per_s),
                slow.share_of_peers,
                slow.peers_gbytes_per_s,
            )
        )


def _filled(text: str, wide: int, align: str) -> str:
    """A cell as wide as its column: letters of Chinese take two places."""
    room = " " * (wide - width_of(text))
    return f"{text}{room}" if align == "left" else f"{room}{text}"


def _training_line(training: Training) -> str:
    who = said("training  {launcher}, {counted}", printable(training.launcher), counted(training.world_size, "rank"))
    if training.ranks and not training.losses and not training.not_measured:
        return said("{who}: from the first step on no loss was a finite number", who)
    if not training.ranks or not training.losses:
        return said("{who}: not measured: {why}", who, _why(training.not_measured, training.not_measured_nodes))
    typical = statistics.median(rank.step_seconds_median for rank in training.ranks)
    return said(
        "{who}: loss {losses:.3f} -> {losses2:.3f} in {counted}, {typical:.0f} ms a step, slowest {slowest}",
        who,
        training.losses[0],
        training.losses[-1],
        counted(len(training.losses), "step"),
        typical * 1000.0,
        _slowest(training, typical),
    )


def _slowest(training: Training, typical: float) -> str:
    """The rank that the others wait for: a step takes as long on all, so the longest computation shows it."""
    computes = max(training.ranks, key=lambda rank: rank.compute_seconds_mean)
    if training.strategy == "ddp" and computes.compute_seconds_mean > 0:
        alone = computes.compute_seconds_mean
        # A mean that a few long steps lift above the median of whole steps is no part of that.
        part, mean = (
            said("computes {alone:.0f} ms of it", alone * 1000.0),
            said("computes {alone:.0f} ms a step on average", alone * 1000.0),
        )
        return said(
            "rank {rank} on {node} ({part})",
            computes.rank,
            printable(computes.node),
            part if alone <= typical else mean,
        )
    slowest = max(training.ranks, key=lambda rank: rank.step_seconds_median)
    return said(
        "rank {rank} on {node} {step_seconds_median:.0f} ms",
        slowest.rank,
        printable(slowest.node),
        slowest.step_seconds_median * 1000.0,
    )


def _why(reason: str, nodes: tuple[str, ...]) -> str:
    text = printable(reason) or "no reason given"
    return f"{text} ({printable(fold(nodes))})" if nodes else text
