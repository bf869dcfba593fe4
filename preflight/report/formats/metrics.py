"""How does Prometheus read the run, as a file for the textfile collector of node_exporter?"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from preflight.judge.ledger.findings import Verdict
from preflight.report.causes import worst_of_nodes
from preflight.report.columns import RESULTS
from preflight.report.document import RunReport
from preflight.report.groups import checks_by_verdict
from preflight.report.material import Material
from preflight.report.printable import printable

Labels = Mapping[str, str]
GB = 1e9


class Family(NamedTuple):
    """A metric: its name after ``preflight_``, what it means, its samples and its type."""

    name: str
    help: str
    samples: Sequence[tuple[Labels, float]]
    type: str = "gauge"


def metrics_text(material: Material) -> str:
    """The exposition format, version 0.0.4: no time stamps, every label set once."""
    lines: list[str] = []
    for family in _families(material.report):
        once = {_labelled(labels): value for labels, value in family.samples}
        if once:
            lines += [f"# HELP preflight_{family.name} {family.help}", f"# TYPE preflight_{family.name} {family.type}"]
            lines += [f"preflight_{family.name}{labels} {value:.12g}" for labels, value in once.items()]
    return "\n".join(lines) + "\n"


def _families(report: RunReport) -> Iterator[Family]:
    run = report.run
    yield Family(
        "run_info", "Which run this is.", [({"run": run.id, "version": run.version, "profile": report.profile}, 1)]
    )
    with contextlib.suppress(ValueError):
        started = datetime.fromisoformat(run.started.replace("Z", "+00:00"))
        yield Family("run_started_seconds", "When the run began, in Unix time.", [({}, started.timestamp())])
    yield Family("run_seconds", "How long the run took.", [({}, run.seconds)])
    yield Family("run_finished", "Whether the run came to its end.", [({}, report.finished)])
    yield Family(
        "verdict",
        "The verdict of the run: 1 for the one that holds.",
        [({"verdict": str(verdict)}, verdict is report.verdict) for verdict in Verdict],
    )
    yield Family("exit_code", "The exit code of the run.", [({}, report.exit_code)])
    checks = checks_by_verdict(report)
    yield Family(
        "checks",
        "Checks by their worst verdict.",
        [({"verdict": str(verdict)}, len(checks[verdict])) for verdict in Verdict],
    )
    yield Family(
        "cells_expected", "Cells, each a check on a node, that had to be judged.", [({}, report.ledger.expected)]
    )
    yield Family("cells_judged", "Cells with a verdict.", [({}, report.ledger.judged)])
    yield Family(
        "node_reached", "Whether the node answered.", [({"node": n}, i.reached) for n, i in report.nodes.items()]
    )
    yield Family(
        "node_worst_verdict",
        "The worst verdict of the node, without what follows from another check.",
        [({"node": node, "verdict": str(verdict)}, 1) for node, verdict in worst_of_nodes(report).items()],
    )
    yield Family(
        "stage_seconds", "How long each stage took.", [({"stage": s}, spent) for s, spent in report.stages.items()]
    )
    yield from _measured(report)


def _measured(report: RunReport) -> Iterator[Family]:
    if report.mesh:
        yield Family("mesh_edges", "Connections that were tried.", [({}, report.mesh.edges)])
        yield Family("mesh_edges_ok", "Connections that both ends confirmed.", [({}, report.mesh.ok)])
    if report.bench:
        results = [
            ({"collective": r.title, "bytes": str(r.bytes), "dtype": r.dtype, "in_place": str(r.in_place).lower()}, r)
            for r in report.bench.results
        ]
        for column in RESULTS:
            if column.metric:
                figures = [(labels, column.sample(result, report.bench)) for labels, result in results]
                samples = [(labels, figure) for labels, figure in figures if figure is not None]
                yield Family(column.metric.name, column.metric.help, samples, column.metric.type)
        if report.bench.expected:
            expected = report.bench.expected.busbw_gbytes_per_s * GB
            yield Family(
                "expected_busbw_bytes_per_second", "Bus bandwidth that these nodes should show.", [({}, expected)]
            )
    if report.training and report.training.losses:
        losses = report.training.losses
        yield Family(
            "training_loss",
            "Mean loss of the first and the last step.",
            [({"step": "first"}, losses[0]), ({"step": "last"}, losses[-1])],
        )
        steps: dict[str, list[float]] = {}
        for rank in report.training.ranks:
            steps.setdefault(rank.node, []).append(rank.step_seconds_median)
        yield Family(
            "training_step_seconds",
            "Median time of a step, over the ranks of the node.",
            [({"node": node}, statistics.median(each)) for node, each in steps.items()],
        )


def _labelled(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')
