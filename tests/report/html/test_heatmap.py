"""Does the square of pairs show the slow one, and the one without a connection?"""

from __future__ import annotations

from xml.etree import ElementTree as ET

import msgspec

from preflight.facts.results import Edge, Mesh, Stream
from preflight.report.html.heatmap import heat_map, legend, pairs, shared, usual

THREE = ("node1", "node2", "node3")


def all_pairs(names, slow="", figure=0.2):
    return tuple(
        Stream(source=a, target=b, shift=1, gbytes_per_s=figure if slow in (a, b) else 1.0)
        for a in names
        for b in names
        if a != b
    )


def test_a_slow_node_stands_out_among_three(bench):
    """Most pairs are slow then; the median of each node's best stream is still the usual one."""
    found = pairs(msgspec.structs.replace(bench, streams=all_pairs(THREE, slow="node3")), None)
    assert {(pair.source, pair.target): pair.kind for pair in found} == {
        ("node1", "node2"): "h5", ("node2", "node1"): "h5", ("node1", "node3"): "h1",
        ("node3", "node1"): "h1", ("node2", "node3"): "h1", ("node3", "node2"): "h1",
    }  # fmt: skip
    assert found[0].kind == "h1"


def test_a_failed_connection_is_no_figure(bench):
    """It outweighs a stream between the same nodes, and needs no bench."""
    mesh = Mesh(edges=6, ok=5, failed=(Edge(source="node1", target="node2", port=40001, reason="filtered"),))
    assert pairs(None, mesh)[0].reason == "filtered"
    assert [p.kind for p in pairs(msgspec.structs.replace(bench, streams=all_pairs(THREE)), mesh)].count("hx") == 1
    assert pairs(None, None) == ()


def test_rows_send_and_columns_receive(bench):
    """The cell of a pair lies in the row of its source; each has its words."""
    streams = (
        Stream(source="node1", target="node3", shift=1, gbytes_per_s=0.1),
        Stream(source="node2", target="node1", shift=1, gbytes_per_s=1.0),
        Stream(source="node3", target="node2", shift=1, gbytes_per_s=1.0),
    )
    svg = ET.fromstring(str(heat_map(THREE, pairs(msgspec.structs.replace(bench, streams=streams), None))))
    (slow,) = [path for path in svg.iter("path") if path.get("class") == "h1"]
    x, y = map(float, slow.get("d")[1:].split("h")[0].split())
    others = [path.get("d")[1:].split("h")[0].split() for path in svg.iter("path") if path.get("class") == "h5"]
    assert x > max(float(other[0]) for other in others)
    assert y < min(float(other[1]) for other in others)
    assert "node1 to node3: 0.1 GB/s" in [title.text for title in svg.iter("title")]


def test_hundreds_of_nodes_are_a_path_a_class(bench):
    """No names, no titles; a slow pair is drawn large enough to be seen."""
    names = tuple(f"node{number}" for number in range(200))
    streams = tuple(
        Stream(source=name, target=names[(at + 1) % 200], shift=1, gbytes_per_s=0.1 if at == 7 else 1.0)
        for at, name in enumerate(names)
    )
    svg = ET.fromstring(str(heat_map(names, pairs(msgspec.structs.replace(bench, streams=streams), None))))
    assert list(svg.iter("title")) == []
    ticks = [text.text for text in svg.iter("text") if text.get("class") == "tick"]
    assert ticks[:4] == ["node0", "node0", "node20", "node20"]
    shapes = {path.get("class"): path.get("d") for path in svg.iter("path")}
    assert shapes["h1"].count("z") == 1
    assert "h3v3h-3z" in shapes["h1"]
    assert shapes["h5"].count("z") == 199


def test_what_was_not_measured_has_a_key_and_figures_have_their_unit(bench):
    """A blank cell would read as fine."""
    streams = (Stream(source="node1", target="node2", shift=1, gbytes_per_s=1.0),)
    found = pairs(msgspec.structs.replace(bench, streams=streams), None)
    svg = ET.fromstring(str(heat_map(THREE, found)))
    assert legend(THREE, found)[-1] == ("h0", "not measured")
    assert svg.find("path[@class='h0']").get("d").count("z") == 5
    assert "receives (GB/s)" in [text.text for text in svg.iter("text")]
    assert usual(found) == 1.0
    whole = pairs(msgspec.structs.replace(bench, streams=all_pairs(THREE)), None)
    assert "not measured" not in dict(legend(THREE, whole)).values()


def test_names_that_differ_in_their_middle_are_not_cut_there(bench):
    """Long ones lose what all of them have in common."""
    names = tuple(f"compute-cluster-prod-rack{n}-gpu.eu-west.internal.example.com" for n in (1, 12))
    svg = ET.fromstring(str(heat_map(names, pairs(msgspec.structs.replace(bench, streams=all_pairs(names)), None))))
    ticks = {text.text for text in svg.iter("text") if text.get("class") == "tick"}
    assert ticks == {"…rack1…", "…rack12…"}


def test_thousands_of_nodes_share_cells_that_show_their_worst_pair(bench):
    """No cell is finer than a screen, and one slow pair among thousands still has its own."""
    names = tuple(f"node{number}" for number in range(2000))
    streams = tuple(
        Stream(source=name, target=names[(at + 3) % 2000], shift=3, gbytes_per_s=0.1 if at == 777 else 1.0)
        for at, name in enumerate(names)
    )
    assert shared(names) == 9
    svg = ET.fromstring(str(heat_map(names, pairs(msgspec.structs.replace(bench, streams=streams), None))))
    shapes = {path.get("class"): path.get("d") for path in svg.iter("path")}
    assert shapes["h1"].count("z") == 1
    assert shapes["h5"].count("z") < 2000 / 9 * 2 + 1
    assert shared(names[:200]) == 1
