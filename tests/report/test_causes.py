"""Is each thing to repair one card, and is no node blamed for what follows from another?"""

from __future__ import annotations

import re

import pytest

from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.report.causes import causes, counts_of_nodes, nodes_text, worst_of_nodes
from preflight.report.document import Counts, NodeInfo

THREE = ("node1", "node2", "node3")


def test_the_messages_of_a_check_share_a_card_and_consequences_come_last(make_report):
    """One card for a check with three messages, one for all checks that a cause blocks."""
    report = make_report(
        *(
            Finding(f"b.c{number}", Verdict.ERROR, THREE, "blocked by a.b on node3: x", blocked_by="a.b")
            for number in range(4)
        ),
        *(
            Finding("a.b", Verdict.ERROR, (name,), f"said {name[-1]}", "do it", (Where("f", 1),))
            for name in reversed(THREE)
        ),
    )
    first, second = causes(report, Verdict.ERROR)
    assert (first.title, first.nodes, first.is_consequence) == ("a.b", THREE, False)
    assert [part.message for part in first.parts] == ["said 3", "said 2", "said 1"]
    assert first.fixes == ("do it",)
    assert first.where == (Where("f", 1),)
    assert (second.title, second.nodes, second.is_consequence) == ("4 checks", THREE, True)
    assert causes(report, Verdict.FAIL) == ()


def test_messages_that_differ_in_the_own_name_alone_are_one(make_report):
    """It is said once, of all of them; a message of several nodes, or of one node only, keeps its names."""
    alike = [Finding("a.b", Verdict.FAIL, (name,), f"{name} has 1500, the others 9000") for name in THREE]
    (cause,) = causes(make_report(*alike), Verdict.FAIL)
    assert [(part.message, part.nodes) for part in cause.parts] == [("<node> has 1500, the others 9000", THREE)]
    (cause,) = causes(make_report(alike[0], Finding("a.b", Verdict.FAIL, THREE[1:], "node2 and node3")), Verdict.FAIL)
    assert [part.message for part in cause.parts] == ["node1 has 1500, the others 9000", "node2 and node3"]


def test_a_set_of_nodes_is_cut_between_two_of_them(make_report):
    """No number reads as another one."""
    names = tuple(f"node{number}" for number in range(100, 200, 3))
    text = nodes_text(make_report(), names, most=60)
    assert re.fullmatch(r"node\[(?:\d{3},)+\.\.\. \(34 nodes\)", text), text


def test_a_waived_fail_is_a_card_among_the_warnings(make_report):
    """It stays in sight, under the verdict that counts."""
    report = make_report(Finding("a.b", Verdict.FAIL, ("node1",), "m", waived=True))
    assert causes(report, Verdict.FAIL) == ()
    assert causes(report, Verdict.WARN)[0].is_waived


def test_the_worst_verdict_of_a_node_is_its_own(planted):
    """What did not start because of node3 is no stain on the others."""
    assert worst_of_nodes(planted) == {"node1": Verdict.PASS, "node2": Verdict.PASS, "node3": Verdict.FAIL}
    assert counts_of_nodes(planted)["node1"] == {
        Verdict.SKIP: 12,
        Verdict.PASS: 31,
        Verdict.WARN: 0,
        Verdict.ERROR: 6,
        Verdict.FAIL: 0,
    }


def test_in_a_run_cut_short_no_node_looks_good(make_report):
    """What was not judged cannot be well."""
    report = make_report(
        Finding("a.b", Verdict.PASS, THREE, "m"),
        verdict=Verdict.ERROR,
        exit_code=3,
        ledger=Counts(expected=6, judged=3, not_asked=0),
    )
    assert set(worst_of_nodes(report).values()) == {Verdict.ERROR}


def test_nodes_are_folded_and_long_lists_cut(make_report):
    """All of three are said so; a list that folds badly keeps its number."""
    report = make_report(size=300)
    assert nodes_text(report, ("node1", "node2"), most=40) == "node[1-2]"
    assert nodes_text(report, report.nodes, most=40) == "all 300 nodes"
    assert nodes_text(report, (), most=40) == "no node"
    cut = nodes_text(report, tuple(report.nodes)[::2], most=40)
    assert cut.endswith("... (150 nodes)")
    assert len(cut) < 44


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ((1, 2, 3), "node[1-3] (switch s1: 3 of 3 nodes)"),
        ((1, 2), "node[1-2] (switch s1: 2 of 3 nodes)"),
        ((1, 4), "node[1,4]"),  # less than half of either
        ((1, 2, 3, 4, 5), "node[1-5]"),  # a part of each rack is no place
        ((1,), "node1"),
    ],
)
def test_nodes_that_are_a_rack_are_told_with_it(make_report, named, text):
    """Where they are most of it, and not of every rack that there is."""
    nodes = {
        f"node{number}": NodeInfo(host="h", address="a", reached=True, rack=f"switch s{1 + (number > 3)}")
        for number in range(1, 10)
    }
    report = make_report(Finding("a.b", Verdict.PASS, tuple(nodes), "m"), nodes=nodes)
    assert nodes_text(report, [f"node{number}" for number in named], most=60) == text
