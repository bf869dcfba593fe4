"""Is a lonely fail seen in a band of many nodes?"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.report.html.strip import HEIGHT, SHAPES, rack_head, strip
from preflight.report.matrix import Row


def drawn(*cells):
    row = Row("a.b", Verdict.FAIL, cells, (Finding("a.b", Verdict.FAIL, (), "m"),))
    svg = ET.fromstring(str(strip(row)))
    boxes = {path.get("class"): re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h", path.get("d")) for path in svg}
    return {kind: [tuple(map(float, box)) for box in found] for kind, found in boxes.items()}


def test_neighbours_of_one_verdict_are_one_box():
    """Ten nodes, three boxes, at their places."""
    boxes = drawn(*[Verdict.PASS] * 4, Verdict.FAIL, *[Verdict.PASS] * 5)
    assert [(left, wide) for left, _, wide, _ in boxes["p"]] == [(0, 4), (5, 5)]
    assert boxes["f"] == [(4, 0, 1, HEIGHT)]


def test_one_among_thousands_is_wide_enough_and_stays_inside():
    """At both ends too; what passes is never drawn larger than it is."""
    for place in (0, 1999, 1000):
        cells = [Verdict.PASS] * 2000
        cells[place] = Verdict.FAIL
        ((left, _, wide, _),) = drawn(*cells)["f"]
        assert wide == 16
        assert 0 <= left <= place <= left + wide <= 2000
    assert drawn(*[Verdict.WARN] * 1999, Verdict.PASS)["p"][0][2] == 1


def test_each_verdict_has_its_own_height():
    """The shape tells them apart where colours do not; what nobody judged is not drawn."""
    assert len(set(SHAPES.values())) == len(SHAPES) == len(Verdict)
    assert drawn(None, None) == {"p": [], "s": [], "w": [], "e": [], "f": []}


def test_what_alternates_among_thousands_is_drawn_no_finer_than_a_screen_shows():
    """Every second of 8,000 nodes fails: no box for each of them."""
    boxes = drawn(*[Verdict.PASS, Verdict.FAIL] * 4000)
    assert boxes["f"] == [(0, 0, 8000, HEIGHT)]
    assert len(boxes["p"]) == 1


def test_racks_stand_above_the_bands_where_they_begin():
    """A line for each at its share of the width, and as many names as there is room for; text stays text."""
    drawn = ET.fromstring(str(rack_head((("r1", 1), ("r<2", 3), *((f"s{n}", 4) for n in range(15))))))
    lines = [line.get("x1") for line in drawn.iter("line")]
    assert lines[:3] == ["0%", "1.562%", "6.25%"]
    assert len(lines) == 17
    assert [text.text for text in drawn.iter("text")] == ["r1", "s1", "s4", "s7", "s10", "s13"]
    assert "r&lt;2" in str(rack_head((("r1", 1), ("r<2", 3))))
