"""How are the GPUs of a matrix joined, and which adapter is nearest to each?"""

from __future__ import annotations

from preflight.facts.subjects.gpus.topology import Topology, TopologyRow


def matrix(between: str, *near: str) -> Topology:
    """Two GPUs that are joined so, and two adapters, with the way of each GPU to both of them."""
    rows = (
        TopologyRow("GPU0", ("X", between, *near[:2])),
        TopologyRow("GPU1", (between, "X", *near[2:])),
        TopologyRow("NIC0", (near[0], near[2], "X", "SYS")),
        TopologyRow("NIC1", (near[1], near[3], "SYS", "X")),
    )
    return Topology(rows, {"NIC0": "mlx5_0", "NIC1": "mlx5_1"})


def test_the_nearest_adapter_is_the_one_behind_the_fewest_bridges():
    """Two that are equally near are both named."""
    assert matrix("NV18", "PIX", "SYS", "SYS", "PXB").nearest_adapters() == {"GPU0": ("mlx5_0",), "GPU1": ("mlx5_1",)}
    assert matrix("NV18", "NODE", "NODE", "SYS", "PXB").nearest_adapters()["GPU0"] == ("mlx5_0", "mlx5_1")


def test_a_row_that_is_cut_short_tells_of_the_adapters_it_has():
    """A tool that was killed leaves such a matrix."""
    whole = matrix("NV18", "PIX", "PXB", "SYS", "PIX")
    cut = Topology((whole.rows[0], TopologyRow("GPU1", ("NV18", "X", "SYS")), *whole.rows[2:]), whole.adapters)
    assert cut.nearest_adapters() == {"GPU0": ("mlx5_0",), "GPU1": ("mlx5_0",)}


def test_gpus_that_share_an_adapter_though_each_could_have_its_own_are_told():
    """With an adapter for each of them nothing is said."""
    assert matrix("NV18", "PIX", "SYS", "PIX", "SYS").shared_adapters() == "mlx5_0 is nearest to GPU0 and GPU1"
    assert matrix("NV18", "PIX", "SYS", "SYS", "PIX").shared_adapters() == ""


def test_a_way_between_gpus_is_nvlink_or_pcie():
    """Adapters are no part of it."""
    by_nvlink, by_pcie = (matrix(between, "PIX", "SYS", "SYS", "PIX") for between in ("NV18", "PHB"))
    assert (by_nvlink.are_joined_by_nvlink(), by_nvlink.between_gpus()) == (True, "NV18")
    assert (by_pcie.are_joined_by_nvlink(), by_pcie.between_gpus()) == (False, "PCIe")
