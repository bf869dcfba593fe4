"""What does a monitoring system read: one line of status, and figures behind a bar?"""

from __future__ import annotations

from preflight.judge.ledger.findings import Verdict
from preflight.report.causes import causes, nodes_text
from preflight.report.document import RunReport
from preflight.report.formats.text import headline
from preflight.report.groups import checks_by_verdict
from preflight.report.material import Material
from preflight.report.printable import printable

STATES = {Verdict.PASS: "OK", Verdict.WARN: "WARNING", Verdict.FAIL: "CRITICAL"}
# What Nagios and compatible systems expect of a plugin; not our own codes, where 1 is a fail.
CODES = {"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}
WIDTH = 300


def nagios_line(material: Material) -> str:
    """``PREFLIGHT CRITICAL - NO-GO ... | figures``; no bar but the one before the figures, no control character."""
    report = material.report
    parts = [headline(report)]
    for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN):
        found = [cause for cause in causes(report, verdict) if not cause.is_consequence]
        if found:
            first = found[0]
            parts.append(f"{first.title} on {nodes_text(report, first.nodes, most=60)}: {first.parts[0].message}")
            break
    text = " ".join(printable("; ".join(parts)).replace("|", "/").split())
    text = text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
    return f"PREFLIGHT {_state(report)} - {text} | {_figures(report)}\n"


def nagios_code(report: RunReport) -> int:
    """0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN: also for what was not measured, skipped or cut short."""
    return CODES[_state(report)]


def _state(report: RunReport) -> str:
    if not report.finished or report.exit_code > 5:
        return "UNKNOWN"
    return STATES.get(report.verdict, "UNKNOWN")


def _figures(report: RunReport) -> str:
    figures = [f"{verdict}={len(checks)}" for verdict, checks in checks_by_verdict(report).items()]
    figures.append(f"seconds={report.run.seconds:.1f}s")
    if report.mesh:
        figures.append(f"mesh_failed={report.mesh.edges - report.mesh.ok}")
    if report.bench and report.bench.results:
        largest = max(report.bench.results, key=lambda result: result.bytes)
        figures.append(f"busbw={largest.busbw_gbytes_per_s:.6g}")  # GB/s, which is no unit that Nagios knows
    return " ".join(figures)
