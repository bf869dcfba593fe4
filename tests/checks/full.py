"""A healthy cluster whose nodes tell everything that a node may tell: bonds, counters, quotas, cards, settings."""

from __future__ import annotations

import msgspec

from preflight.facts.subjects.gpu import Gpus
from preflight.facts.subjects.kernel import BondMember, LogEvent
from preflight.facts.subjects.network import Gateway, Interface
from preflight.facts.subjects.peers import Peers
from preflight.facts.subjects.rdma import Rdma
from preflight.testing import FakeRun
from tests.checks.samples import with_netdevs

BOND, MEMBERS = "eth0", ("ens1", "ens2")
OLD = (
    LogEvent("link", 0, "ens1", 200_000.0, "mlx5_core 0000:07:00.0 ens1: Link down"),
    LogEvent("xid", 31, "0000:07:00", 200_000.0, "NVRM: Xid (PCI:0000:07:00): 31, pid=1, name=python"),
)


def hardware_address(number: int, index: int) -> str:
    """Of the interface of a node."""
    return f"02:00:00:00:{number:02x}:{index:02x}"


def full(run: FakeRun) -> FakeRun:
    """The nodes of a run, each with a bond of two links and all that is not reported of the others."""
    run = with_netdevs(run)
    for number, name in enumerate(run.names, 1):
        run = with_bond(run, name, number)
        held = run.facts(name, "peers", Peers).routes
        routes = tuple(
            msgspec.structs.replace(
                route, mtu=9000, accepted_seconds=0.01, card=hardware_address(run.names.index(route.name) + 1, 2)
            )
            for route in held
            if route.name in run.names
        )
        run = run.broken(name, "peers", routes=routes).broken(name, "rdma", devices=with_cards(run, name, number))
        run = run.broken(name, "machine", rdma_driver="MLNX_OFED_LINUX-24.10-1.1.4.0", network_manager="netplan")
        run = run.broken(name, "software", requirements={"accelerate": {"torch": ">=2.0"}, "tqdm": {"torch": "<9"}})
    return run


def with_bond(run: FakeRun, name: str, number: int) -> FakeRun:
    """The training interface of a node is a bond, and all its links are counted."""
    run = run.broken_interface(name, BOND, speed_mbps=50000, is_physical=False)
    interfaces = run.subjects[name]["network"].interfaces
    more = tuple(
        Interface(
            name=member,
            index=30 + index,
            addresses=(),
            mtu=9000,
            speed_mbps=25000,
            is_up=True,
            is_loopback=False,
            is_physical=True,
        )
        for index, member in enumerate(MEMBERS)
    )
    told = tuple(
        msgspec.structs.replace(
            one,
            carrier_changes=2,
            duplex="full",
            mac=hardware_address(number, one.index),
            lanes=(16, 16),
            queue="mq",
            shaping="mq",
            offloads=("gro", "gso", "tso"),
        )
        if not one.is_loopback
        else one
        for one in (*interfaces, *more)
    )
    links = [one.name for one in told if not one.is_loopback]
    gateways = (Gateway(BOND, "10.0.0.254", "inet"), Gateway(BOND, "fe80::fe", "inet6"))
    run = run.broken(name, "network", interfaces=told, gateways=gateways, reserved_ports=100)
    run = run.broken(
        name,
        "kernel",
        bonds={BOND: dict.fromkeys(MEMBERS, True)},
        bond_modes={BOND: "IEEE 802.3ad Dynamic link aggregation"},
        bond_policies={BOND: "layer3+4"},
        bond_partners={BOND: "9c:05:91:aa:bb:cc"},
        bond_members=tuple(BondMember(BOND, member, 25000, 1, 1) for member in MEMBERS),
        log=OLD,
        link_errors=dict.fromkeys(links, 3),
        cgroup_cpus=64.0,
        cgroup_memory_bytes=200 << 30,
        cgroup_processes_held=0.1,
        cma_bytes=1 << 28,
        network_settings={"net.core.rmem_max": "67108864", "net.ipv4.tcp_rmem": "4096 131072 67108864"},
        settings={"vm.swappiness": "10", "kernel.numa_balancing": "0"},
    )
    return run.broken(
        name, "ending", carrier_changes=dict.fromkeys(links, 2), link_errors=dict.fromkeys(links, 3), log=OLD
    )


def with_cards(run: FakeRun, name: str, number: int) -> tuple[object, ...]:
    """The RDMA devices of a node, each a card of its own, near a GPU."""
    gpus = run.facts(name, "gpu", Gpus).readable()
    found = []
    for place, device in enumerate(run.facts(name, "rdma", Rdma).devices):
        ports = tuple(msgspec.structs.replace(port, label="p1") for port in device.ports)
        card = f"a088:c203:{number:04x}:{place:04x}"
        found.append(msgspec.structs.replace(device, ports=ports, card=card, pci=gpus[place].pci))
    return tuple(found)
