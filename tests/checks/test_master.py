"""Is a MASTER_ADDR or MASTER_PORT that cannot work found, and its node named?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from preflight.facts.subjects.environment import Environment, Variable
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import FakeRun, roce
from tests.checks.samples import Broken, debian_name, judge, judge_all, leads_to, with_second_address


def leads_to_in_turn(run: FakeRun, node: str, *addresses: str) -> FakeRun:
    """What MASTER_ADDR resolves to on a node, in the order of its resolver."""
    return run.broken(node, "peers", master_addresses=addresses)


BROKEN = (
    Broken(
        "master.address_belongs_to_the_first_node",
        roce().broken("node1", "peers", master_addresses=Missing("x: [Errno -3] Temporary failure in name resolution")),
        ("node1",),
        "MASTER_ADDR node1 is unknown on node1",
    ),
    Broken(
        "master.first_node_knows_the_address_for_its_own",
        with_second_address(leads_to(roce().with_variables(MASTER_ADDR="10.5.0.1"), "10.5.0.1"), "node1", "10.5.0.1"),
        ("node1",),
        "MASTER_ADDR 10.5.0.1 is 10.5.0.1; node1 is 10.0.0.1 on node1",
    ),
    Broken(
        "master.first_node_knows_the_address_for_its_own",
        with_second_address(
            leads_to(roce().with_variables(MASTER_ADDR="10.0.0.1"), "10.0.0.1"), "node1", "10.5.0.1"
        ).broken("node1", "identity", hostname_address="10.5.0.1", hostname_addresses=("10.5.0.1",)),
        ("node1",),
        "MASTER_ADDR 10.0.0.1 is 10.0.0.1; node1 is 10.5.0.1 on node1",
    ),
    Broken(
        "master.variables_are_the_same_on_every_node",
        roce().with_variables("node3", MASTER_ADDR="10.0.0.3"),
        ("node3",),
        "MASTER_ADDR: node1 on node[1-2,4], 10.0.0.3 on node3",
    ),
    Broken(
        "master.variables_are_the_same_on_every_node",
        roce().with_variables("node3", MASTER_PORT=""),
        ("node3",),
        "MASTER_PORT: 29500 on node[1-2,4], not set on node3",
    ),
    Broken(
        "master.address_belongs_to_the_first_node",
        leads_to(roce(), "10.0.0.2"),
        ("node1",),
        "MASTER_ADDR node1 is 10.0.0.2 on node1, an address of node2",
    ),
    Broken("master.address_belongs_to_the_first_node", leads_to(roce(), "127.0.0.1"), ("node1",), "127.0.0.1"),
    Broken(
        "master.address_leads_every_node_to_the_first",
        leads_to(roce(), "10.0.0.9", "node3"),
        ("node3",),
        "MASTER_ADDR node1 is 10.0.0.9 there; wanted 10.0.0.1",
    ),
    Broken(
        "master.address_leads_every_node_to_the_first", leads_to(roce(), "", "node3"), ("node3",), "is unknown there"
    ),
    Broken(
        "master.address_leads_every_node_to_the_first",
        leads_to_in_turn(roce(), "node3", "10.0.0.2", "10.0.0.1"),
        ("node3",),
        "MASTER_ADDR node1 is 10.0.0.2, 10.0.0.1 there; wanted first 10.0.0.1",
    ),
    Broken(
        "master.address_is_on_the_training_interface",
        with_second_address(leads_to(roce(), "192.168.0.1"), "node1", "192.168.0.1"),
        ("node1",),
        "MASTER_ADDR node1 is 192.168.0.1; the training interface eth0 has 10.0.0.1",
    ),
    Broken(
        "master.port_is_free_on_the_first_node",
        roce().broken(
            "node1", "peers", master_port_error="Address already in use", master_port_holder="python (pid 7)"
        ),
        ("node1",),
        "MASTER_PORT 29500 cannot be bound: Address already in use, held by python (pid 7)",
    ),
    Broken(
        "master.port_is_free_on_the_first_node",
        roce().with_variables(MASTER_PORT="99999"),
        ("node1",),
        "wanted 1-65535",
    ),
    Broken(
        "master.port_is_outside_the_ephemeral_range",
        roce().with_variables(MASTER_PORT="40000"),
        ("node1",),
        "MASTER_PORT 40000 is in the ephemeral range 32768-60999",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_a_wrong_address_is_told_once():
    """Where MASTER_ADDR leads to another node, the nodes that follow it there are not to blame."""
    findings = judge("master.address_leads_every_node_to_the_first", leads_to(roce(), "10.0.0.2"))
    assert Verdict.FAIL not in {finding.verdict for finding in findings}


def test_the_first_nodes_own_name_may_be_loopback_there():
    """Peers that find the first node by its name are well, whatever it takes its own name for."""
    run = leads_to(debian_name(roce(), "node1"), "127.0.1.1", "node1")
    findings = judge("master.address_leads_every_node_to_the_first", run)
    assert {finding.verdict for finding in findings} == {Verdict.PASS}
    assert {f.verdict for f in judge("master.address_belongs_to_the_first_node", run)} == {Verdict.PASS}
    (blocked,) = judge("master.address_belongs_to_the_first_node", replace(run, backend="gloo"))
    assert blocked.message.startswith("blocked by names.own_hostname_is_not_loopback on node1")


def test_localhost_serves_a_cluster_of_one():
    """On one node MASTER_ADDR may be any address of it, loopback included."""
    run = leads_to(roce(1), "127.0.1.1")
    assert {f.verdict for f in judge("master.address_belongs_to_the_first_node", run)} == {Verdict.PASS}


def test_nobody_stands_in_for_a_first_host_that_did_not_answer():
    """Rank 0's node is the first host: without it there is nothing to compare MASTER_ADDR with."""
    run = roce()
    run = run.unreached("node1")
    verdicts = {finding.verdict for finding in judge("master.address_belongs_to_the_first_node", run)}
    assert verdicts == {Verdict.ERROR}


