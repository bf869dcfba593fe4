"""Do curves and columns lie where their figures say, and is every picture named?"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from preflight.report.html.plots import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TITLED_COLUMNS,
    WIDTH,
    Column,
    Point,
    Series,
    column_plot,
    line_plot,
)


def line(*values, **more):
    points = tuple(Point(float(x), y) for x, y in enumerate(values))
    named = {"title": "t", "x_label": "x", "y_label": "y", "x_ticks": [(0.0, "0")]}
    return ET.fromstring(str(line_plot([Series("loss", points)], **named | more)))


def column(place, value=1.0, foot=0.25, mark=1.5):
    return Column(str(place), value, foot, mark, f"rank {place}")


def test_a_curve_goes_through_its_points():
    """From the left edge to the right one, zero at the foot, within the frame."""
    svg = line(0.0, 2.0, 4.0)
    spots = [tuple(map(float, spot.split())) for spot in svg.find("path[@class='curve c0']").get("d")[1:].split("L")]
    assert spots[0] == (LEFT, HEIGHT - BOTTOM)
    assert spots[-1][0] == WIDTH - RIGHT
    assert spots[1][1] == pytest.approx((spots[0][1] + spots[2][1]) / 2, abs=0.1)
    assert svg.get("role") == "img"
    assert svg.get("aria-label") == "t"


@pytest.mark.parametrize("values", [(0.0,), (0.0, 0.0), (1e-9, 2e-9), (1e12, 3e12), (-1.0, 1.0), (5.0, 5.0)])
def test_any_figures_have_a_scale(values):
    """Nothing, one point, tiny, huge and negative ones: every coordinate is inside the picture."""
    svg = line(*values, from_zero=False)
    for spot in svg.find("path[@class='curve c0']").get("d")[1:].split("L"):
        x, y = map(float, spot.split())
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT
    ticks = [float(text.text) for text in svg.findall("text[@class='tick']") if text.get("text-anchor") == "end"]
    assert len(ticks) >= 2
    assert ticks == sorted(ticks)


def test_what_was_expected_is_a_dashed_line_at_its_height():
    """Beyond the curve too: the scale holds both."""
    svg = line(1.0, 2.0, reference=8.0)
    height = float(re.match(r"M\d+ ([0-9.]+)H", svg.find("path[@class='expected']").get("d"))[1])
    top = min(float(spot.split()[1]) for spot in svg.find("path[@class='curve c0']").get("d")[1:].split("L"))
    assert height < top


def test_columns_stand_on_the_ground_and_their_parts_on_each_other():
    """The foot ends where the rest begins; a title tells the figures of each."""
    svg = ET.fromstring(str(column_plot([column(0), column(1)], title="t", x_label="x", y_label="y")))
    whole, foot = (svg.find(f"path[@class='column {kind}']").get("d") for kind in ("whole", "foot"))
    assert float(foot.split("z")[0].split("h")[0].split()[1]) == HEIGHT - BOTTOM
    assert foot.split("V")[1].split("h")[0] == whole.split("h")[0].split()[1]
    assert [title.text for title in svg.iter("title")] == ["rank 0", "rank 1"]


def test_thousands_of_columns_are_three_paths():
    """A title each would weigh more than the figures."""
    columns = [column(place) for place in range(TITLED_COLUMNS + 1)]
    svg = ET.fromstring(str(column_plot(columns, title="t", x_label="x", y_label="y")))
    assert list(svg.iter("title")) == []
    assert len([text for text in svg.findall("text[@class='tick']") if text.get("text-anchor") == "middle"]) <= 17


def test_no_column_is_narrower_than_a_pixel_and_the_slowest_stays():
    """Of neighbours that share one, the slowest is drawn."""
    columns = [column(place) for place in range(2000)]
    columns[777] = replace(columns[777], value=9.0)
    svg = ET.fromstring(str(column_plot(columns, title="t", x_label="x", y_label="y")))
    whole = svg.find("path[@class='column whole']").get("d")
    assert whole.count("z") == 334
    tops = Counter(box.split("V")[1].split("h")[0] for box in whole.split("z")[:-1])
    assert min(tops.items(), key=lambda item: float(item[0]))[1] == 1
