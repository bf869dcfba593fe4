"""Do the facts of made-up nodes fit together?"""

from __future__ import annotations

from preflight.testing.nodes import node_facts

NAMES = ["node1", "node2", "node3"]


def test_a_node_has_a_route_to_every_other_at_the_address_that_one_holds():
    """So that comparisons between nodes hold."""
    first = node_facts("node1", NAMES, gpu_count=0, variables={})
    third = node_facts("node3", NAMES, gpu_count=0, variables={})
    routes = {route.name: route for route in first["peers"].routes}
    assert routes.keys() == {"node2", "node3"}
    assert routes["node3"].resolved == (third["identity"].hostname_address,)
    assert third["network"].holds_any(routes["node3"].resolved, reachable=True)


def test_with_gpus_there_are_drivers_adapters_and_paths_that_were_asked_for():
    """One RDMA adapter for each GPU."""
    facts = node_facts("node1", NAMES, gpu_count=4, variables={"MASTER_ADDR": "node1"})
    assert len(facts["gpu"].devices) == len(facts["rdma"].devices) == 4
    assert facts["ending"].ports.keys() == {f"mlx5_{number}:1" for number in range(4)}
    assert facts["files"].shared
    assert facts["peers"].master_addresses == ("10.0.0.1",)
