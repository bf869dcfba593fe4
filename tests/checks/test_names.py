"""Is every name that leads astray found, on the node where it does, and once?"""

from __future__ import annotations

import pytest

from preflight.facts.values import Missing
from preflight.findings import Verdict
from tests.checks.cluster import Broken, debian_name, ethernet, judge, resolves

BROKEN = (
    Broken(
        "names.own_hostname_is_not_loopback",
        debian_name(ethernet(), "node3"),
        ("node3",),
        "own hostname resolves to 127.0.1.1",
    ),
    Broken(
        "names.own_hostname_is_an_address_of_the_node",
        ethernet().change("node2", "identity", hostname_address="10.9.9.9", hostname_addresses=("10.9.9.9",)),
        ("node2",),
        "node2 is 10.9.9.9, which no interface there has",
    ),
    Broken(
        "names.own_hostname_is_an_address_of_the_node",
        ethernet().change("node2", "identity", hostname_address=Missing("unknown"), hostname_addresses=()),
        ("node2",),
        "does not resolve there",
    ),
    Broken(
        "names.hostnames_are_unique",
        ethernet().change("node2", "identity", hostname="debian").change("node3", "identity", hostname="debian"),
        ("node2", "node3"),
        "several nodes call themselves debian",
    ),
    Broken(
        "names.peers_are_taken_for_themselves",
        resolves(ethernet(), "node1", "node2", "10.0.0.77"),
        ("node1",),
        "node2 is 10.0.0.77 there, not 10.0.0.2",
    ),
    Broken(
        "names.peers_are_taken_for_themselves",
        resolves(ethernet(), "node1", "node2", "127.0.0.1"),
        ("node1",),
        "node2 is 127.0.0.1 there",
    ),
    Broken("names.peers_can_be_resolved", resolves(ethernet(), "node1", "node2"), ("node1",), "hostname of node2"),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to mend it."""
    broken.assert_named()


def test_the_fix_is_the_line_to_change():
    """For one node, the fix says which line of /etc/hosts becomes which."""
    findings = judge("names.own_hostname_is_not_loopback", debian_name(ethernet(), "node3"))
    (failed,) = [finding for finding in findings if finding.verdict is Verdict.FAIL]
    assert "replace `127.0.1.1 node3` by `10.0.0.3 node3`" in failed.fix


def test_many_debian_machines_are_one_finding():
    """Nodes with the same fault are told together."""
    run = ethernet()
    for name in run.names:
        debian_name(run, name)
    (finding,) = judge("names.own_hostname_is_not_loopback", run)
    assert (finding.verdict, finding.nodes) == (Verdict.FAIL, run.names)


def test_gloo_does_not_ask_for_the_hostname_where_it_is_given_an_interface():
    """With GLOO_SOCKET_IFNAME a hostname of 127.0.1.1 breaks nothing."""
    run = debian_name(ethernet(), "node3").environment(GLOO_SOCKET_IFNAME="eth0")
    for name in ("names.own_hostname_is_not_loopback", "names.own_hostname_is_an_address_of_the_node"):
        assert {finding.verdict for finding in judge(name, run)} == {Verdict.PASS}


def test_doubled_hostnames_are_not_wrong_addresses_too():
    """Who shares its hostname resolves its peer to itself: the consequence of one cause."""
    run = ethernet(2).change("node2", "identity", hostname="node1")
    resolves(run, "node1", "node2", "10.0.0.1")
    findings = judge("names.peers_are_taken_for_themselves", run)
    assert {finding.verdict for finding in findings} == {Verdict.ERROR}
    assert {finding.message.split(":")[0] for finding in findings} == {"blocked by names.hostnames_are_unique"}
