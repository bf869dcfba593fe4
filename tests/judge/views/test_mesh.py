"""Are failed connections blamed on the nodes that they speak of?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.results import Filter, Way
from preflight.judge.views.mesh import MeshView
from preflight.testing import healthy


def test_edges_that_the_mesh_blames_on_nobody_are_blamed_on_both_ends():
    """No failed connection goes without a Blame."""
    run = healthy().mesh_fails(("node1", "node3"), ("node2", "node1"), blamed=(("node3",),))
    blames = MeshView(run.measured_mesh, run.cluster).blames()
    assert [blame.nodes for blame in blames] == [("node3",), ("node1", "node2")]


def test_two_sides_that_do_not_reach_each_other_are_told_as_such():
    """Not each node as one that cannot connect to itself."""
    names = ("node1", "node2", "node3", "node4")
    edges = [(one, other) for one in names[:2] for other in names[2:]]
    run = healthy(4).mesh_fails(*edges, *((other, one) for one, other in edges), blamed=(names,))
    (blame,) = MeshView(run.measured_mesh, run.cluster).blames()
    assert blame.nodes == names
    assert "node[1-2] and node[3-4] cannot connect to each other" in blame.message


def test_where_all_nodes_filter_it_is_said_once():
    """One closed security group is one sentence about all nodes, and not a list of each node's peers."""
    names = ("node1", "node2", "node3", "node4")
    edges = [(one, other) for one in names for other in names if one != other]
    run = healthy(4).mesh_fails(*edges, blamed=(names,))
    (blame,) = MeshView(run.measured_mesh, run.cluster).blames()
    assert blame.nodes == names
    assert "peers" not in blame.message
    assert len(blame.message) < 120, blame.message


DROP = Filter(tool="nft", place="inet filter input", rule="tcp dport 1024-65535 drop")


def told(run, *, nodes, **fields):
    """The one Blame of a run whose mesh has these further fields: for these nodes, and its words."""
    mesh = msgspec.structs.replace(run.measured_mesh, **fields)
    (blame,) = MeshView(mesh, run.cluster).blames()
    assert blame.nodes == nodes, blame.message
    return blame.message


def pair():
    """node2 and node3 do not reach each other."""
    return healthy().mesh_fails(("node2", "node3"), ("node3", "node2"), blamed=(("node2", "node3"),))


def way(to, **fields):
    """The way to a peer over eth0."""
    return Way(to=to, **{"interface": "eth0", **fields})


def test_a_rule_of_one_end_is_told_and_explains_the_pair():
    """Where both have rules that may be it, both stay named."""
    run = healthy().mesh_fails(("node1", "node3"), blamed=(("node1", "node3"),))
    words = told(run, nodes=("node3",), filters={"node3": (DROP,)})
    assert "node1 cannot connect to node3: no answer (filtered)" in words
    assert words.endswith("; nft on node3, inet filter input: tcp dport 1024-65535 drop")
    out = Filter(tool="nft", place="inet filter output", rule="drop")
    told(run, nodes=("node1", "node3"), filters={"node3": (DROP,), "node1": (out,)})
    told(run, nodes=("node1", "node3"), filters={"node1": (DROP,)})  # of what comes in there


def test_what_drops_answers_is_told_of_the_end_that_has_it():
    """A rule on the way out of the accepting end, or on the way in at the connecting one."""
    run = healthy().mesh_fails(("node1", "node3"), blamed=(("node1", "node3"),))
    rule = "ip daddr 10.0.0.1 tcp sport >= 1024 drop"
    out = Filter(tool="nft", place="inet filter output", rule=rule, packet="answer")
    words = told(run, nodes=("node3",), filters={"node3": (out,)})
    assert words.endswith(f"nft on node3, inet filter output: {rule} (it drops the answers to connections)")
    into = Filter(tool="nft", place="inet filter input", rule="ct direction reply drop", packet="answer")
    told(run, nodes=("node1",), filters={"node1": (into,)})
    told(run, nodes=("node1", "node3"), filters={"node1": (out,)})  # of its own answers to others
    other = msgspec.structs.replace(out, rule="ip daddr 10.0.0.2 tcp sport >= 1024 drop")
    told(run, nodes=("node1", "node3"), filters={"node3": (other,)})


def test_what_ends_a_connection_is_no_matter_of_mtus():
    """Somebody answers with a reset for what was let in before."""
    run = healthy().mesh_fails(("node1", "node3"), ("node3", "node1"), blamed=(("node1", "node3"),))
    reset, silent = run.measured_mesh.failed
    failed = (
        msgspec.structs.replace(
            reset, reason="reset", detail="Connection reset by peer; 9 bytes were never acknowledged"
        ),
        msgspec.structs.replace(silent, reason="no_echo", detail="no answer; 9 bytes were never acknowledged"),
    )
    cut = Filter(tool="nft", place="inet site input", rule="ct state established drop", packet="data")
    words = told(run, nodes=("node3",), failed=failed, filters={"node3": (cut,)})
    assert "MTU" not in words
    assert words.endswith("ct state established drop (it ends connections that were let in)")


