"""Do errors say and carry what the judge needs of them?"""

from __future__ import annotations

from preflight.said.errors import Blame, BlameMany, BlockedBy, FactMissing


def test_blames_of_different_nodes_stay_apart():
    """Each Blame remains a finding of its own, with its own fix."""
    many = BlameMany([Blame("a", nodes=["node1"], fix="x"), Blame("b", nodes=["node2"], fix="y")])
    assert [(blame.message, blame.nodes, blame.fix) for blame in many.blames] == [
        ("a", ("node1",), "x"),
        ("b", ("node2",), "y"),
    ]


def test_blames_of_one_node_become_one():
    """A node gets one verdict of a check: what is said of it is said together, and of the others as before."""
    many = BlameMany([Blame("a", nodes=["node1", "node3"], fix="x"), Blame("b", nodes=["node3"], fix="y")])
    assert [(blame.message, blame.nodes, blame.fix) for blame in many.blames] == [
        ("a", ("node1",), "x"),
        ("a; b", ("node3",), "x; y"),
    ]


def test_a_consequence_names_its_cause():
    """The message begins with the words by which a consequence is told from a cause."""
    blocked = BlockedBy("network.training_interface_exists", nodes=["node3"], detail="no eth1")
    assert str(blocked) == "blocked by network.training_interface_exists on node3: no eth1"
    assert blocked.kind == "failed"


def test_a_missing_fact_that_is_kept_holds_no_frame():
    """What thousands of nodes lack is held in lists: with the frames that it passed, each would keep those alive."""
    kept = []
    for _ in range(2):
        try:
            raise FactMissing("gpu", "no driver", "absent")
        except FactMissing as missing:
            kept.append(missing.kept())
    assert [(error.__traceback__, str(error), error.kind) for error in kept] == [(None, "gpu: no driver", "absent")] * 2
