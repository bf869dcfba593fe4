"""Does a spreadsheet get one line a check and one column a node?"""

from __future__ import annotations

import csv
import io

from preflight.report.formats.csv import matrix_csv
from preflight.report.material import Material


def test_checks_are_lines_and_nodes_are_columns(planted):
    """Read back by another parser, with the header first and RFC 4180's line ends."""
    text = matrix_csv(Material(planted))
    lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert lines[0] == ["check", "verdict", "node1", "node2", "node3"]
    assert lines[1] == ["network.mtu_is_the_same_on_every_node", "fail", "pass", "pass", "fail"]
    assert len(lines) == 50
    assert text.count("\r\n") == text.count("\n") == 50
