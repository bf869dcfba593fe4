"""NCCL_IB_HCA against devices, and what a GID is good for."""

from __future__ import annotations

import pytest

from preflight.facts import fabric
from preflight.facts.subjects.network import Address, Interface, Network
from preflight.facts.subjects.rdma import Gid, Rdma, RdmaDevice, RdmaPort
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing


def port(number=1, state="ACTIVE", link_layer="Ethernet", gids=()):
    """A port with GID rows (index, gid, kind, netdev)."""
    return RdmaPort(
        number=number,
        state=state,
        physical_state="LinkUp",
        rate_gbps=200.0,
        link_layer=link_layer,
        gids=tuple(Gid(*row) for row in gids),
        lid=Missing("none", "absent"),
        sm_lid=Missing("none", "absent"),
        counters={},
    )


def device(name, *ports):
    """A device with ports."""
    none = Missing("none", "absent")
    return RdmaDevice(name=name, firmware=none, board=none, node_type=none, ports=ports or (port(),))


RDMA = Rdma(devices=(device("mlx5_0", port(1), port(2)), device("mlx5_1"), device("mlx5_10"), device("rocep1s0")))


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        ("", ["mlx5_0:1", "mlx5_0:2", "mlx5_1:1", "mlx5_10:1", "rocep1s0:1"]),
        ("mlx5_1", ["mlx5_1:1", "mlx5_10:1"]),
        ("=mlx5_1", ["mlx5_1:1"]),
        ("mlx5_0:1", ["mlx5_0:1"]),
        ("mlx5_0:1,mlx5_1:1", ["mlx5_0:1", "mlx5_1:1", "mlx5_10:1"]),
        ("=mlx5_0:2,mlx5_10", ["mlx5_0:2", "mlx5_10:1"]),
        ("^mlx5_0", ["mlx5_1:1", "mlx5_10:1", "rocep1s0:1"]),
        ("^mlx5_0:2", ["mlx5_0:1", "mlx5_1:1", "mlx5_10:1", "rocep1s0:1"]),
        ("^=mlx5_1,rocep1s0", ["mlx5_0:1", "mlx5_0:2", "mlx5_10:1"]),
        ("mlx5_0:3", []),
        ("mlx4", []),
    ],
)
def test_the_hca_list_is_read_as_nccl_reads_it(value, chosen):
    """Prefixes, ports, `=`, `^` and their combinations."""
    assert [hca.name for hca in fabric.chosen_hcas(RDMA, value)] == chosen


def test_entries_without_a_device_are_named():
    """Each entry is looked up on its own, exact or as a prefix as the list says."""
    assert fabric.unmatched(RDMA, "mlx5_0,mlx5_7,mlx5_0:3") == ("mlx5_7", "mlx5_0:3")
    assert fabric.unmatched(RDMA, "=mlx5,mlx5_1") == ("mlx5",)
    assert fabric.unmatched(RDMA, "^mlx4_0") == ("mlx4_0",)
    assert fabric.unmatched(RDMA, "mlx5") == ()


def test_the_prefix_trap_is_seen():
    """mlx5_1 takes mlx5_10 unless the list is exact or names it; a mere prefix is meant as one."""
    assert fabric.taken_by_prefix(RDMA, "mlx5_0,mlx5_1") == {"mlx5_1": ("mlx5_10",)}
    assert fabric.taken_by_prefix(RDMA, "=mlx5_0,mlx5_1") == {}
    assert fabric.taken_by_prefix(RDMA, "mlx5_1,mlx5_10") == {}
    assert fabric.taken_by_prefix(RDMA, "mlx5") == {}
    assert fabric.taken_by_prefix(RDMA, "^mlx5_1") == {"mlx5_1": ("mlx5_10",)}