@pytest.mark.parametrize(
    ("rule", "may"),
    [
        ("ip saddr 10.0.0.1 tcp dport > 1024 drop", True),
        ("ip saddr 192.168.0.0/16 drop", False),
        ("ip saddr != 192.168.0.0/16 drop", True),
        ("ip saddr { 10.9.0.0/16, 10.0.0.0-10.0.0.9 } drop", True),
        ("ip saddr @blocked drop", True),
        ("ip daddr 10.0.0.2 drop", False),
        ("-A INPUT -s 10.0.0.1/32 -j DROP", True),
        ("-A INPUT ! -s 10.0.0.0/24 -j DROP", False),
        ("-A INPUT -d 10.0.0.3/32 -p tcp -m tcp --dport 1024:65535 -j DROP", True),
        ("ip6 saddr fd00::/8 drop", False),
    ],
)
def test_a_rule_for_other_addresses_is_no_cause(rule, may):
    """Node1 connects to node3; what a rule says of packets to and from others explains nothing."""
    run = healthy().mesh_fails(("node1", "node3"), blamed=(("node1", "node3"),))
    held = Filter(tool="nft", place="inet filter input", rule=rule)
    words = told(run, nodes=("node3",) if may else ("node1", "node3"), filters={"node3": (held,)})
    assert (rule in words) is may


def test_a_node_without_a_route_is_to_blame():
    """What it does not send, it does not answer either."""
    found = Way(to="node2", state="no route")
    words = told(pair(), nodes=("node3",), ways={"node3": (found,)})
    assert "node3 has no route to node2: `ip route get 10.0.0.2`" in words


def test_a_wrong_way_is_not_mended_at_the_firewall():
    """What to do is what the message speaks of."""
    run = pair()
    for fields, words in (
        ({"ways": {"node3": (Way(to="node2", state="no route"),)}}, "a route, a rule of `ip rule`"),
        ({"filters": {"node3": (DROP,)}}, ""),
    ):
        mesh = msgspec.structs.replace(run.measured_mesh, **fields)
        (blame,) = MeshView(mesh, run.cluster).blames()
        assert words in blame.fix
        assert bool(words) == bool(blame.fix)


def test_a_router_between_neighbours_is_told():
    """A host route over a router that is not there; both directions fail, and one node is to blame."""
    found = way("node2", gateway="10.0.0.250", state="unanswered")
    words = told(pair(), nodes=("node3",), ways={"node3": (found,)})
    assert "node2 and node3 cannot connect to each other" in words
    assert "node3 sends what is for node2 to the router 10.0.0.250, where nothing answers, though both are in" in words


def test_another_interface_on_the_way_is_told():
    """A VPN that took the peer's address."""
    words = told(pair(), nodes=("node3",), ways={"node3": (way("node2", interface="wg0"),)})
    assert "what node3 sends to node2 leaves by wg0, and not by eth0" in words


def test_an_address_that_both_ends_have_is_told():
    """Packets to the peer then leave by the loopback interface."""
    words = told(pair(), nodes=("node3",), ways={"node3": (way("node2", interface="lo"),)})
    assert "node3 has 10.0.0.2 itself, the address of node2: what it sends there comes back" in words


def test_a_hardware_address_that_is_not_the_peers_is_told():
    """One that somebody fixed, or that of a third node, which answers for the address."""
    fixed = way("node2", hardware="02:00:00:00:00:99", state="permanent")
    assert "a fixed neighbor entry 02:00:00:00:00:99" in told(pair(), nodes=("node3",), ways={"node3": (fixed,)})
    third = way("node3", hardware="02:00:0a:00:00:01", state="known")
    words = told(pair(), nodes=("node2", "node3"), ways={"node2": (third,)})
    assert "node1 answers node2 for 10.0.0.3, the address of node3" in words


@pytest.mark.parametrize(
    "fields",
    [
        {"hardware": "02:00:0a:00:00:02", "state": "permanent"},
        {"hardware": "12:34:56:78:9a:bc", "state": "known"},
        {"state": "unanswered"},
    ],
)
def test_a_way_that_may_be_right_explains_nothing(fields):
    """The peer's own address, a cloud's one address for all peers, and a peer that does not answer."""
    told(pair(), nodes=("node2", "node3"), ways={"node3": (way("node2", **fields),)})


def test_bytes_that_were_never_acknowledged_point_at_large_packets():
    """Small packets pass where a switch port has a smaller MTU than the nodes."""
    run = healthy().mesh_fails(("node1", "node3"), blamed=(("node3",),))
    (edge,) = run.measured_mesh.failed
    lost = msgspec.structs.replace(edge, reason="no_echo", detail="no answer; 22142 bytes were never acknowledged")
    assert "large packets are lost on the way" in told(run, nodes=("node3",), failed=(lost,))
