"""Is made-up hardware built as real hardware is?"""

from __future__ import annotations

from preflight.testing.hardware import gpus, hca, node_address, topology


def test_gpus_are_numbered_and_take_other_values():
    """Each with a bus address of its own."""
    made = gpus(8, name="NVIDIA A100")
    assert [gpu.index for gpu in made] == list(range(8))
    assert len({gpu.bus_id for gpu in made}) == 8
    assert {gpu.name for gpu in made} == {"NVIDIA A100"}


def test_every_gpu_is_near_its_own_adapter_unless_said_otherwise():
    """And joined to all others by NVLink."""
    assert topology(4).are_joined_by_nvlink()
    assert topology(4).shared_adapters() == ""
    assert topology(4, nearest=(0, 0, 2, 3)).shared_adapters() == "mlx5_0 is nearest to GPU0 and GPU1"


def test_adapters_of_two_nodes_differ_in_their_address_alone():
    """What identical machines have in common."""
    one, other = hca(0, 1), hca(0, 2)
    assert one.ports[0].gids != other.ports[0].gids
    assert (one.firmware, one.model) == (other.firmware, other.model)


def test_addresses_go_on_beyond_255():
    """Node 256 begins the next block."""
    assert [node_address(number) for number in (1, 255, 256)] == ["10.0.0.1", "10.0.0.255", "10.0.1.0"]