def test_only_active_ports_of_a_known_link_layer_are_used():
    """NCCL passes over a port that is down without a word."""
    states = [port(1), port(2, state="DOWN"), port(3, state="INIT"), port(4, link_layer="Unspecified")]
    assert [hca.is_active for hca in fabric.hcas(Rdma(devices=(device("mlx5_0", *states),)))] == [
        True,
        False,
        False,
        False,
    ]


V1 = "IB/RoCE v1"
V2 = "RoCE v2"
LINK_LOCAL = "fe80:0000:0000:0000:0ac0:ebff:fe12:3456"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:0001"
OTHER = "0000:0000:0000:0000:0000:ffff:0a09:0001"
GLOBAL = "fd00:0000:0000:0000:0ac0:ebff:fe12:3456"


@pytest.mark.parametrize(
    ("gid", "kind", "told", "is_routable"),
    [
        (LINK_LOCAL, V1, (1, "link-local", "fe80::ac0:ebff:fe12:3456"), False),
        (LINK_LOCAL, V2, (2, "link-local", "fe80::ac0:ebff:fe12:3456"), False),
        (MAPPED, V1, (1, "ipv4", "10.0.0.1"), False),
        (MAPPED, V2, (2, "ipv4", "10.0.0.1"), True),
        ("::ffff:10.0.0.1", "RoCE v2\n", (2, "ipv4", "10.0.0.1"), True),
        (GLOBAL, V2, (2, "ipv6", "fd00::ac0:ebff:fe12:3456"), True),
        ("::ffff:169.254.3.4", V2, (2, "link-local", "169.254.3.4"), False),
        (GLOBAL, Missing("no such file"), (None, "ipv6", "fd00::ac0:ebff:fe12:3456"), False),
        ("0000:0000:0000:0000:0000:0000:0000:0000", V2, (2, "empty", ""), False),
        ("fe80:0000:0000:0000:0000:0000:0000:0000", V1, (1, "empty", ""), False),
        ("::ffff:0.0.0.0", V2, (2, "empty", ""), False),
        ("nonsense", V2, (2, "empty", ""), False),
    ],
)
def test_a_gid_tells_version_scope_and_address(gid, kind, told, is_routable):
    """RoCE v2 with a real address is routable; link-local, v1 and untold versions are not."""
    found = fabric.classify(Gid(3, gid, kind, "eth0"))
    assert (found.roce_version, found.scope, found.address) == told
    assert found.is_routable is is_routable


def network(*addresses):
    """A node whose eth0 has these addresses."""
    held = tuple(Address(a, 24, "inet6" if ":" in a else "inet") for a in addresses)
    eth0 = Interface(
        name="eth0",
        index=2,
        addresses=held,
        mtu=9000,
        speed_mbps=100000,
        is_up=True,
        is_loopback=False,
        is_physical=True,
    )
    return Network(interfaces=(eth0,), gateways=(), ephemeral_ports=(32768, 60999))


TABLE = (
    (0, LINK_LOCAL, V1, "eth0"),
    (1, LINK_LOCAL, V2, "eth0"),
    (2, OTHER, V1, "eth0"),
    (3, OTHER, V2, "eth0"),
    (4, GLOBAL, V2, "eth0"),
    (5, MAPPED, V2, "eth0"),
)


def test_the_best_gid_is_the_ipv4_address_of_the_netdev():
    """Of several routable rows the one with an address the interface really has wins, then IPv4, then the first."""
    assert fabric.best_gid(port(gids=TABLE), network("10.0.0.1")).index == 5
    assert fabric.best_gid(port(gids=TABLE), network("192.0.2.1")).index == 3
    assert fabric.best_gid(port(gids=TABLE[:3] + TABLE[4:5]), network("192.0.2.1")).index == 4


def test_a_port_without_a_routable_gid_tells_what_it_has():
    """The reason lists the rows."""
    with pytest.raises(FactMissing, match=r"no RoCE v2 GID with an IP address \(0: RoCE v1 link-local fe80::") as told:
        fabric.best_gid(port(gids=TABLE[:3]), network("10.0.0.1"))
    assert told.value.kind == "absent"
