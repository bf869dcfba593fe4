"""Has every check a row, every node a cell, and is the packed form the same again?"""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.report.matrix import LETTERS, packed, racks_in_order, rows


def test_the_worst_checks_come_first_and_each_node_has_its_cell(planted):
    """A cell holds what was judged of that node; nothing where nobody judged."""
    table = rows(planted)
    assert table[0].check == "network.mtu_is_the_same_on_every_node"
    assert table[0].cells == (Verdict.PASS, Verdict.PASS, Verdict.FAIL)
    assert [row.verdict for row in table[1:7]] == [Verdict.ERROR] * 6
    assert table[-1].verdict is Verdict.SKIP
    assert len(table) == 49


def test_a_finding_of_no_node_has_a_row_without_cells(make_report):
    """Launch files belong to no node; a waived fail shows as a warn, an unjudged cell as nothing."""
    table = rows(
        make_report(
            Finding("launch.port", Verdict.FAIL, (), "ports differ"),
            Finding("a.b", Verdict.FAIL, ("node2",), "m", waived=True),
        )
    )
    assert table[0].cells == (None, None, None)
    assert (table[1].verdict, table[1].cells) == (Verdict.WARN, (None, Verdict.WARN, None))


@given(st.lists(st.sampled_from([None, *Verdict]), max_size=60))
def test_packing_loses_nothing(cells):
    """Unpacked as the page's script does it, every cell is there again."""
    text = packed(tuple(cells))
    unpacked = "".join(letter * int(count or 1) for count, letter in re.findall(r"(\d*)(\D)", text))
    assert unpacked == "".join(LETTERS[cell] for cell in cells)


@pytest.mark.parametrize(
    ("racks", "wanted"),
    [
        (("r1", "r1", "r2"), (("r1", 2), ("r2", 1))),
        (("r1", "r2", "r1"), ()),  # they do not lie together
        (("r1", "", "r2"), ()),  # one is not known
        (("r1", "r1", "r1"), ()),  # there is nothing to tell apart
    ],
)
def test_racks_are_drawn_where_each_is_one_piece_of_a_row(make_report, racks, wanted):
    """Else a name above the band would stand over nodes of another rack."""
    report = make_report()
    placed = zip(report.nodes.items(), racks, strict=True)
    nodes = {name: msgspec.structs.replace(info, rack=rack) for (name, info), rack in placed}
    assert racks_in_order(msgspec.structs.replace(report, nodes=nodes)) == wanted
