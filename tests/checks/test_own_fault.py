"""Is a node that has lost the address it trains on the only one that is named?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.network import Address
from preflight.facts.subjects.peers import Peers
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy
from tests.checks.samples import judge, judge_all, with_interface

LINK_LOCAL = (Address("169.254.77.3", 16, "inet"),)
LOST = {"no answer of DHCP": LINK_LOCAL, "no address": ()}


def of_two_networks(count, *, is_chosen=True):
    """Nodes with full names that were reached over a network of management."""
    run = healthy(count)
    for number, name in enumerate(run.names, 1):
        run = with_interface(run, name, "mgmt0", f"192.168.0.{number}")
        run = run.broken(name, "identity", fqdn=f"{name}.rack.example")
    if is_chosen:
        run = run.with_variables(NCCL_SOCKET_IFNAME="eth0", GLOO_SOCKET_IFNAME="eth0")
    return run


def loses(run, name, held):
    """Its training interface keeps these addresses; the peers ask about the address at which it was reached."""
    run = run.broken_interface(name, "eth0", addresses=held)
    number = run.names.index(name) + 1
    for peer in run.names:
        if peer != name:
            routes = [
                msgspec.structs.replace(route, address=f"192.168.0.{number}", interface="mgmt0")
                if route.name == name
                else route
                for route in run.facts(peer, "peers", Peers).routes
            ]
            run = run.broken(peer, "peers", routes=tuple(routes))
    return run


@pytest.mark.parametrize(
    ("count", "is_chosen"), [(2, True), (4, True), (4, False)], ids=["two", "four", "four by name"]
)
@pytest.mark.parametrize("held", LOST.values(), ids=LOST)
def test_peers_of_a_node_that_lost_its_address_are_left_in_peace(held, count, is_chosen):
    """Names lead to the address it should have, and packets to the one it was reached at leave elsewhere."""
    run = loses(of_two_networks(count, is_chosen=is_chosen), "node2", held)
    told = [one for one in judge_all(run) if one.verdict in (Verdict.FAIL, Verdict.WARN)]
    assert {one.nodes for one in told} == {("node2",)}


def test_a_stale_name_is_told_beside_another_fault_of_the_peer():
    """A peer whose variable names no interface still has its address: the line that leads elsewhere is wrong."""
    run = of_two_networks(4).with_variables("node2", GLOO_SOCKET_IFNAME="eth9")
    routes = [
        msgspec.structs.replace(route, resolved_fqdn=("10.0.0.77",)) if route.name == "node2" else route
        for route in run.facts("node1", "peers", Peers).routes
    ]
    run = run.broken("node1", "peers", routes=tuple(routes))
    told = [one for one in judge("names.full_names_of_peers_lead_to_them", run) if one.verdict is Verdict.WARN]
    assert [one.nodes for one in told] == [("node1",)]


def test_packets_that_leave_astray_are_told_of_the_other_peers():
    """One peer is out; the way to the rest is judged."""
    run = loses(of_two_networks(4, is_chosen=True), "node2", LINK_LOCAL)
    routes = [msgspec.structs.replace(route, interface="mgmt0") for route in run.facts("node1", "peers", Peers).routes]
    run = run.broken("node1", "peers", routes=tuple(routes))
    found = judge("network.routes_to_peers_leave_by_the_training_interface", run)
    told = [(one.nodes, "every peer" in one.message) for one in found if one.verdict is Verdict.WARN]
    assert told == [(("node1",), True)]
