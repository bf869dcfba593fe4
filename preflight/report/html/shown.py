"""What does the template of the page draw from: verdict, findings, nodes, measurements, and the script's data?"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from preflight.judge.ledger.findings import SEVERITY, Verdict
from preflight.report.causes import BAD, aftermath, causes, counts_of_nodes, nodes_text, worst_of_nodes
from preflight.report.changes import change_text, drift_text, heading
from preflight.report.columns import DEVICES, RANKS, RESULTS, columns_of, expected_by_links, rate_text, size_text
from preflight.report.document import RunReport
from preflight.report.facts import compared
from preflight.report.formats.commands import is_mended, lines
from preflight.report.formats.text import headline_parts
from preflight.report.groups import checks_by_verdict, groups, not_asked_text, unjudged_text
from preflight.report.html import figures
from preflight.report.html.heatmap import heat_map, legend, pairs, shared_text, usual
from preflight.report.html.strip import NARROWEST, SHAPES, STANDING_OUT, rack_head, strip
from preflight.report.language import Language
from preflight.report.material import Material, in_language
from preflight.report.matrix import LETTERS, Row, packed, racks_in_order, rows
from preflight.report.plan import SEAT, launches, seats
from preflight.report.printable import printable
from preflight.said import said

if TYPE_CHECKING:
    from markupsafe import Markup

FOLDER = Path(__file__).parent
COMMANDS = 20  # lines of them on one card
# What the script puts on the page by itself; [1] and [2] are numbers.
SCRIPT_WORDS = (
    *("Copy", "Copied", "Select it by hand", "no node", "not judged"),
    *("[1] of [2] checks", ", [1] of [2] nodes"),
)
CELLS_UP_TO = 16  # nodes that get a column of their own; more become a band
SIGNS = {"p": "✓", "f": "✕", "e": "?", "w": "!", "s": "–", "n": "·"}  # noqa: RUF001 -- a dash for skipped


def shown(material: Material) -> dict[str, Any]:
    """What the template draws from, at every level."""
    language = material.language
    report = in_language(material.report, language)
    return {
        "report": report,
        "command": shlex.join(report.run.command),
        "letters": LETTERS,
        "signs": SIGNS,
        "verdicts": (Verdict.FAIL, Verdict.ERROR, Verdict.WARN, Verdict.PASS, Verdict.SKIP),
        **_head(report, language),
        **_findings(report, language),
        **_nodes(report, material),
        **_measured(report),
        "stage": language.stage,
        "logs": {name: text for name, text in material.logs.items() if text.strip()},
        "diagnosis": _diagnosis(material),
    }


def _head(report: RunReport, language: Language) -> dict[str, Any]:
    """The verdict in words, our style and script, and the policy that lets nothing else act."""
    from markupsafe import Markup

    word, detail = headline_parts(report)
    style, script = _asset("report.css"), _asset("report.js")
    is_whole = report.finished and report.exit_code in (0, 1, 3, 5)
    return {
        "word": word,
        "detail": detail,
        "state": LETTERS[report.verdict] if is_whole else "e",
        "style": Markup(style),  # noqa: S704 -- a file of ours
        "script": Markup(script),  # noqa: S704 -- a file of ours
        "policy": said(
            "default-src 'none'; script-src '{digest}'; style-src '{digest2}'; img-src data:; base-uri "
            "'none'; form-action 'none'",
            _digest(script),
            _digest(style),
        ),
        "data": _data(report, language),
    }


def _findings(report: RunReport, language: Language) -> dict[str, Any]:
    """What is wrong and what to type, what has changed, and the matrix of checks."""
    return {
        "causes": {verdict: causes(report, verdict) for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)},
        "commands": lambda cause: lines(
            report, [finding for part in cause.parts for finding in part.findings], most=COMMANDS, language=language
        ),
        "aftermath": aftermath(report),
        "mended": lambda cause: is_mended(finding for part in cause.parts for finding in part.findings),
        "nodes_text": lambda names, most=80: nodes_text(report, names, most=most),
        "skips": groups(report, Verdict.SKIP),
        "heading": lambda changes: heading(changes, language.verdict),
        "change_text": lambda change: change_text(change, language),
        "drift_text": drift_text,
        "checks": checks_by_verdict(report),
        "not_asked": not_asked_text(report),
        "unjudged": unjudged_text(report),
        "rows": rows(report),
        "summary": lambda row: _summary(report, row, language.verdict),
        "strip": strip,
    }


def _nodes(report: RunReport, material: Material) -> dict[str, Any]:
    """The nodes, the worst first, with their facts, and what the launch files ask of them."""
    worst = worst_of_nodes(report)
    plan = report.plan or {}
    return {
        "nodes": sorted(report.nodes, key=lambda node: (report.nodes[node].reached, -SEVERITY[worst[node]])),
        "worst": worst,
        "counts": counts_of_nodes(report),
        "racks": racks_in_order(report),
        "rack_head": rack_head,
        "has_cells": len(report.nodes) <= CELLS_UP_TO,
        "facts": compared(material.facts),
        "launches": launches(plan),
        "seats": seats(plan),
        "seat_names": [name.replace("_", " ") for name in SEAT],
        "reference_job": str(plan.get("reference_job", "")),
    }


def _measured(report: RunReport) -> dict[str, Any]:
    """Bandwidth, pairs of nodes and training, with the functions that draw them."""
    found = pairs(report.bench, report.mesh)
    names = tuple(report.nodes)
    return {
        "pairs": found,
        "map": heat_map(names, found) if found and len(names) > 1 else "",
        "legend": legend(names, found),
        "usual": usual(found),
        "together": shared_text(names),
        "figures": figures,
        "columns": _columns(report),
        "size": size_text,
        "rate": rate_text,
        "expected_by_links": expected_by_links,
    }


def _diagnosis(material: Material) -> str:
    """The diagnosis of the logs of a training that failed, as text; "" where it did not fail, or they show no cause."""
    training = material.report.training
    if training is None or training.failure is None:
        return ""
    of_ranks = {name: text for name, text in material.logs.items() if name.startswith("train")}
    from preflight.diagnose import diagnose_texts  # here, as most runs have no job that failed
    from preflight.report.formats.diagnosis import diagnosis_text

    found = diagnose_texts(of_ranks)
    return diagnosis_text(found) if found.causes else ""


def _columns(report: RunReport) -> dict[str, Any]:
    """The columns of each table of results, without those that are empty in this run."""
    bench, training = report.bench, report.training
    return {
        "results": columns_of(RESULTS, "page", bench.results, bench) if bench else (),
        "devices": columns_of(DEVICES, "page", bench.devices, bench) if bench else (),
        "ranks": columns_of(RANKS, "page", training.ranks, training) if training else (),
    }


@cache
def _asset(name: str) -> str:
    """A file of the package that goes into the page as it is."""
    return (FOLDER / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _data(report: RunReport, language: Language) -> Markup:
    """What the script reads: every node's name, every check's cells, how a band is drawn, and what it says."""
    from markupsafe import Markup

    document = {
        "nodes": [printable(node).lower() for node in report.nodes],
        "rows": [[LETTERS[row.verdict], packed(row.cells)] for row in rows(report)],
        "shapes": {LETTERS[verdict]: shape for verdict, shape in SHAPES.items()},
        "narrowest": NARROWEST,
        "standingOut": [LETTERS[verdict] for verdict in STANDING_OUT],
        "words": {word: translated for word in SCRIPT_WORDS if (translated := language.say(word)) != word}
        | {str(verdict): language.verdict(str(verdict)) for verdict in Verdict},
    }
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # Inside a script element only these could end it, or open a comment in it.
    return Markup(re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text))  # noqa: S704 -- escaped just here


def _summary(report: RunReport, row: Row, name_of: Callable[[str], str]) -> str:
    """The row in words: what stands out with its nodes, then how many of the rest."""
    names = tuple(report.nodes)
    by_verdict: dict[Verdict | None, list[str]] = {}
    for verdict, start, length in row.runs():
        by_verdict.setdefault(verdict, []).extend(names[start : start + length])
    if len(by_verdict) == 1:
        return nodes_text(report, names, most=40)
    parts = []
    for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN, Verdict.PASS, Verdict.SKIP, None):
        if verdict in by_verdict:
            who = by_verdict[verdict]
            named = f" {nodes_text(report, who, most=40)}" if verdict in (*BAD, Verdict.WARN) else f" {len(who)}"
            parts.append(f"{name_of(str(verdict or 'not judged'))}{named}")
    return " · ".join(parts)