@pytest.mark.parametrize(
    ("check", "run"),
    [
        ("master.address_belongs_to_the_first_node", leads_to(roce(), "10.0.0.2")),
        (
            "master.address_is_on_the_training_interface",
            with_second_address(leads_to(roce(), "192.168.0.1"), "node1", "192.168.0.1"),
        ),
    ],
)
@pytest.mark.parametrize("layer", ["--env", "launch files"])
def test_no_variable_is_exported_for_an_address_of_a_launch_file(check, run, layer):
    """A `--rdzv_endpoint` is mended in its file: an `export MASTER_ADDR` would change nothing."""
    for name in run.names:
        variables = run.facts(name, "environment", Environment).variables
        held = {**variables, "MASTER_ADDR": Variable("node1", layer)}
        run = run.broken(name, "environment", variables=held)
    (finding,) = [f for f in judge(check, run) if f.verdict in (Verdict.FAIL, Verdict.WARN)]
    told = " ".join([finding.fix, *(command.now for command in finding.commands)])
    assert "10.0.0.1" in told
    assert ("export MASTER_ADDR" in told) == (layer == "--env")
    assert ("launch file" in told) == (layer == "launch files")


def test_a_wrong_address_behind_the_right_one_is_a_warning():
    """Ranks come to it only where nothing answers at the first."""
    run = leads_to_in_turn(roce(), "node3", "10.0.0.1", "10.0.0.9")
    found = judge("master.address_leads_every_node_to_the_first", run)
    assert {finding.nodes: finding.verdict for finding in found}["node3",] is Verdict.WARN


def test_no_address_of_loopback_is_advised():
    """Where the job's variables make the nodes train on loopback, that is the fault, and its address no remedy."""
    run = leads_to(roce().with_variables(NCCL_SOCKET_IFNAME="^docker0", MASTER_ADDR="node1"), "10.0.0.1")
    bad = [finding for finding in judge_all(run) if finding.verdict in (Verdict.FAIL, Verdict.WARN)]
    assert {finding.check for finding in bad} == {"network.interface_variables_match_an_interface"}
    assert "127.0.0.1" not in " ".join(f"{one.fix} {[command.now for command in one.commands]}" for one in bad)
