"""Tests of preflight.judge.tables.network.peer_routes."""

from __future__ import annotations

import pytest

from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy
from tests.checks.samples import judge, with_route

CHECK = "network.routes_to_peers_leave_by_the_training_interface"
NO_WAY = {"interface": Missing("no route"), "source": Missing("no route"), "refused": "a blackhole route"}
FOREIGN = {"address": "10.9.9.9", "refused": "there is no route"}


def told(run):
    """What is said of whom, passes left out."""
    found = [one for one in judge(CHECK, run) if one.verdict not in (Verdict.PASS, Verdict.SKIP)]
    return [(one.verdict, one.nodes, one.message) for one in found]


def test_a_peer_that_is_kept_away_is_a_failure_of_the_node_that_keeps_it():
    """The kernel says what it has in place of a route."""
    ((verdict, nodes, message),) = told(with_route(healthy(), "node1", "node2", **NO_WAY))
    assert (verdict, nodes) == (Verdict.FAIL, ("node1",))
    assert message.startswith("packets to node2 do not leave: a blackhole route")


def test_a_peer_of_a_foreign_network_is_not_the_fault_of_those_who_do_not_know_it():
    """No node has a way to its address: what is wrong is the address."""
    run = healthy()
    for node in run.names:
        if node != "node2":
            run = with_route(run, node, "node2", **{**NO_WAY, **FOREIGN})
    assert {verdict for verdict, _, _ in told(run)} == {Verdict.ERROR}


def test_one_node_without_a_way_to_a_network_that_others_reach_is_at_fault():
    """Behind routers each node has a network of its own."""
    run = with_route(healthy(), "node1", "node2", **{**NO_WAY, **FOREIGN})
    run = with_route(run, "node3", "node2", address="10.9.9.9")
    assert [(verdict, nodes) for verdict, nodes, _ in told(run)] == [(Verdict.FAIL, ("node1",))]


@pytest.mark.parametrize(
    ("size", "words"),
    [(-200, "are cut to"), (500, "by the MTU of their route"), (64036, "leave by another interface"), (0, "")],
)
def test_the_size_of_packets_tells_what_a_route_does(size, words):
    """One that is smaller than the interface's cuts them; a larger one lets through what the interface loses."""
    run = healthy()
    whole = next(one for one in run.cluster["node1"].network.interfaces if one.name == "eth0").mtu
    found = told(with_route(run, "node1", "", mtu=whole + size))
    assert [(verdict, words in message) for verdict, _, message in found] == ([(Verdict.WARN, True)] if words else [])


def test_what_an_overlay_takes_on_every_node_is_no_fault():
    """As where the routes of pods leave room for its headers."""
    run = healthy()
    for node in run.names:
        run = with_route(run, node, "", mtu=1300)
    assert told(run) == []


CARDS = "network.peers_are_taken_for_their_own_cards"
OWN, OTHER = "02:00:0a:00:00:02", "12:34:56:78:9a:bc"


@pytest.mark.parametrize(
    ("first", "third", "blamed"),
    [(OTHER, OWN, ["node1"]), (OWN, OWN, []), (OTHER, OTHER, []), (OTHER[:-3], OWN, [])],
)
def test_a_neighbour_is_wrong_where_another_node_has_it_right(first, third, blamed):
    """A cloud answers for every machine with one address; what is cut short is not compared."""
    run = with_route(with_route(healthy(), "node1", "node2", card=first), "node3", "node2", card=third)
    found = [one for one in judge(CARDS, run) if one.verdict is Verdict.WARN]
    assert [node for one in found for node in one.nodes] == blamed


@pytest.mark.parametrize("written", [False, True])
def test_a_card_that_answers_for_several_peers_is_a_proxys(written):
    """A cloud's, a router's, or that of guests' host: another guest of the same host sees the peer's own card."""
    run = with_route(healthy(), "node1", "node2", card=OTHER, is_written=written)
    run = with_route(with_route(run, "node3", "node2", card=OWN), "node2", "node1", card=OTHER, is_written=written)
    assert [one for one in judge(CARDS, run) if one.verdict is Verdict.WARN] == []
