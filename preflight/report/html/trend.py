"""How does one page, opened from disk, show many runs: what got worse with which, the curves, the facts that moved?"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup, escape

from preflight.reach.hosts import fold
from preflight.report.columns import counted
from preflight.report.html.plots import Point, Series, line_plot
from preflight.report.language import ENGLISH, Language
from preflight.report.printable import printable, without_surrogates
from preflight.report.trend import Measure, Trend, fall_text, when
from preflight.said import said

STYLE = Path(__file__).parent / "report.css"
PLOTS = 60
FACTS = 300
LABELS = 4  # dates that have room below a plot


def trend_html(found: Trend, language: Language = ENGLISH) -> str:
    """The page: self-contained, without a script; links lead to the runs beside it."""
    style = STYLE.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    policy = said(
        "default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'", digest
    )
    say = language.say
    still = [fall for fall in found.falls if fall.recovered is None]
    state, word = ("f", say("WORSE")) if still else ("p", say("STEADY"))
    runs = say(counted(len(found.runs), "run"))
    worse = (
        said("{counted} worse than before", counted(len(still), "figure")) if still else "no figure worse than before"
    )
    detail = f"{runs}: {say(worse)}"
    shown = [measure for measure in found.measures if len(measure.samples) > 1]
    head = Markup(
        '<!DOCTYPE html>\n<html lang="{}">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="{}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        "<title>{} - {}</title>\n<style>{}</style>\n</head>\n<body>\n"
        '<header class="{}"><div class="bar"><p class="brand">preflight <span>{}</span></p></div>'
        '<h1><span class="word">{}</span> <span class="detail">{}</span></h1></header>\n<main>\n'
    ).format(
        language.name,
        policy,
        word,
        say("preflight trend"),
        Markup(style),  # noqa: S704 -- a file of ours
        state,
        say(said("trend of {counted}", counted(len(found.runs), "run"))),
        word,
        detail,
    )
    parts = [
        head,
        _list(
            "worse",
            say("What got worse"),
            [fall_text(found, fall, language) for fall in found.falls],
            say("No figure got worse."),
        ),
        _plots(found, shown, language),
        _facts(found, language),
        _runs(found, language),
        *(Markup("<p class=quiet>{}</p>").format(say(printable(note))) for note in found.notes),
        Markup("</main>\n</body>\n</html>\n"),
    ]
    return str(Markup("").join(parts))


def _list(name: str, title: str, lines: Sequence[str], otherwise: str) -> Markup:
    items = Markup("").join(Markup("<li>{}</li>").format(line) for line in lines)
    body = Markup("<ul>{}</ul>").format(items) if lines else Markup("<p>{}</p>").format(otherwise)
    return Markup('<section id="{}"><h2>{}</h2>{}</section>\n').format(name, title, body)


def _plots(found: Trend, shown: Sequence[Measure], language: Language) -> Markup:
    say = language.say
    title = say("Figures")
    if not shown:
        return _list("figures", title, (), say("No figure was measured in two runs."))
    figures = [
        Markup("<figure><figcaption>{} <small>{}</small></figcaption>{}</figure>\n").format(
            say(printable(measure.name)), printable(measure.nodes), _plot(found, measure, language)
        )
        for measure in shown[:PLOTS]
    ]
    rest = len(shown) - PLOTS
    left = say(said("and {counted}", counted(rest, "more figure")))
    more = Markup("<p class=quiet>{}</p>").format(left) if rest > 0 else ""
    return Markup('<section id="figures"><h2>{}</h2><div class="plots">{}</div>{}</section>\n').format(
        title, Markup("").join(figures), more
    )


def _plot(found: Trend, measure: Measure, language: Language) -> Markup:
    """A curve over the runs; the axis begins at zero, so that a fall looks as large as it is."""
    points = tuple(Point(sample.place, sample.value, sample.low, sample.high) for sample in measure.samples)
    places = [sample.place for sample in measure.samples]
    every = math.ceil(len(places) / LABELS)
    ticks = [(float(place), when(found.runs[place].report.run.started)[5:10]) for place in places[::every]]
    return line_plot(
        (Series(measure.name, points),),
        title=language.say(said("{name} over {counted}", measure.name, counted(len(points), "run"))),
        x_label=language.say("day of the run"),
        y_label=f"{language.say('busbw' if measure.is_better_high else 'step')} ({measure.unit})",
        x_ticks=ticks,
    )


def _facts(found: Trend, language: Language) -> Markup:
    say = language.say
    title = say("Facts that moved")
    if not found.moved:
        return _list("facts", title, (), say("No fact moved between runs of the same nodes."))
    rows = [
        (_run_link(found, moved.place), say(moved.fact), fold(moved.nodes), moved.before, moved.now)
        for moved in found.moved[:FACTS]
    ]
    rest = len(found.moved) - FACTS
    more = Markup("<p class=quiet>{}</p>").format(say(said("and {rest} more", rest))) if rest > 0 else Markup("")
    table = _table(("first in run", "fact", "nodes", "before", "now"), rows, language)
    return Markup('<section id="facts"><h2>{}</h2>{}{}</section>\n').format(title, table, more)


def _runs(found: Trend, language: Language) -> Markup:
    rows = [
        (
            _run_link(found, place),
            when(run.report.run.started),
            Markup('<span class="tag {}">{}</span>').format(
                str(run.report.verdict)[0], language.verdict(str(run.report.verdict))
            ),
            fold(run.report.nodes),
            f"{run.report.run.seconds:.0f} s",
        )
        for place, run in reversed([*enumerate(found.runs)])
    ]
    table = _table(("run", "started (UTC)", "verdict", "nodes", "took"), rows, language)
    return Markup('<section id="runs"><h2>{}</h2>{}</section>\n').format(language.say("Runs"), table)


def _run_link(found: Trend, place: int) -> Markup:
    address = f"{quote(without_surrogates(found.folders[place]))}/report.html"
    return Markup('<a href="{}">{}</a>').format(address, printable(found.runs[place].report.run.id))


def _table(head: Iterable[str], rows: Iterable[Iterable[str | Markup]], language: Language) -> Markup:
    titles = Markup("").join(Markup('<th scope="col">{}</th>').format(language.say(title)) for title in head)
    body = Markup("").join(
        Markup("<tr>{}</tr>\n").format(
            Markup("").join(
                Markup("<td>{}</td>").format(cell if isinstance(cell, Markup) else escape(printable(cell)))
                for cell in row
            )
        )
        for row in rows
    )
    return Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(language.say("Table"), titles, body)
