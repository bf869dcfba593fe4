"""How does one page, opened from disk and without a network, show a person the whole run?"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from preflight.ledger.findings import SEVERITY, Verdict
from preflight.report.causes import BAD, causes, counts_of_nodes, nodes_text, worst_of_nodes
from preflight.report.changes import change_text, drift_text, heading
from preflight.report.columns import DEVICES, RANKS, RESULTS, columns_of, expected_by_links, rate_text, size_text
from preflight.report.document import RunReport
from preflight.report.facts import compared
from preflight.report.formats.commands import lines
from preflight.report.formats.text import headline
from preflight.report.groups import checks_by_verdict, groups, not_asked_text, unjudged_text
from preflight.report.html import figures
from preflight.report.html.heatmap import heat_map, legend, pairs, shared_text, usual
from preflight.report.html.strip import NARROWEST, SHAPES, STANDING_OUT, strip
from preflight.report.language import ENGLISH, Language
from preflight.report.language.template import translated
from preflight.report.material import Material, told
from preflight.report.matrix import LETTERS, Row, packed, rows
from preflight.report.plan import SEAT, launches, seats
from preflight.report.printable import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

FOLDER = Path(__file__).parent
TEMPLATE = "report.html.j2"
SIZE_LIMIT_BYTES = 3_000_000
COMMANDS = 20  # lines of them on one card
# What the script puts on the page by itself; [1] and [2] are numbers.
SCRIPT_WORDS = (
    *("Copy", "Copied", "Select it by hand", "no node", "not judged"),
    *("[1] of [2] checks", ", [1] of [2] nodes"),
)
DRAWN = re.compile(r">([^<>]*[A-Za-z]{2}[^<>]*)<")  # the words of a picture
LABELLED = re.compile(r'^(<svg[^>]* aria-label=")([^"]*)"')
CELLS_UP_TO = 16  # nodes that get a column of their own; more become a band
SIGNS = {"p": "✓", "f": "✕", "e": "?", "w": "!", "s": "–", "n": "·"}  # noqa: RUF001 -- a dash for skipped


@dataclass(frozen=True)
class Level:
    """How much of a long run the page shows; the rest is in report.json."""

    findings: int  # of one check in the matrix
    letters: int  # of one message there
    causes: int  # of one verdict
    nodes: int  # in the table of nodes, and as many logs
    values: int  # of one fact
    log_letters: int  # of all logs together


# The first level that keeps the page below its size is taken.
LEVELS = (Level(12, 800, 20, 1024, 64, 400_000), Level(4, 300, 10, 256, 16, 40_000), Level(1, 120, 3, 32, 4, 0))


def html_text(material: Material) -> str:
    """The page: valid HTML, nothing of which acts but our own script, known by its hash."""
    template, shown = _environment(material.language).get_template(TEMPLATE), _shown(material)
    page = ""
    for level in LEVELS:
        page = template.render(
            shown, level=level, log_letters=level.log_letters // max(min(len(material.logs), level.nodes), 1)
        )
        if len(page.encode("utf-8")) <= SIZE_LIMIT_BYTES:
            break
    return page


def _shown(material: Material) -> dict[str, Any]:
    """What the template draws from, at every level."""
    language = material.language
    report = told(material.report, language)
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

    word, _, detail = headline(report).partition("  ")
    style, script = _asset("report.css"), _asset("report.js")
    is_whole = report.finished and report.exit_code in (0, 1, 3, 5)
    return {
        "word": word,
        "detail": detail,
        "state": LETTERS[report.verdict] if is_whole else "e",
        "style": Markup(style),  # noqa: S704 -- a file of ours
        "script": Markup(script),  # noqa: S704 -- a file of ours
        "policy": f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        "data": _data(report, language),
    }


def _findings(report: RunReport, language: Language) -> dict[str, Any]:
    """What is wrong and what to type, what has changed, and the matrix of checks."""
    return {
        "causes": {verdict: causes(report, verdict) for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)},
        "commands": lambda cause: lines(
            report, [finding for part in cause.parts for finding in part.findings], most=COMMANDS, language=language
        ),
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
def _environment(language: Language) -> Environment:
    from jinja2 import DictLoader, Environment, StrictUndefined
    from markupsafe import Markup, escape

    def plain(value: Any) -> Any:
        """Every text that a template puts on the page is said and made printable here, and escaped by Jinja after."""
        if language is not ENGLISH and str(value).startswith("<svg"):
            said = DRAWN.sub(lambda text: f">{escape(language.say(unescape(text[1])))}<", value)
            said = LABELLED.sub(lambda text: f'{text[1]}{escape(language.say(unescape(text[2])))}"', said)
            return Markup(said)  # noqa: S704
        return printable(language.say(value)) if type(value) is str else value

    template = (FOLDER / TEMPLATE).read_text(encoding="utf-8")
    if language is not ENGLISH:
        template = translated(template, language.name, language.say)

    from preflight.report.html.compiled import Compiled

    whitespace: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=DictLoader({TEMPLATE: template}),
        bytecode_cache=Compiled(FOLDER / "__pycache__" / f"{TEMPLATE}.{language.name}", whitespace),
        finalize=plain,
        **whitespace,
    )
    environment.filters["said"] = lambda verdict: language.verdict(str(verdict))
    environment.filters["lines"] = _lines
    environment.filters["name"] = _name
    environment.filters["fix"] = _fix
    environment.filters["cut"] = _cut
    environment.filters["address"] = _address
    return environment


def _lines(text: str) -> Markup:
    """A text of several lines, for a place that keeps them."""
    from markupsafe import escape

    return escape(printable(text, keep_newlines=True))


def _name(text: object) -> Markup:
    """What something is called, which no language has another word for."""
    from markupsafe import escape

    return escape(printable(str(text)))


def _fix(text: str) -> Markup:
    """What to do, with `commands` as code that can be copied."""
    from markupsafe import Markup, escape

    pieces = text.strip().split("`")
    if len(pieces) % 2 == 0:  # a backtick without its twin: then none of them means code
        return _lines(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(printable(piece))
        if place % 2
        else escape(printable(piece, keep_newlines=True))
        for place, piece in enumerate(pieces)
    )


def _address(check: str) -> str:
    """A check's name as a link to it has it: as it stands on the page, which the script compares it with."""
    return quote(printable(check), safe="")


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[:letters]}… (in full in report.json)"


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
        "words": {word: said for word in SCRIPT_WORDS if (said := language.say(word)) != word}
        | {str(verdict): language.verdict(str(verdict)) for verdict in Verdict},
    }
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # Inside a script element only these could end it, or open a comment in it.
    return Markup(re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text))  # noqa: S704 -- escaped just here


def _summary(report: RunReport, row: Row, said: Callable[[str], str]) -> str:
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
            parts.append(f"{said(str(verdict or 'not judged'))}{named}")
    return " · ".join(parts)
