"""Is what launch files ask for shown with its lines, and every rank with its place?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.report.html.page import html_text
from preflight.report.material import Material
from preflight.report.plan import launches, seats
from tests.report.readers import Page

PLAN = {
    "launches": [
        {
            "launcher": "torchrun",
            "file": "run.sh",
            "line": 3,
            "nodes": {"value": 2, "file": "run.sh", "line": 4, "origin": "written"},
            "backend": {"value": "nccl", "file": "run.sh", "line": 3, "origin": "tool"},
            "node_rank": {"unknown": "$SLURM_NODEID", "file": "run.sh", "line": 5},
            "environment": {"NCCL_DEBUG": "INFO"},
            "command": "torchrun --nnodes=2 train.py",
        }
    ],
    "ranks": [{"rank": 0, "node": "node1", "local_rank": 0, "device": "cuda:0", "interface": "eth0", "address": ""}],
}


def test_each_value_has_its_line_and_says_where_it_is_a_default_or_unknown():
    """A person finds the line to change."""
    (launch,) = launches(PLAN)
    assert launch.title == "torchrun in run.sh:3"
    assert launch.fields == (
        ("nodes", "2", "run.sh:4"),
        ("backend", "nccl (default)", "run.sh:3"),
        ("node rank", "$SLURM_NODEID (known when it runs)", "run.sh:5"),
    )
    assert launch.variables == (("NCCL_DEBUG", "INFO"),)
    assert seats(PLAN) == (("0", "node1", "0", "cuda:0", "eth0", ""),)


@pytest.mark.parametrize("plan", [{}, {"launches": None}, {"launches": [1, {}], "ranks": [None, {}]}, {"ranks": "x"}])
def test_a_plan_of_another_shape_breaks_no_page(planted, plan):
    """What is not understood is left out."""
    assert "NO-GO" in Page(html_text(Material(msgspec.structs.replace(planted, plan=plan)))).text()


def test_the_page_shows_it(planted):
    """In a part of its own, with a link to it."""
    page = Page(html_text(Material(msgspec.structs.replace(planted, plan=PLAN))))
    text = " ".join(page.text().split())
    assert "What every rank will see rank node local rank device interface address 0 node1 0 cuda:0 eth0" in text
    assert ("a", {"href": "#plan"}) in page.elements
