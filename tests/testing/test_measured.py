"""Are made-up measurements those of a healthy cluster?"""

from __future__ import annotations

from preflight.testing import measured

NAMES = ["node1", "node2"]
RANKS = [(0, "node1"), (1, "node1"), (2, "node2"), (3, "node2")]


def test_every_connection_of_the_mesh_works():
    """Both directions of every pair."""
    mesh = measured.mesh(NAMES)
    assert (mesh.edges, mesh.ok, mesh.failed, mesh.node_names) == (2, 2, (), tuple(NAMES))


def test_the_benchmark_reaches_what_is_expected():
    """Without a wrong element; one node alone has no link to expect anything of."""
    found = measured.bench(NAMES, RANKS)
    assert found.expected is not None
    assert found.results[0].busbw_gbytes_per_s >= 0.9 * found.expected.busbw_gbytes_per_s
    assert not found.results[0].wrong
    assert measured.bench(["node1"], RANKS[:2]).expected is None


def test_ranks_of_the_training_have_a_device_each():
    """The GPU of their place on the node, or the processor."""
    devices = [rank.device for rank in measured.training(RANKS, "nccl").ranks]
    assert devices == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    assert {rank.device for rank in measured.training(RANKS, "gloo").ranks} == {"cpu"}


def test_devices_and_transports_take_other_values():
    """A GPU that measured itself, and what NCCL wrote of a rank."""
    assert measured.h200(3, "node1", wrong=2).wrong == 2
    assert measured.transport(0, "node1", "Socket", "eth0").between_nodes == ("NET/Socket",)
