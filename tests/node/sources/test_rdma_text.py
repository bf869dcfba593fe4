"""Tests of preflight.node.sources.rdma_text."""

from pathlib import Path

import msgspec
import pytest

from preflight.facts.subjects.rdma import Rdma
from preflight.node.sources import rdma_text

DATA = Path(__file__).parents[2] / "data/rdma"


def test_ibstat_tells_devices_and_ports():
    """Names of states as sysfs has them, LIDs as hexadecimal, the rate as a figure."""
    text = (DATA / "ibstat.txt").read_text().replace("SM lid: 0", "SM lid: 26", 1)
    first, second = msgspec.convert({"devices": rdma_text.ibstat(text)}, type=Rdma, strict=True).devices
    assert (first.name, first.model, first.firmware) == ("mlx5_0", "MT4129", "28.39.1002")
    port = first.ports[0]
    assert (port.state, port.rate_gbps, port.link_layer, port.sm_lid) == ("ACTIVE", 400.0, "Ethernet", "0x1a")
    assert second.ports[0].state_text() == "DOWN (Polling)"


def test_an_ibstat_that_is_cut_short_is_refused():
    """Wherever it ends, no device is told: too few ports would look like lost ones."""
    text = (DATA / "ibstat.txt").read_text()
    whole = {len(text), text.index("CA 'mlx5_1'"), text.index("CA 'mlx5_1'") - 1}
    for length in range(0, len(text) - len("Ethernet\n"), 11):
        if length not in whole and text[:length].count("Link layer: Ethernet") != text[:length].count("CA '"):
            with pytest.raises(ValueError, match="ibstat"):
                rdma_text.ibstat(text[:length])


def test_show_gids_tells_the_table_of_each_port():
    """Version and address of each row; a row without an IPv4 address has one column less."""
    tables = rdma_text.show_gids((DATA / "show_gids.txt").read_text())
    rows = tables["mlx5_0", 1]
    assert [(row["index"], row["kind"], row["netdev"]) for row in rows] == [
        (0, "IB/RoCE v1", "eth2"),
        (1, "RoCE v2", "eth2"),
        (2, "IB/RoCE v1", "eth2"),
        (3, "RoCE v2", "eth2"),
    ]
    assert rows[3]["gid"].endswith("ffff:0a01:0001")


def test_a_table_that_is_cut_short_is_refused():
    """Its last line says how many rows there are."""
    text = (DATA / "show_gids.txt").read_text()
    for cut in (text[: text.index("n_gids")], text.replace("n_gids_found=4", "n_gids_found=5"), ""):
        with pytest.raises(ValueError, match="show_gids was cut short"):
            rdma_text.show_gids(cut)


def test_ibv_devinfo_tells_the_active_mtu_of_each_port():
    """Not the largest possible one."""
    assert rdma_text.active_mtus((DATA / "ibv_devinfo.txt").read_text()) == {("mlx5_0", 1): 1024}
    assert rdma_text.active_mtus("No IB devices found") == {}


def test_why_libibverbs_has_no_device_is_in_the_words_of_ibv_devinfo():
    """The library's warning before the bare fact; nothing where it lists one, or could not ask at all."""
    abi = (
        "libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1 to 1) for device bnxt_re0"
    )
    assert rdma_text.why_none(f"{abi}\nNo IB devices found\n") == f"ibv_devinfo: {abi}"
    assert rdma_text.why_none("No IB devices found") == "ibv_devinfo: No IB devices found"
    assert rdma_text.why_none((DATA / "ibv_devinfo.txt").read_text()) == ""
    assert rdma_text.why_none(f"{abi}\nhca_id:\tmlx5_0\n") == ""
    assert rdma_text.why_none("Failed to get IB devices list: Unknown error -38") == ""


FDR10 = """CA 'mlx4_0'
\tCA type: MT4099
\tNumber of ports: 1
\tFirmware version: 2.42.5000
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 40 (FDR10)
\t\tBase lid: 3
\t\tSM lid: 1
\t\tLink layer: IB
"""


def test_a_rate_with_its_name_and_an_old_link_layer_are_read():
    """ibstat writes FDR10 behind the rate, and old versions wrote IB for InfiniBand."""
    (port,) = rdma_text.ibstat(FDR10)[0]["ports"]
    assert (port["rate_gbps"], port["link_layer"]) == (40.0, "InfiniBand")
