"""What do checks see of all nodes together, also where some told only a part?"""

from __future__ import annotations

import pytest

from preflight.errors import FactMissing
from preflight.facts import decode, view
from preflight.facts.decode import Document
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.network import Address
from preflight.facts.value import Missing
from tests.checks.cluster import ethernet, gpus, roce
from tests.run.test_stored import written


def documents(run, folder) -> dict[str, Document]:
    return {path.stem: decode.read(path) for path in sorted((written(run, folder) / "facts").iterdir())}


def test_nodes_are_seen_in_hosts_order_with_their_interface_chosen(tmp_path):
    """Whatever order the answers came in."""
    given = documents(ethernet(11), tmp_path)
    cluster = view.view(reversed(given.values()), "auto")
    assert [node.name for node in cluster] == [f"node{number}" for number in range(1, 12)]
    assert all(node.network.training == "eth0" for node in cluster)


def test_a_node_that_told_no_interfaces_is_still_seen(tmp_path):
    """Its subject is missing, and the others are there."""
    run = ethernet()
    run.missing = {"node2": {"network": Missing("netlink broke")}}
    cluster = view.view(documents(run, tmp_path).values(), "auto")
    with pytest.raises(FactMissing, match="netlink broke"):
        _ = cluster["node2"].network
    assert cluster["node2"].identity.hostname == "node2"


def test_the_backend_is_nccl_where_every_node_has_gpus():
    """One without, or one whose driver is broken, makes it gloo."""
    assert view.automatic_backend(list(roce().cluster)) == "nccl"
    assert view.automatic_backend(list(ethernet().cluster)) == "gloo"
    assert view.automatic_backend([]) == "gloo"
    broken = roce().change("node2", "gpu", devices=Missing("NVML broke"))
    assert view.automatic_backend(list(broken.cluster)) == "gloo"
    assert [view.gpu_count(node) for node in broken.cluster] == [8, 0, 8, 8]


def test_peers_are_told_by_their_training_address():
    """Not by the one we reached them by; without an interface there is no other."""
    run = ethernet()
    assert view.training_address(run.cluster["node2"]) == "10.0.0.2"
    assert view.training_address(NodeFacts("node9", 0, "192.0.2.9", {}, {})) == "192.0.2.9"


def test_a_backend_that_was_asked_for_is_taken_and_anything_else_is_gloo(tmp_path):
    """The interface follows from the backend's own variable, so the wrong one would choose another."""
    given = documents(ethernet().environment(NCCL_SOCKET_IFNAME="=lo", GLOO_SOCKET_IFNAME="eth0"), tmp_path)
    for backend, chosen in (("nccl", "lo"), ("gloo", "eth0"), ("auto", "eth0")):
        assert [node.network.training for node in view.view(given.values(), backend)] == [chosen] * 3


def test_a_node_without_ipv4_is_known_by_its_ipv6_address():
    """On its training interface; link-local addresses are no way to a peer."""
    run = ethernet().interface("node2", addresses=(Address("fe80::2", 64, "inet6"), Address("fd00::2", 64, "inet6")))
    assert view.training_address(run.cluster["node2"]) == "fd00::2"


def test_packages_are_those_of_the_nodes_that_told_them():
    """A node whose interpreter could not be asked is left out, not taken for one without packages."""
    run = ethernet()
    run.missing = {"node2": {"software": Missing("no python")}}
    found = view.packages(run.cluster)
    assert sorted(found) == ["node1", "node3"]
    assert found["node1"]["torch"] == "2.13.0"


def test_gpus_in_use_are_named_with_their_node():
    """Nodes without GPUs, or whose GPUs are free, are not named."""
    run = roce(3).change("node2", "gpu", devices=gpus(4, processes=2)).change("node3", "gpu", devices=())
    assert view.busy_gpus(run.cluster) == "GPU 0,1,2,3 of node2"
    assert view.busy_gpus(roce(2).cluster) == ""
