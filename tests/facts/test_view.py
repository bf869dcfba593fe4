"""What do checks see of all nodes together, also where some told only a part?"""

from __future__ import annotations

import pytest

from preflight.facts import decode, view
from preflight.facts.decode import Document
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing
from preflight.testing import healthy, roce
from preflight.testing.hardware import gpus
from tests.run.test_stored import written


def documents(run, folder) -> dict[str, Document]:
    return {path.stem: decode.read(path) for path in sorted((written(run, folder) / "facts").iterdir())}


def test_nodes_are_seen_in_hosts_order_with_their_interface_chosen(tmp_path):
    """Whatever order the answers came in."""
    given = documents(healthy(11), tmp_path)
    cluster = view.view(reversed(given.values()), "auto")
    assert [node.name for node in cluster] == [f"node{number}" for number in range(1, 12)]
    assert all(node.network.training == "eth0" for node in cluster)


def test_a_node_that_told_no_interfaces_is_still_seen(tmp_path):
    """Its subject is missing, and the others are there."""
    run = healthy()
    run = run.without("node2", "network", "netlink broke")
    cluster = view.view(documents(run, tmp_path).values(), "auto")
    with pytest.raises(FactMissing, match="netlink broke"):
        _ = cluster["node2"].network
    assert cluster["node2"].identity.hostname == "node2"


def test_the_backend_is_nccl_where_every_node_has_gpus():
    """One without GPUs makes it gloo; one whose driver is broken, or that tells nothing, is no proof of having none."""
    assert view.automatic_backend(list(roce().cluster)) == "nccl"
    assert view.automatic_backend(list(healthy().cluster)) == "gloo"
    assert view.automatic_backend([]) == "gloo"
    broken = roce().broken("node2", "gpu", devices=Missing("NVML broke"))
    assert view.automatic_backend(list(broken.cluster)) == "nccl"
    assert view.automatic_backend(list(roce().broken("node2", "gpu", devices=(), on_bus=()).cluster)) == "gloo"
    assert [node.gpu_count() for node in broken.cluster] == [8, 0, 8, 8]


def test_a_backend_that_was_asked_for_is_taken_and_anything_else_is_gloo(tmp_path):
    """The interface follows from the backend's own variable, so the wrong one would choose another."""
    given = documents(healthy(1).with_variables(NCCL_SOCKET_IFNAME="=lo", GLOO_SOCKET_IFNAME="eth0"), tmp_path)
    for backend, chosen in (("nccl", "lo"), ("gloo", "eth0"), ("auto", "eth0")):
        assert [node.network.training for node in view.view(given.values(), backend)] == [chosen]


def test_packages_are_those_of_the_nodes_that_told_them():
    """A node whose interpreter could not be asked is left out, not taken for one without packages."""
    run = healthy().without("node2", "software", "no python")
    found = view.packages(run.cluster)
    assert sorted(found) == ["node1", "node3"]
    assert found["node1"]["torch"] == "2.13.0"


def test_gpus_in_use_are_named_with_their_node():
    """Nodes without GPUs, or whose GPUs are free, are not named."""
    run = roce(3).broken("node2", "gpu", devices=gpus(4, processes=2)).broken("node3", "gpu", devices=())
    assert view.busy_gpus(run.cluster) == "GPU 0,1,2,3 of node2"
    assert view.busy_gpus(roce(2).cluster) == ""
