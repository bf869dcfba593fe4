"""Is every name that leads astray found, on the node where it does, and once?"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from preflight.facts.subjects.network import Address, Rule, Unreached
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy, roce
from tests.checks.samples import Broken, debian_name, judge, looks_up, resolves

BROKEN = (
    Broken(
        "names.own_hostname_is_no_link_local_address",
        healthy().broken("node2", "identity", hostname_addresses=("fe80::1%eth0", "10.0.0.2")),
        ("node2",),
        "node2 leads to fe80::1%eth0 there first",
    ),
    Broken(
        "names.own_hostname_is_not_loopback",
        debian_name(healthy(), "node3"),
        ("node3",),
        "own hostname resolves to 127.0.1.1",
    ),
    Broken(
        "names.own_hostname_is_an_address_of_the_node",
        healthy().broken("node2", "identity", hostname_address="10.9.9.9", hostname_addresses=("10.9.9.9",)),
        ("node2",),
        "node2 is 10.9.9.9, which no interface there has",
    ),
    Broken(
        "names.own_hostname_is_an_address_of_the_node",
        healthy().broken("node2", "identity", hostname_address=Missing("unknown"), hostname_addresses=()),
        ("node2",),
        "does not resolve there",
    ),
    Broken(
        "names.hostnames_are_unique",
        healthy().broken("node2", "identity", hostname="debian").broken("node3", "identity", hostname="debian"),
        ("node2", "node3"),
        "several nodes call themselves debian",
    ),
    Broken(
        "names.peers_are_taken_for_themselves",
        resolves(healthy(), "node1", "node2", "10.0.0.77"),
        ("node1",),
        "node2 is 10.0.0.77 there, not 10.0.0.2",
    ),
    Broken(
        "names.peers_are_taken_for_themselves",
        resolves(healthy(), "node1", "node2", "127.0.0.1"),
        ("node1",),
        "node2 is 127.0.0.1 there",
    ),
    Broken(
        "names.localhost_is_the_node_itself",
        roce().broken_interface("node3", "lo", is_up=False),
        ("node3",),
        "lo is down: nothing on this node reaches 127.0.0.1",
    ),
    Broken(
        "names.own_hostname_is_not_localhost",
        debian_name(healthy(), "node3").broken("node3", "identity", hostname="localhost"),
        ("node3",),
        "the node calls itself localhost",
    ),
    Broken(
        "names.short_hostnames_are_unique",
        healthy().broken("node2", "identity", hostname="gpu.a").broken("node3", "identity", hostname="gpu.b"),
        ("node2", "node3"),
        "gpu.a, gpu.b are all gpu",
    ),
    Broken(
        "names.every_node_speaks_one_address_family",
        healthy().broken_interface("node3", addresses=(Address("2001:db8::3", 64, "inet6"),)),
        ("node3",),
        "IPv4 on node[1-2], IPv6 on node3",
    ),
    Broken(
        "names.every_node_speaks_one_address_family",
        healthy().broken("node3", "identity", hostname_address="2001:db8::3", hostname_addresses=("2001:db8::3",)),
        ("node3",),
        "address family of the node's own hostname: IPv4 on node[1-2], IPv6 on node3",
    ),
    Broken(
        "names.full_names_of_peers_lead_to_them",
        looks_up(healthy().broken("node2", "identity", fqdn="node2.rack.example"), "node1", "node2", resolved_fqdn=()),
        ("node1",),
        "cannot resolve node2.rack.example",
    ),
    Broken(
        "names.full_names_of_peers_lead_to_them",
        looks_up(
            healthy().broken("node2", "identity", fqdn="node2.rack.example"),
            *("node1", "node2"),
            resolved_fqdn=("10.9.9.9",),
        ),
        ("node1",),
        "node2.rack.example is 10.9.9.9 there, not 10.0.0.2",
    ),
    Broken(
        "names.reverse_names_lead_back",
        looks_up(healthy(), "node1", "node2", reverse="fake-host", reverse_addresses=("10.9.9.9",)),
        ("node1",),
        "10.0.0.2 (node2) is called fake-host there, which resolves to 10.9.9.9",
    ),
    Broken(
        "names.look_ups_are_answered",
        looks_up(healthy(), "node1", "node2", reverse=Missing("no answer"), reverse_seconds=5.0),
        ("node1",),
        "takes 5 s or more for the name of node2",
    ),
    Broken(
        "names.look_ups_are_fast",
        looks_up(healthy(), "node1", "node2", reverse_seconds=1.2),
        ("node1",),
        "takes 1.2 s for the name of node2",
    ),
    Broken(
        "names.look_ups_are_fast",
        looks_up(healthy(), "node1", "node2", accepted_seconds=5.0),
        ("node1",),
        "takes 5 s for the name of ::ffff:10.0.0.2 (node2)",
    ),
    Broken(
        "names.peers_are_taken_for_themselves",
        resolves(healthy(), "node3", "node1", "10.0.0.2", "10.0.0.1"),
        ("node3",),
        "node1 is 10.0.0.2 there first, and only then 10.0.0.1, not 10.0.0.1",
    ),
    Broken(
        "names.every_node_reaches_itself",
        healthy().broken(
            "node2",
            "network",
            unreached=(
                Unreached(
                    "10.0.0.2",
                    "no answer",
                    (
                        Rule("nft", "inet own input", 'iif "lo" ip daddr 10.0.0.2 drop'),
                        Rule("nft", "ip a b", "ip daddr 10.9.9.9 drop"),
                    ),
                ),
            ),
        ),
        ("node2",),
        'itself at 10.0.0.2: no answer; nft on node2, inet own input: iif "lo" ip daddr 10.0.0.2 drop',
    ),
    Broken("names.peers_can_be_resolved", resolves(healthy(), "node1", "node2"), ("node1",), "hostname of node2"),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_rank_0_does_not_start_without_its_own_address():
    """It connects to the store that it opened itself, by the address that all use."""
    run = healthy().broken_interface("node1", "lo", is_up=False)
    (found,) = [one for one in judge("names.localhost_is_the_node_itself", run) if one.verdict is not Verdict.PASS]
    assert (found.verdict, found.nodes) == (Verdict.FAIL, ("node1",))


@pytest.mark.parametrize(
    ("run", "verdict", "words"),
    [
        (
            healthy().broken_interface("node3", "lo", addresses=(Address("::1", 128, "inet6"),)),
            Verdict.WARN,
            "lo has no 127.0.0.1",
        ),
        (healthy().broken_interface("node3", "lo", is_up=False), Verdict.WARN, "lo is down: nothing on this node"),
        (
            healthy().broken("node3", "identity", localhost_addresses=()),
            Verdict.WARN,
            "localhost does not resolve there",
        ),
        (
            roce().broken("node3", "identity", localhost_addresses=("127.0.0.1", "10.0.0.9")),
            Verdict.WARN,
            "localhost is 10.0.0.9 there, which is no loopback address",
        ),
    ],
)
def test_a_node_that_does_not_reach_itself_is_named(run, verdict, words):
    """A warning, where no NCCL is sure to hang over several GPUs of a node."""
    (found,) = [one for one in judge("names.localhost_is_the_node_itself", run) if one.verdict is not Verdict.PASS]
    assert (found.verdict, found.nodes) == (verdict, ("node3",))
    assert words in found.message


def test_the_fix_is_the_line_to_change():
    """For one node, the fix says which line of /etc/hosts becomes which."""
    findings = judge("names.own_hostname_is_not_loopback", debian_name(healthy(), "node3"))
    (failed,) = [finding for finding in findings if finding.verdict is Verdict.FAIL]
    assert "replace `127.0.1.1 node3` by `10.0.0.3 node3`" in failed.fix


def test_many_debian_machines_are_one_finding():
    """Nodes with the same fault are told together."""
    run = healthy()
    for name in run.names:
        run = debian_name(run, name)
    (finding,) = judge("names.own_hostname_is_not_loopback", run)
    assert (finding.verdict, finding.nodes) == (Verdict.FAIL, run.names)


def test_gloo_does_not_ask_for_the_hostname_where_it_is_given_an_interface():
    """With GLOO_SOCKET_IFNAME a hostname of 127.0.1.1 breaks nothing."""
    run = debian_name(healthy(), "node3").with_variables(GLOO_SOCKET_IFNAME="eth0")
    for name in ("names.own_hostname_is_not_loopback", "names.own_hostname_is_an_address_of_the_node"):
        assert {finding.verdict for finding in judge(name, run)} == {Verdict.PASS}


def test_doubled_hostnames_are_not_wrong_addresses_too():
    """Who shares its hostname resolves its peer to itself: the consequence of one cause."""
    run = healthy(2).broken("node2", "identity", hostname="node1")
    run = resolves(run, "node1", "node2", "10.0.0.1")
    findings = judge("names.peers_are_taken_for_themselves", run)
    assert {finding.verdict for finding in findings} == {Verdict.ERROR}
    assert {finding.message.split(":")[0] for finding in findings} == {"blocked by names.hostnames_are_unique"}


def test_a_node_whose_only_peer_does_not_tell_who_it_is_is_not_to_blame():
    """Its own answer waits for that of the peer, whose cell says why."""
    run = healthy(2).without("node2", "identity", "the node's answer is malformed")
    for name in ("peers_are_taken_for_themselves", "peers_can_be_resolved", "full_names_of_peers_lead_to_them"):
        told = {finding.nodes: finding for finding in judge(f"names.{name}", run)}
        assert told["node1",].blocked_by == "names.own_hostname_is_not_localhost"
        assert "on node2" in told["node1",].message


def test_a_localhost_is_told_once():
    """What localhost leads to, and that two nodes share the name, follows from it."""
    run = debian_name(debian_name(healthy(), "node2"), "node3")
    for name in ("node2", "node3"):
        run = run.broken(name, "identity", hostname="localhost")
    for name in ("own_hostname_is_not_loopback", "own_hostname_is_an_address_of_the_node", "hostnames_are_unique"):
        findings = judge(f"names.{name}", run)
        assert {(finding.nodes, finding.verdict) for finding in findings} == {
            (("node1",), Verdict.PASS),
            (("node2", "node3"), Verdict.ERROR),
        }


def test_peers_that_take_localhost_for_themselves_are_right():
    """A line that leads the name to the node that calls itself so would break them."""
    for name in ("localhost", "localhost.localdomain"):
        run = healthy().broken("node3", "identity", hostname=name)
        run = resolves(resolves(run, "node1", "node3", "127.0.0.1"), "node2", "node3", "127.0.0.1")
        findings = judge("names.peers_are_taken_for_themselves", run)
        assert {finding.verdict for finding in findings if "node1" in finding.nodes} == {Verdict.PASS}, findings


def test_a_silent_name_server_is_not_slow_too():
    """One verdict for one cause."""
    run = looks_up(healthy(), "node1", "node2", reverse=Missing("no answer"), reverse_seconds=5.0)
    findings = judge("names.look_ups_are_fast", run)
    assert {f.verdict for f in findings if "node1" in f.nodes} == {Verdict.ERROR}


def test_an_address_without_a_name_is_no_fault():
    """Most clusters have no reverse records: an answer that says so is one, and fast."""
    run = looks_up(healthy(), "node1", "node2", reverse=Missing("no name", "absent"), reverse_addresses=())
    for name in ("reverse_names_lead_back", "look_ups_are_answered", "look_ups_are_fast"):
        assert {finding.verdict for finding in judge(f"names.{name}", run)} == {Verdict.PASS}


@pytest.mark.parametrize(("names", "verdict"), [((), Verdict.PASS), (("10.0.0.2",), Verdict.WARN)])
def test_a_pod_that_lost_its_own_full_name_is_not_the_fault_of_its_peers(names, verdict):
    """They know it by the full one; what it calls itself without /etc/hosts nobody else knows."""
    run = resolves(healthy(), "node1", "node2").broken("node1", "identity", fqdn="node1.trainer.svc")
    run = looks_up(run.broken("node2", "identity", hostname_addresses=names), "node1", "node2", resolved_fqdn=())
    found = [one for one in judge("names.peers_can_be_resolved", run) if "node1" in one.nodes]
    assert {one.verdict for one in found} == {verdict}


def test_a_wrong_address_behind_the_right_one_is_a_warning():
    """Ranks try the first, and come to the others only where nothing answers there."""
    found = judge("names.peers_are_taken_for_themselves", resolves(healthy(), "node3", "node1", "10.0.0.1", "10.0.0.9"))
    (warned,) = [finding for finding in found if finding.verdict is not Verdict.PASS]
    assert (warned.verdict, warned.nodes) == (Verdict.WARN, ("node3",))
    assert warned.message == "node1 is 10.0.0.9 there too, which is not node1"


def test_an_address_that_no_rank_uses_need_not_be_reached():
    """Neither the training address, nor that of the own name, nor loopback: a bridge of containers, say."""
    run = healthy().broken("node2", "network", unreached=(Unreached("172.17.0.1", "no answer"),))
    assert {finding.verdict for finding in judge("names.every_node_reaches_itself", run)} == {Verdict.PASS}
    run = healthy(1).broken("node1", "network", unreached=(Unreached("127.0.0.1", "no answer"),))
    assert [finding.verdict for finding in judge("names.every_node_reaches_itself", run)] == [Verdict.FAIL]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"hostname_address": Missing("unknown"), "hostname_addresses": ()}, "hostname node1 does not resolve there"),
        (
            {"hostname_address": "10.9.9.9", "hostname_addresses": ("10.9.9.9",)},
            "hostname node1 is 10.9.9.9, where the ranks of `torchrun --standalone` meet",
        ),
        ({"hostname_addresses": ("10.9.9.9", "10.0.0.1")}, "and no interface there has 10.9.9.9"),
        ({"fqdn": "node1.gone", "fqdn_addresses": ()}, "full name node1.gone does not resolve there"),
    ],
)
def test_ranks_of_one_node_must_find_its_own_name(names, words):
    """torchrun tells them the full name of the node, alone as among peers."""
    (finding,) = judge("names.own_hostname_is_an_address_of_the_node", healthy(1).broken("node1", "identity", **names))
    assert finding.verdict is Verdict.FAIL
    assert words in finding.message


def test_one_debian_machine_passes():
    """Its own name is 127.0.1.1: an address of its own, where all its ranks meet."""
    run = debian_name(healthy(1), "node1").broken("node1", "identity", fqdn_addresses=("127.0.1.1",))
    (finding,) = judge("names.own_hostname_is_an_address_of_the_node", run)
    assert finding.verdict is Verdict.PASS


ASKED = """
import json, socket
from preflight.node.subjects import identity
print(json.dumps(identity.collect({"proc": "/proc", "sysfs": "/sys", "environment": []})["hostname_addresses"]))
"""
IN_A_ROOM_OF_ITS_OWN = """
mount --bind {hosts} /etc/hosts && mount --bind {order} /etc/nsswitch.conf && hostname lonely &&
ip link set lo up && ip link add eth0 type veth peer name eth1 &&
ip link set eth1 up && ip link set eth0 up && exec {python} -c {asked}
"""


@pytest.mark.lab
@pytest.mark.parametrize(
    ("hosts", "verdict"), [("fe80::99 lonely\n", Verdict.WARN), ("10.0.0.2 lonely\n", Verdict.PASS)]
)
def test_the_resolver_says_what_the_own_name_leads_to(tmp_path, hosts, verdict, lab_is_possible):
    """In namespaces of their own: a line with a link-local address is found, and the line in the fix is well."""
    (tmp_path / "hosts").write_text(hosts)
    (tmp_path / "order").write_text("hosts: files\n")
    script = IN_A_ROOM_OF_ITS_OWN.format(
        hosts=tmp_path / "hosts", order=tmp_path / "order", python=sys.executable, asked=shlex.quote(ASKED)
    )
    argv = ["unshare", "--mount", "--uts", "--net", "sh", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    addresses = tuple(json.loads(done.stdout))
    run = healthy().broken("node2", "identity", hostname="lonely", hostname_addresses=addresses)
    found = judge("names.own_hostname_is_no_link_local_address", run)
    assert {one.verdict for one in found if "node2" in one.nodes} == {verdict}, addresses
