"""Are failed connections laid on the nodes that the mesh blames?"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from preflight.facts.results import Edge, Filter, Rendezvous
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy, roce
from tests.checks.samples import Broken, judge

PORT = "mesh.every_node_reaches_the_port_of_rank_0"
DROP = Filter(tool="nft", place="inet filter input", rule="tcp dport 29500 drop")


def met(*sources, reason="filtered", **fields):
    """A mesh in which these nodes do not reach port 29500 of node1."""
    failed = tuple(Edge(source=name, target="node1", port=29500, reason=reason) for name in sources)
    run = healthy()
    meeting = Rendezvous(
        node="node1", address="10.0.0.1", port=29500, tried=len(run.names) - 1, failed=failed, **fields
    )
    return replace(run, measured_mesh=msgspec.structs.replace(run.measured_mesh, rendezvous=meeting))


BROKEN = (
    Broken(
        "mesh.every_node_reaches_every_other_on_random_ports",
        healthy().mesh_fails(("node1", "node3"), ("node2", "node3"), blamed=(("node3",),)),
        ("node3",),
        "node[1-2] cannot connect to node3: no answer (filtered); one of them: node1 to node3 port 40001",
    ),
    Broken(
        "mesh.every_node_reaches_every_other_on_random_ports",
        healthy().mesh_fails(("node3", "node1"), ("node3", "node2"), blamed=(("node3",),)),
        ("node3",),
        "node3 cannot connect to node[1-2]",
    ),
    Broken(
        "mesh.every_node_reaches_every_other_on_random_ports",
        healthy().mesh_fails(("node1", "node2"), blamed=(("node1", "node2"),)),
        ("node1", "node2"),
        "node1 cannot connect to node2",
    ),
    Broken(
        "mesh.every_node_reaches_every_other_on_random_ports",
        healthy().mesh_fails(("node1", "node2"), blamed=()),
        ("node1", "node2"),
        "node1 to node2 port 40001",
    ),
    Broken(PORT, met("node3", reason="refused"), ("node3",), "node3 cannot reach port 29500 of node1"),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_a_node_without_training_interface_takes_no_part():
    """Its cell is an error blocked by the cause; the others attest each other."""
    run = roce().with_variables("node3", NCCL_SOCKET_IFNAME="=ib0")
    findings = {f.nodes: f for f in judge("mesh.every_node_reaches_every_other_on_random_ports", run)}
    assert findings["node3",].message.startswith("blocked by network.training_interface_exists")
    assert findings["node1", "node2", "node4"].verdict is Verdict.PASS


def test_a_filtered_port_of_rank_0_is_blamed_on_the_node_whose_rule_drops_it():
    """The node, the port, the rule as it stands there, and the command that lets the nodes in."""
    others = healthy().names[1:]
    (failed,) = [f for f in judge(PORT, met(*others, filters={"node1": (DROP,)})) if f.verdict is Verdict.FAIL]
    assert failed.nodes == ("node1",)
    assert failed.message == (
        "no other node reaches port 29500 of node1 (10.0.0.1), where rank 0 will listen: no answer (filtered);"
        " nft on node1, inet filter input: tcp dport 29500 drop"
    )
    (command,) = failed.commands
    assert command.now.endswith("nft insert rule inet filter input ip saddr 10.0.0.0/24 ip daddr 10.0.0.0/24 accept")


@pytest.mark.parametrize(
    ("reason", "words"),
    [("timed out", "nothing could listen there"), ("Address already in use", "blocked by master.port_is_free")],
)
def test_a_port_that_nothing_could_listen_on_is_not_green(reason, words):
    """What was not tried is an error on every node."""
    findings = judge(PORT, met(unmeasured={"node1": reason}))
    assert {f.verdict for f in findings} == {Verdict.ERROR}
    assert words in findings[0].message


def test_without_a_port_there_is_nothing_to_reach():
    """Neither files nor environment name a port: skipped, with the reason."""
    run = healthy()
    run = replace(run, measured_mesh=msgspec.structs.replace(run.measured_mesh, rendezvous=None))
    assert {f.verdict for f in judge(PORT, run)} == {Verdict.SKIP}


def test_where_every_node_filters_it_is_said_once():
    """One finding for all of them, in one sentence."""
    run = healthy()
    pairs = [(one, other) for one in run.names for other in run.names if one != other]
    findings = judge("mesh.every_node_reaches_every_other_on_random_ports", run.mesh_fails(*pairs, blamed=()))
    assert [f.nodes for f in findings] == [run.names]
    assert findings[0].message.startswith("on random ports no node can connect to any other: no answer (filtered)")
