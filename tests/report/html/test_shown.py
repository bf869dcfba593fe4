"""Does the template get what the report holds, and the script the matrix?"""

from __future__ import annotations

import json

import pytest

from preflight.judge.ledger.findings import Verdict
from preflight.report.html.shown import CELLS_UP_TO, shown
from preflight.report.language import chosen
from preflight.report.material import Material


def test_the_data_of_the_script_is_the_matrix(planted):
    """Names and packed cells, as plain JSON."""
    data = json.loads(str(shown(Material(planted))["data"]))
    assert data["nodes"] == ["node1", "node2", "node3"]
    assert data["rows"][0] == ["f", "2pf"]
    assert len(data["rows"]) == 49


def test_the_data_of_the_script_cannot_end_its_element(make_report):
    """A node called </script> is escaped, and read back as it is."""
    (node,) = make_report(size=1).nodes.values()
    text = str(shown(Material(make_report(nodes={"</script>": node})))["data"])
    assert "<" not in text
    assert json.loads(text)["nodes"] == ["</script>"]


@pytest.mark.parametrize(("count", "has_cells"), [(CELLS_UP_TO, True), (CELLS_UP_TO + 1, False)])
def test_only_a_few_nodes_get_a_column_each(make_report, count, has_cells):
    """More of them become a band."""
    assert shown(Material(make_report(size=count)))["has_cells"] is has_cells


def test_the_row_of_a_check_names_what_stands_out(planted):
    """Nodes of what failed, and how many passed; in Chinese too."""
    values = shown(Material(planted))
    failed = next(row for row in values["rows"] if row.verdict is Verdict.FAIL)
    assert values["summary"](failed) == "fail node3 · pass 2"
    chinese = shown(Material(planted, language=chosen("zh", {})))
    assert chinese["summary"](failed) != values["summary"](failed)
