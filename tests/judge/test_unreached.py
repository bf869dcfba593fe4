"""Is what many nodes have in common said once, with their rack where it is one?"""

from __future__ import annotations

from preflight.judge.unreached import losses

RACKS = {**dict.fromkeys(("n1", "n2", "n3"), "switch s1"), **dict.fromkeys(("n4", "n5", "n10"), "switch s2")}


def silent(name):
    """What ssh says of a node without power."""
    return f"no answer on the ssh port (ssh: Connection timed out); check that {name} is up"


def test_reasons_that_differ_in_the_nodes_own_name_are_one():
    """A single node keeps its name; n1 is no part of n10."""
    found = losses({name: silent(name) for name in ("n1", "n10")}, {})
    assert [(loss.nodes, loss.message) for loss in found] == [(("n1", "n10"), f"not reached: {silent('<node>')}")]
    (one,) = losses({"n1": silent("n1")}, RACKS)
    assert one.message == f"not reached: {silent('n1')}"


def test_a_dead_switch_is_one_thing_and_the_other_nodes_are_another():
    """Most of a rack is its switch or its power; one node of another rack is its own."""
    lost = {name: silent(name) for name in ("n1", "n2", "n3", "n4")} | {"n5": "login refused"}
    found = losses(lost, RACKS)
    assert [loss.nodes for loss in found] == [("n1", "n2", "n3"), ("n4",), ("n5",)]
    assert found[0].message.startswith("switch s1: 3 of 3 nodes not reached: no answer")
    assert [loss.message for loss in found[1:]] == [f"not reached: {silent('n4')}", "not reached: login refused"]


def test_what_cost_most_racks_is_said_once():
    """A dead switch above them is one thing, and not one for each rack; two of many racks are each their own.

    Where nobody answers at all, it may be the machine that asks.
    """
    racks = {f"n{number}": f"rack {number % 40}" for number in range(160)}
    (found,) = losses({name: silent(name) for name in racks}, racks)
    assert (len(found.nodes), found.rack) == (160, "")
    (alone,) = losses({name: silent(name) for name in ("n1", "n2")}, {"n1": "rack 1", "n2": "rack 1"})
    assert (alone.nodes, alone.rack) == (("n1", "n2"), "")
    two = {name: silent(name) for name, rack in racks.items() if rack in ("rack 3", "rack 4")}
    assert {loss.rack for loss in losses(two, racks)} == {"rack 3", "rack 4"}
