"""Are the best nodes chosen, and is it said why each other one is not?"""

from __future__ import annotations

import pytest

from preflight.judge.ledger.choice import SPARE, UNFINISHED, best_nodes, blameless, concerning
from preflight.judge.ledger.findings import Finding, Verdict

SIX = tuple(f"node{number}" for number in range(1, 7))
RACKS = {"node1": "a", "node2": "b", "node3": "b", "node4": "b", "node5": "c", "node6": "c"}


@pytest.mark.parametrize(
    ("need", "taken"),
    [
        (1, ("node1",)),
        (2, ("node5", "node6")),  # the smallest rack that holds them all
        (3, ("node2", "node3", "node4")),
        (4, ("node1", "node2", "node3", "node4")),
        (5, ("node2", "node3", "node4", "node5", "node6")),
    ],
)
def test_a_job_spans_as_few_racks_as_can_be(need, taken):
    """Of nodes that are equal otherwise."""
    assert best_nodes([], SIX, need, good=SIX, groups=RACKS).nodes == taken


def test_warnings_weigh_more_than_racks_and_what_was_measured_more_than_warnings():
    """A spare without a warning does not take the place of a node that the job ran on."""
    findings = [Finding("a.b", Verdict.WARN, ("node2",), "slow disk")]
    assert best_nodes(findings, SIX, 3, good=SIX, groups=RACKS).nodes == ("node1", "node3", "node4")
    chosen = best_nodes(findings, SIX, 2, good=SIX, first=SIX[1:3])
    assert (chosen.nodes, chosen.is_complete, chosen.left_out["node1"]) == (("node2", "node3"), True, SPARE)


def test_only_what_is_a_nodes_own_is_held_against_it():
    """A consequence is none; a waived fail is a warning."""
    findings = [
        Finding("a.b", Verdict.FAIL, ("node1",), "mtu: 1400"),
        Finding("a.c", Verdict.ERROR, ("node2",), "blocked by a.b", blocked_by="a.b"),
        Finding("a.d", Verdict.FAIL, ("node3",), "old", waived=True),
        Finding("a.e", Verdict.ERROR, ("node4",), "not measured"),
    ]
    good = blameless(findings, SIX)
    assert good == ("node2", "node3", "node5", "node6")
    choice = best_nodes(findings, SIX, 5, good=good)
    assert not choice.is_complete
    assert choice.left_out == {"node1": "fail a.b: mtu: 1400", "node4": "error a.e: not measured"}
    assert best_nodes([], SIX, 1).left_out == dict.fromkeys(SIX, UNFINISHED)


def test_a_verdict_is_of_the_nodes_chosen_and_of_what_concerns_no_node():
    """A fail of a file counts whoever was chosen; without a choice everything does."""
    findings = [Finding("a.b", Verdict.FAIL, (name,) if name else (), "m") for name in ("node1", "node2", "")]
    assert list(concerning(findings, frozenset({"node2"}))) == findings[1:]
    assert list(concerning(findings, frozenset())) == findings


def test_why_a_node_is_left_out_names_its_warnings():
    """What most nodes have sets none apart; a spare without a warning of its own is a spare and no more."""
    findings = [
        Finding("a.b", Verdict.WARN, ("node2", "node3"), "slow disk"),
        Finding("a.c", Verdict.WARN, ("node2",), "old driver"),
        Finding("a.d", Verdict.WARN, SIX, "no swap"),
        Finding("a.e", Verdict.PASS, ("node1",), "fine"),
    ]
    assert best_nodes(findings, SIX, 3, good=SIX[:5]).left_out == {
        "node2": "spare, with warnings: a.b, a.c",
        "node3": "spare, with warnings: a.b",
        "node6": "the run did not measure it to the end",
    }
    assert best_nodes([], SIX, 5, good=SIX).left_out == {"node6": "spare"}


def test_of_nodes_with_warnings_those_next_to_the_ones_taken_are_the_first():
    """Out of the racks that the job is in already, in the order of the hosts, and then no more than it needs."""
    findings = [Finding("a.b", Verdict.WARN, ("node1", "node3", "node4", "node6"), "slow disk")]
    assert best_nodes(findings, SIX, 3, good=SIX, groups=RACKS).nodes == ("node2", "node3", "node5")
    assert best_nodes(findings, SIX, 2, good=SIX, groups=RACKS).nodes == ("node2", "node5")
    assert best_nodes(findings, SIX, 6, good=SIX, groups=RACKS).nodes == SIX
    many = {name: f"rack{number % 4}" for number, name in enumerate((f"n{at}" for at in range(24)), 1)}
    slow = [Finding("a.b", Verdict.WARN, tuple(many)[8:], "slow disk")]
    taken = best_nodes(slow, many, 14, good=many, groups=many).nodes
    assert taken == (*(f"n{at}" for at in range(8)), "n8", "n9", "n12", "n13", "n16", "n20")


def test_nodes_without_a_rack_are_as_one():
    """Where some racks are known and others are not."""
    assert best_nodes([], SIX, 3, good=SIX, groups={"node1": "a", "node2": "b"}).nodes == ("node3", "node4", "node5")
