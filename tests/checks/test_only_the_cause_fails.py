"""Is the planted cause the only fail, and are its consequences errors that name it?"""

from __future__ import annotations

import pytest

from preflight.facts.results import Slow
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy, roce
from preflight.testing.hardware import gpus
from tests.checks.samples import busbw, debian_name, judge_all, leads_to, without_gid

HELD = {"master_port_error": "Address already in use", "master_port_holder": "python (pid 7)"}


def _spoilt_before():
    run = healthy().rank_has(2, gradient_error=0.8).training_has(losses=(5.5, 6.0))
    for rank in range(3):
        run = run.rank_has(rank, parameters_error=0.4)
    return run


def _telling():
    """Nodes whose interfaces tell all that real ones do."""
    run = healthy()
    for name in run.names:
        run = run.broken_interface(name, carrier_changes=2, lanes=(16, 16))
    return run


CAUSES = {
    "mtu": (healthy().broken_interface("node3", mtu=1400), "network.mtu_is_the_same_on_every_node", "node3"),
    "nccl interface, gloo": (
        healthy().with_variables("node3", NCCL_SOCKET_IFNAME="ib0"),
        "network.interface_variables_match_an_interface",
        "node3",
    ),
    "nccl interface, nccl": (
        roce().with_variables("node3", NCCL_SOCKET_IFNAME="ib0"),
        "network.interface_variables_match_an_interface",
        "node3",
    ),
    "nccl interface, links that count": (
        _telling().with_variables("node3", NCCL_SOCKET_IFNAME="ib0"),
        "network.interface_variables_match_an_interface",
        "node3",
    ),
    "hostname": (debian_name(healthy(), "node3"), "names.own_hostname_is_not_loopback", "node3"),
    "hostname of rank 0": (
        leads_to(
            leads_to(debian_name(healthy().with_variables(MASTER_ADDR="node1"), "node1"), "10.0.0.1"),
            *("127.0.1.1", "node1"),
        ),
        "names.own_hostname_is_not_loopback",
        "node1",
    ),
    "hostname unknown": (
        healthy().broken("node2", "identity", hostname_address=Missing("unknown"), hostname_addresses=()),
        "names.own_hostname_is_an_address_of_the_node",
        "node2",
    ),
    "master port": (roce().broken("node1", "peers", **HELD), "master.port_is_free_on_the_first_node", "node1"),
    "master address": (leads_to(roce(), "10.0.0.2"), "master.address_belongs_to_the_first_node", "node1"),
    "firewall": (
        healthy().mesh_fails(("node1", "node3"), ("node2", "node3"), blamed=(("node3",),)),
        "mesh.every_node_reaches_every_other_on_random_ports",
        "node3",
    ),
    "torch": (
        healthy().broken("node3", "software", torch="2.6.0", packages={"torch": "2.6.0", "accelerate": "1.12.0"}),
        "software.versions_are_the_same_on_every_node",
        "node3",
    ),
    "no torch": (
        roce().broken("node3", "software", torch=Missing("not installed", "absent")),
        "software.torch_is_installed",
        "node3",
    ),
    "gid": (without_gid(roce(), "node3", 3), "rdma.gid_index_exists_on_every_node", "node3"),
    "gid type": (roce().with_variables("node3", NCCL_IB_GID_INDEX="2"), "rdma.gid_index_is_routable_roce_v2", "node3"),
    "rdma port": (roce().broken_rdma_port("node3", state="DOWN", rate_gbps=10.0), "rdma.ports_are_active", "node3"),
    "hca": (roce().with_variables("node3", NCCL_IB_HCA="=ib0"), "rdma.nccl_ib_hca_matches_a_port", "node3"),
    "gpu lost": (roce().broken("node3", "gpu", devices=gpus(7)), "gpu.every_gpu_on_the_bus_is_listed", "node3"),
    "gpus unreadable": (
        roce().broken("node3", "gpu", devices=Missing("mismatch"), driver=Missing("mismatch")),
        "gpu.devices_are_readable",
        "node3",
    ),
    "slow link": (
        busbw(0.5).bench_has(
            slow=(Slow(nodes=("node3",), direction="both", gbytes_per_s=0.5, peers_gbytes_per_s=3.0),)
        ),
        "bench.no_node_is_slower_than_its_peers",
        "node3",
    ),
    "gradient before": (_spoilt_before(), "training.first_step_gradients_are_right", "node3"),
    "gradient after": (
        healthy().rank_has(2, parameters_digest="d1", parameters_error=0.5).training_has(losses=(5.5, 6.0)),
        "training.parameters_are_the_same_on_every_rank",
        "node3",
    ),
}


@pytest.mark.parametrize(("run", "cause", "node"), CAUSES.values(), ids=CAUSES)
def test_one_cause_is_one_fail(run, cause, node):
    """Exactly one check fails, on exactly the broken node; every other finding passes, warns, skips or is blocked."""
    findings = judge_all(run)
    assert [(f.check, f.nodes) for f in findings if f.verdict is Verdict.FAIL] == [(cause, (node,))]
    unexplained = [
        f for f in findings if f.verdict is Verdict.ERROR and not f.message.startswith(("blocked", "not started"))
    ]
    assert not unexplained
