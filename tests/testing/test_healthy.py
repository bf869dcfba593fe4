"""Is a healthy cluster healthy, and is all of it what a node could say?"""

from __future__ import annotations

import json

import msgspec
import pytest

from preflight.facts.subjects import SUBJECTS
from preflight.testing import healthy, infiniband, roce
from preflight.testing.healthy import rail_by_rail

CLUSTERS = {"healthy": healthy(2), "roce": roce(2), "infiniband": infiniband(2)}


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_subject_is_there_and_could_have_been_sent(name):
    """Facts as a node would send them: the tests of checks use no value that cannot occur."""
    for facts in CLUSTERS[name].subjects.values():
        assert facts.keys() == SUBJECTS.keys()
        for subject, value in facts.items():
            sent = json.loads(msgspec.json.encode(value))
            assert msgspec.convert(sent, type=SUBJECTS[subject], strict=True) == value


@pytest.mark.parametrize(("run", "gpus", "layer"), [(healthy(2), 0, ""), (roce(2), 8, "Ethernet")])
def test_the_clusters_differ_in_their_fabric(run, gpus, layer):
    """Plain Ethernet has neither GPUs nor RDMA."""
    for node in run.cluster:
        assert len(node.gpu.readable()) == len(node.rdma.devices) == gpus
        assert {port.link_layer for port in node.rdma.active_ports()} == ({layer} if layer else set())
    assert {port.link_layer for node in infiniband(1).cluster for port in node.rdma.active_ports()} == {"InfiniBand"}


def test_large_clusters_have_addresses_of_their_own():
    """Beyond 255 nodes the subnet grows with them."""
    run = healthy(300)
    assert len({node.address_for_peers() for node in run.cluster}) == 300
    assert len({node.network.interface("eth0").subnet() for node in run.cluster}) == 1


def test_one_rail_may_be_slow():
    """The same all-reduce over each of three rails."""
    rates = [result.busbw_gbytes_per_s for result in rail_by_rail(roce(), slowest=1.0).bench().results]
    assert rates == [3.0, 1.0, 3.0]
