"""Tests of preflight.node.subjects.rdma."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from preflight.facts.subjects.rdma import Rdma
from preflight.facts.value import Missing
from preflight.node.subjects import rdma
from tests.recordings import FIELD, needs_recordings

EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
PREFIX_ONLY = "fe80:0000:0000:0000:0000:0000:0000:0000"
LINK_LOCAL = "fe80:0000:0000:0000:0ac0:ebff:fe00:0001"
ROUTABLE = "0000:0000:0000:0000:0000:ffff:0a00:0001"
PORT = {
    "state": "4: ACTIVE\n",
    "phys_state": "5: LinkUp\n",
    "rate": "200 Gb/sec (4X HDR)\n",
    "link_layer": "Ethernet\n",
    "lid": "0x0\n",
    "sm_lid": "0x0\n",
    "gids/0": LINK_LOCAL,
    "gids/1": EMPTY_GID,
    "gids/2": PREFIX_ONLY,
    "gids/3": ROUTABLE,
    "gids/10": ROUTABLE,
    "gid_attrs/types/0": "IB/RoCE v1\n",
    "gid_attrs/types/3": "RoCE v2\n",
    "gid_attrs/ndevs/3": "eth2\n",
    "counters/link_downed": "2\n",
    "counters/port_xmit_wait": "N/A (no PMA)\n",
    "counters/symbol_error": "18446744073709551615\n",
    "hw_counters/out_of_sequence": "5\n",
}


def build(sysfs, files, *, device="mlx5_0"):
    for path, text in files.items():
        file = sysfs / "class/infiniband" / device / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return sysfs


def roce(sysfs, **changes):
    port = {**PORT, **changes}
    files = {"fw_ver": "20.35.1012\n", "board_id": "MT_0000000223\n", "node_type": "1: CA\n"}
    return build(sysfs, {**files, **{f"ports/1/{name}": text for name, text in port.items()}})


def decoded(sysfs, **more):
    return msgspec.convert(
        rdma.collect({"sysfs": os.fspath(sysfs), "proc": os.fspath(sysfs), "environment": [], **more}),
        type=Rdma,
        strict=True,
    ).devices


def test_a_healthy_port_is_told_in_full(tmp_path):
    """State, rate, GIDs in the order of their index and whole counters are read from the files."""
    (device,) = decoded(roce(tmp_path))
    assert (device.name, device.firmware, device.node_type) == ("mlx5_0", "20.35.1012", "CA")
    (port,) = device.ports
    assert (port.state, port.physical_state, port.rate_gbps) == ("ACTIVE", "LinkUp", 200.0)
    assert [gid.index for gid in port.gids] == [0, 3, 10]
    assert (port.gids[1].gid, port.gids[1].kind, port.gids[1].netdev) == (ROUTABLE, "RoCE v2", "eth2")
    assert port.counters == {"link_downed": 2, "out_of_sequence": 5}


def test_a_gid_type_that_cannot_be_read_is_missing(tmp_path):
    """A row keeps its address when the kernel refuses its type; a row without an interface id is left out."""
    sysfs = roce(tmp_path)
    types = tmp_path / "class/infiniband/mlx5_0/ports/1/gid_attrs/types"
    (types / "10").mkdir()  # reading it fails, as EINVAL does on a real port
    gids = decoded(sysfs)[0].ports[0].gids
    assert gids[2].kind == Missing("Is a directory", "failed")
    assert gids[0].netdev == Missing("No such file or directory", "absent")


@pytest.mark.parametrize("text", ["", "fast", "1e3 Gb/sec", "200 Mb/sec", "nan Gb/sec", "-1 Gb/sec"])
def test_a_rate_of_another_form_is_missing(tmp_path, text):
    """A rate is a figure in Gb/sec or missing, never 0."""
    rate = decoded(roce(tmp_path, rate=text))[0].ports[0].rate_gbps
    assert isinstance(rate, Missing)
    assert rate.kind == "failed"


def test_an_empty_device_still_counts(tmp_path):
    """A device whose files have all gone, as behind a dangling link, is told without ports."""
    (tmp_path / "class/infiniband").mkdir(parents=True)
    (tmp_path / "class/infiniband/mlx5_9").symlink_to("../../devices/gone")
    (device,) = decoded(tmp_path)
    assert device.ports == ()
    assert device.firmware == Missing("No such file or directory", "absent")


def test_a_port_without_files_is_not_active(tmp_path):
    """A port that tells nothing has an unknown state; nothing is assumed."""
    (tmp_path / "class/infiniband/mlx5_0/ports/1").mkdir(parents=True)
    (port,) = decoded(tmp_path)[0].ports
    assert port.state == port.link_layer == "UNKNOWN"
    assert isinstance(port.rate_gbps, Missing)


def test_a_node_without_the_class_has_no_device(tmp_path):
    """No /sys/class/infiniband means no RDMA, which is known and not missing."""
    assert decoded(tmp_path) == ()


def with_links(source, target):
    """A copy of a tree in which the class entries, kept as text files, are links again."""
    shutil.copytree(source, target)
    for entry in (target / "class/infiniband").iterdir():
        if entry.is_file():
            text = entry.read_text()
            entry.unlink()
            entry.symlink_to(text)
    return target


@needs_recordings
def test_the_trees_of_real_hosts_are_read(tmp_path):
    """Every recorded tree gives devices with a port of a known state and rate."""
    for source in sorted((FIELD / "infiniband").iterdir()):
        devices = decoded(with_links(source / "sys", tmp_path / source.name))
        assert devices, source.name
        for device in devices:
            for port in device.ports:
                assert port.state in ("ACTIVE", "DOWN", "INIT"), source.name
                assert isinstance(port.rate_gbps, float), source.name
    mellanox = decoded(tmp_path / "hwloc-32em64t-2n8c_dax_nvme_mic_dimms")[0]
    assert [(port.rate_gbps, port.lid, len(port.gids)) for port in mellanox.ports] == [(56.0, "0x3a4", 1)]
    mixed = decoded(tmp_path / "procfs-mixed-hfi1-mlx4-mlx5")
    assert [(device.name, len(device.ports)) for device in mixed] == [("hfi1_0", 1), ("mlx4_0", 2), ("mlx5_0", 1)]


def test_lanes_partitions_and_mtu_are_told(tmp_path):
    """The width stands behind the rate, RoCE's MTU follows its netdev's, empty partitions at the end are left out."""
    sysfs = roce(tmp_path, **{"pkeys/0": "0xffff", "pkeys/1": "0x0000", "pkeys/2": "0x8001", "pkeys/10": "0x0000"})
    netdev = tmp_path / "class/net/eth2"
    netdev.mkdir(parents=True)
    for mtu, active in (("1500", 1024), ("9000", 4096), ("4191", 2048)):
        (netdev / "mtu").write_text(f"{mtu}\n")
        (port,) = decoded(sysfs)[0].ports
        assert (port.width, port.active_mtu) == (4, active)
    assert port.pkeys == ("0xffff", "0x0000", "0x8001")


def test_the_vlan_of_a_row_is_that_of_its_netdev(tmp_path):
    """A netdev that /proc/net/vlan lists has a tag; others have none."""
    sysfs = roce(tmp_path)
    (tmp_path / "net/vlan").mkdir(parents=True)
    (tmp_path / "net/vlan/eth2").write_text("eth2  VID: 70\t REORDER_HDR: 1  dev->priv_flags: 1021\n")
    gids = {gid.index: gid.vlan for gid in decoded(sysfs)[0].ports[0].gids}
    assert gids[3] == 70
    assert isinstance(gids[0], Missing)


def test_a_device_file_is_opened_and_not_only_seen(tmp_path):
    """Whether a program may use an adapter is known when it was opened; of a tree elsewhere nothing is said."""
    sysfs = build(roce(tmp_path), {"device/infiniband_verbs/uverbs0/dev": "231:192\n"})
    dev = tmp_path / "dev"
    assert decoded(sysfs, dev=os.fspath(dev))[0].open_error == f"{dev}/infiniband/uverbs0: No such file or directory"
    (dev / "infiniband").mkdir(parents=True)
    (dev / "infiniband/uverbs0").write_text("")
    assert decoded(sysfs, dev=os.fspath(dev))[0].open_error == ""
    assert isinstance(decoded(sysfs)[0].open_error, Missing)


def test_programs_tell_where_sysfs_does_not(tmp_path):
    """Without /sys/class/infiniband but with its device files, ibstat and show_gids are asked; what fails is told."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tmp_path / "dev/infiniband").mkdir(parents=True)
    data = Path(__file__).parents[2] / "data/rdma"
    for name in ("ibstat", "show_gids"):
        (tools / name).write_text(f"#!/bin/sh\ncat {data}/{name}.txt\n")
        (tools / name).chmod(0o755)
    more = {"dev": os.fspath(tmp_path / "dev"), "environment": [["--env", {"PATH": f"{tools}:/usr/bin:/bin"}]]}
    first, second = decoded(tmp_path / "none", **more)
    assert [gid.index for gid in first.ports[0].gids] == [0, 1, 2, 3]
    assert (second.ports[0].state, second.ports[0].physical_state) == ("DOWN", "Polling")
    (tools / "ibstat").write_text(f"#!/bin/sh\nhead -c 300 {data}/ibstat.txt\n")
    with pytest.raises(ValueError, match="cut short at mlx5_0"):
        decoded(tmp_path / "none", **more)


