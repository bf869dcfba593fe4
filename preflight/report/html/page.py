"""How does one page, opened from disk and without a network, show a person the whole run?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from preflight.report.html.shown import shown
from preflight.report.language import ENGLISH, Language
from preflight.report.language.template import translated
from preflight.report.material import Material
from preflight.report.printable import printable
from preflight.said import HEARD, heard, said

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

FOLDER = Path(__file__).parent
TEMPLATE = "report.html.j2"
SIZE_LIMIT_BYTES = 3_000_000
DRAWN = re.compile(r">([^<>]*[A-Za-z]{2}[^<>]*)<")  # the words of a picture
LABELLED = re.compile(r'^(<svg[^>]* aria-label=")([^"]*)"')


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
    with heard():
        return _page(material)


def _page(material: Material) -> str:
    template, values = _environment(material.language).get_template(TEMPLATE), shown(material)
    page = ""
    for level in LEVELS:
        page = template.render(
            values, level=level, log_letters=level.log_letters // max(min(len(material.logs), level.nodes), 1)
        )
        if len(page.encode("utf-8")) <= SIZE_LIMIT_BYTES:
            break
    return page


@cache
def _environment(language: Language) -> Environment:
    from jinja2 import DictLoader, Environment, StrictUndefined
    from markupsafe import Markup, escape

    def plain(value: Any) -> Any:
        """Every text that a template puts on the page is said and made printable here, and escaped by Jinja after."""
        if language is not ENGLISH and str(value).startswith("<svg"):
            # What was drawn is text; the sentences that it was made of were heard.
            sentences = {str.__str__(one): one for one in HEARD.get() or ()}

            def spoken(text: str) -> str:
                return str(escape(language.say(sentences.get(unescape(text), unescape(text)))))

            drawing = DRAWN.sub(lambda text: f">{spoken(text[1])}<", value)
            drawing = LABELLED.sub(lambda text: f'{text[1]}{spoken(text[2])}"', drawing)
            return Markup(drawing)  # noqa: S704
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return printable(language.say(value)) if is_text else value

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
    return text if len(text) <= letters else said("{text}… (in full in report.json)", text[:letters])
