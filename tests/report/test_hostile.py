"""Is every format valid and inert whatever text stands in every field?"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import unicodedata
from pathlib import Path
from types import FrameType
from xml.dom import minidom
from xml.etree import ElementTree as ET

import pytest

from preflight.reach.hosts import parse_hosts
from preflight.report import FORMATS, formats
from preflight.report.material import Material
from preflight.report.printable import printable
from preflight.said.errors import UsageError
from tests.report.hostile import CORPUS
from tests.report.outputs import OUTPUTS
from tests.report.readers import Page, markdown, prometheus
from tests.shares import shares

BENIGN = "benign"
OF_FORMATS = {f"--format {name}" for name in FORMATS}
COMMAND = re.compile(r"^\s*::[A-Za-z-]*[g-zG-Z]|##[A-Za-z]*\[", re.MULTILINE)


def material(make_hostile, text):
    return Material(
        make_hostile(text),
        {text: {text: text, "torch": "2"}, "node1": {text: "x", "torch": text}},
        {text: f"log {text}"},
    )


@pytest.fixture(scope="module")
def drawings():
    """What was drawn already: a text in a format."""
    return {}


@pytest.fixture
def drawn(make_hostile, drawings):
    """A format that holds a text in every field, drawn once."""

    def drawn(name, text):
        if (name, text) not in drawings:
            drawings[name, text] = FORMATS[name](material(make_hostile, text))
        return drawings[name, text]

    return drawn


@pytest.fixture(params=CORPUS)
def kind(request):
    """What is hostile about the texts."""
    return request.param


@pytest.fixture(params=shares(6))
def texts(kind, request):
    """Hostile texts of one kind."""
    return request.param.of(CORPUS[kind])


def test_there_are_enough_of_them():
    """Two hundred different texts, and more."""
    assert len({text for texts in CORPUS.values() for text in texts}) >= 200


def test_no_format_holds_a_control_character_or_a_command(make_hostile, drawn, texts):
    """Bytes that move a cursor, reorder text or speak to a CI system reach no format at all."""
    for text in texts:
        hostile = material(make_hostile, text)
        for name, draw in OUTPUTS.items():
            shown = drawn(name.removeprefix("--format "), text) if name in OF_FORMATS else draw(hostile)
            shown.encode("utf-8")
            allowed = "\r\n" if name == "--format csv" else "\n"
            odd = {letter for letter in set(shown) if not letter.isprintable() and letter not in allowed}
            assert not odd, (name, odd)
            if name == "GitHub's annotations":  # which are commands: of their own lines, and no more
                shown = re.sub("(?m)^::(?:error|warning|notice) file=", "", shown)
            assert not COMMAND.search(shown), name


def test_every_format_is_among_what_is_looked_at(make_hostile):
    """A module that draws something, and is drawn by no output of the list, would be looked at by nobody."""
    drawn: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            drawn.add(frame.f_code.co_filename)

    hostile = material(make_hostile, CORPUS["one of each"][0])
    sys.setprofile(note)
    try:
        for draw in OUTPUTS.values():
            draw(hostile)
    finally:
        sys.setprofile(None)
    modules = {str(path) for path in Path(formats.__file__).parent.glob("*.py") if path.name != "__init__.py"}
    assert modules - drawn == set()


def test_html_keeps_its_elements_and_shows_the_text(drawn, texts):
    """The same elements and attributes as for a harmless text, nothing that acts, and the text in plain sight."""
    model = Page(drawn("html", BENIGN))
    for text in texts:
        page = Page(drawn("html", text))
        assert page.shape() == model.shape()
        assert page.comments == []
        for tag, attributes in page.elements:
            assert not [name for name in attributes if name.startswith("on") or name in {"src", "style", "action"}]
            assert attributes.get("href") in {None, "data:,"} or attributes["href"].startswith("#"), tag
        assert page.script("") == model.script("")
        assert printable(text).lower() in json.loads(page.script("data"))["nodes"]
        assert " ".join(printable(text)[:100].split()) in " ".join(page.text().split())


def test_markdown_keeps_its_structure(drawn, texts):
    """No heading, link, image, table cell or HTML comes from the text: it stands in code."""
    model = markdown(drawn("markdown", BENIGN))
    for text in texts:
        assert markdown(drawn("markdown", text)) == model


def test_a_prometheus_parser_takes_it(drawn, texts):
    """Every sample once, and the label is the text."""
    for text in texts:
        families = prometheus(drawn("prometheus", text))
        (labels,) = families["preflight_run_info"]
        assert dict(labels)["run"] == printable(text)


def test_a_spreadsheet_finds_no_formula(drawn, texts):
    """Every row has its columns, no field is taken for a formula."""
    for text in texts:
        rows = list(csv.reader(io.StringIO(drawn("csv", text), newline=""), strict=True))
        assert {len(row) for row in rows} == {4}
        assert len(rows) == 6
        for field in (field for row in rows for field in row):
            # Full-width twins count as what they look like.
            assert not unicodedata.normalize("NFKC", field).lstrip().startswith(("=", "+", "-", "@", "\t", "\r"))


def test_nagios_gets_one_line_with_one_bar(drawn, texts):
    """The state first, the figures behind the only bar."""
    for text in texts:
        line = drawn("nagios", text)
        assert line.startswith("PREFLIGHT CRITICAL - ")
        assert line.count("\n") == 1
        assert line.count("|") == 1
        assert re.fullmatch(r"(?: \w+=[0-9.e+-]+s?)+\n", line.partition("|")[2])


def test_lists_of_nodes_hold_names_alone(drawn, texts):
    """What is not a host name is a comment, and never an option, a path or a command."""
    for text in texts:
        for name in ("good", "bad"):
            for line in drawn(name, text).splitlines():
                if not line.startswith("# "):
                    assert len(parse_hosts(line)) == 1
                    assert not line.startswith(("-", "@"))
        exclude = drawn("exclude", text).strip()
        assert set(exclude) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-[],")
        assert len(json.loads(drawn("nodes", text))["bad"]) == 2


def test_xml_and_json_parsers_take_it(drawn, texts):
    """Two XML parsers, and a JSON parser that refuses constants."""
    for text in texts:
        data = drawn("junit", text).encode("utf-8")
        minidom.parseString(data)
        assert ET.fromstring(data).get("tests") == "5"
        json.loads(drawn("json", text), parse_constant=pytest.fail)


def test_a_name_that_is_none_is_never_written_bare(make_hostile):
    """The one place where a text could become an address is closed by the same rules as --hosts."""
    with pytest.raises(UsageError):
        parse_hosts("-oProxyCommand=id")
    hostile = material(make_hostile, "-oProxyCommand=id")
    assert "# not a host name: -oProxyCommand=id" in FORMATS["bad"](hostile)
