"""Is every format valid and inert whatever text stands in every field?"""

from __future__ import annotations

import csv
import io
import json
import re
from xml.dom import minidom
from xml.etree import ElementTree as ET

import pytest

from preflight.errors import UsageError
from preflight.hosts import parse_hosts
from preflight.report import FORMATS
from preflight.report.material import Material
from preflight.report.printable import printable
from preflight.report.text import summary
from tests.report.hostile import CORPUS
from tests.report.readers import Page, markdown, prometheus

BENIGN = "benign"
COMMAND = re.compile(r"^\s*::[A-Za-z-]*[g-zG-Z]|##[A-Za-z]*\[", re.MULTILINE)


def material(make_hostile, text):
    return Material(
        make_hostile(text),
        {text: {text: text, "torch": "2"}, "node1": {text: "x", "torch": text}},
        {text: f"log {text}"},
    )


@pytest.fixture
def benign(make_hostile):
    """The same fields with a text that wants nothing."""
    return material(make_hostile, BENIGN)


@pytest.fixture(params=range(len(CORPUS)), ids=[f"payload{number}" for number in range(len(CORPUS))])
def text(request):
    """One hostile text."""
    return CORPUS[request.param]


def test_there_are_enough_of_them():
    """Two hundred different texts, and more."""
    assert len(set(CORPUS)) >= 200


def test_no_format_holds_a_control_character_or_a_command(make_hostile, text):
    """Bytes that move a cursor, reorder text or speak to a CI system reach no format at all."""
    hostile = material(make_hostile, text)
    for name in (*FORMATS, "text"):
        shown = summary(hostile.report) if name == "text" else FORMATS[name](hostile)
        shown.encode("utf-8")
        allowed = "\r\n" if name == "csv" else "\n"
        assert all(letter.isprintable() or letter in allowed for letter in shown), name
        assert not COMMAND.search(shown), name


def test_html_keeps_its_elements_and_shows_the_text(make_hostile, benign, text):
    """The same elements and attributes as for a harmless text, nothing that acts, and the text in plain sight."""
    page = Page(FORMATS["html"](material(make_hostile, text)))
    model = Page(FORMATS["html"](benign))
    assert page.shape() == model.shape()
    assert page.comments == []
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name in {"src", "style", "action"}]
        assert attributes.get("href") in {None, "data:,"} or attributes["href"].startswith("#"), tag
    assert page.script("") == model.script("")
    assert "printable" not in page.script("data")
    assert printable(text).lower() in json.loads(page.script("data"))["nodes"]
    assert " ".join(printable(text)[:100].split()) in " ".join(page.text().split())


def test_markdown_keeps_its_structure(make_hostile, benign, text):
    """No heading, link, image, table cell or HTML comes from the text: it stands in code."""
    pytest.importorskip("markdown_it")
    assert markdown(FORMATS["markdown"](material(make_hostile, text))) == markdown(FORMATS["markdown"](benign))


def test_a_prometheus_parser_takes_it(make_hostile, text):
    """Every sample once, and the label is the text."""
    families = prometheus(FORMATS["prometheus"](material(make_hostile, text)))
    (labels,) = families["preflight_run_info"]
    assert dict(labels)["run"] == printable(text)


def test_a_spreadsheet_finds_no_formula(make_hostile, text):
    """Every row has its columns, no field is taken for a formula."""
    rows = list(csv.reader(io.StringIO(FORMATS["csv"](material(make_hostile, text)), newline=""), strict=True))
    assert {len(row) for row in rows} == {4}
    assert len(rows) == 6
    for field in (field for row in rows for field in row):
        assert not field.lstrip().startswith(("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"))


def test_nagios_gets_one_line_with_one_bar(make_hostile, text):
    """The state first, the figures behind the only bar."""
    line = FORMATS["nagios"](material(make_hostile, text))
    assert line.startswith("PREFLIGHT CRITICAL - ")
    assert line.count("\n") == 1
    assert line.count("|") == 1
    assert re.fullmatch(r"(?: \w+=[0-9.e+-]+s?)+\n", line.partition("|")[2])


def test_lists_of_nodes_hold_names_alone(make_hostile, text):
    """What is no host name is a comment, and never an option, a path or a command."""
    hostile = material(make_hostile, text)
    for name in ("good", "bad"):
        for line in FORMATS[name](hostile).splitlines():
            if not line.startswith("# "):
                assert len(parse_hosts(line)) == 1
                assert not line.startswith(("-", "@"))
    exclude = FORMATS["exclude"](hostile).strip()
    assert set(exclude) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-[],")
    assert len(json.loads(FORMATS["nodes"](hostile))["bad"]) == 2


def test_xml_and_json_parsers_take_it(make_hostile, text):
    """Two XML parsers, and a JSON parser that refuses constants."""
    hostile = material(make_hostile, text)
    data = FORMATS["junit"](hostile).encode("utf-8")
    minidom.parseString(data)
    assert ET.fromstring(data).get("tests") == "5"
    json.loads(FORMATS["json"](hostile), parse_constant=pytest.fail)


def test_a_name_that_is_none_is_never_written_bare(make_hostile):
    """The one place where a text could become an address is closed by the same rules as --hosts."""
    with pytest.raises(UsageError):
        parse_hosts("-oProxyCommand=id")
    hostile = material(make_hostile, "-oProxyCommand=id")
    assert "# not a host name: -oProxyCommand=id" in FORMATS["bad"](hostile)