def test_ibv_devinfo_tells_the_active_mtu(tmp_path):
    """The kernel has no file of it."""
    tools = tmp_path / "bin"
    tools.mkdir()
    data = Path(__file__).parents[2] / "data/rdma/ibv_devinfo.txt"
    (tools / "ibv_devinfo").write_text(f"#!/bin/sh\ncat {data}\n")
    (tools / "ibv_devinfo").chmod(0o755)
    more = {"dev": os.fspath(tmp_path), "environment": [["--env", {"PATH": f"{tools}:/usr/bin:/bin"}]]}
    assert decoded(roce(tmp_path, link_layer="InfiniBand"), **more)[0].ports[0].active_mtu == 1024


def test_why_ibv_devinfo_told_nothing_is_said(tmp_path):
    """Its own words, in place of an MTU that no driver reports."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "ibv_devinfo").write_text("#!/bin/sh\necho Failed to get IB devices list: Unknown error -38 >&2\nexit 1\n")
    (tools / "ibv_devinfo").chmod(0o755)
    more = {"dev": os.fspath(tmp_path), "environment": [["--env", {"PATH": f"{tools}:/usr/bin:/bin"}]]}
    mtu = decoded(roce(tmp_path, link_layer="InfiniBand"), **more)[0].ports[0].active_mtu
    assert (mtu.kind, "Failed to get IB devices list" in mtu.missing) == ("absent", True)


@pytest.mark.parametrize(("link_layer", "is_told"), [("Ethernet", True), ("InfiniBand", True), ("Unspecified", False)])
def test_a_device_that_libibverbs_does_not_see_cannot_be_opened(tmp_path, link_layer, is_told):
    """The kernel has it, and the library on the node is older than its driver; EFA's has a library of its own."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "ibv_devinfo").write_text("#!/bin/sh\necho No IB devices found >&2\nexit 255\n")
    (tools / "ibv_devinfo").chmod(0o755)
    folder = roce(tmp_path, link_layer=link_layer)
    (folder / "class/infiniband/mlx5_0/device/infiniband_verbs/uverbs0").mkdir(parents=True)
    (tmp_path / "infiniband").mkdir()
    (tmp_path / "infiniband/uverbs0").touch()
    more = {"dev": os.fspath(tmp_path), "environment": [["--env", {"PATH": f"{tools}:/usr/bin:/bin"}]]}
    error = decoded(folder, **more)[0].open_error
    assert ("No IB devices found" in str(error)) is is_told
