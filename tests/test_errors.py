"""Do errors say and carry what the judge needs of them?"""

from __future__ import annotations

from preflight.errors import Blame, BlameMany, BlockedBy


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
