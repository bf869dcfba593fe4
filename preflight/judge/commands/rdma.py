"""Which commands put RDMA ports, and NCCL's choice of them and of their GIDs, right?"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from preflight.facts import fabric
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.network import Interface
from preflight.facts.value import Missing, present
from preflight.judge.commands.environment import without
from preflight.judge.commands.network import mtu
from preflight.judge.commands.words import (
    Case,
    Remedy,
    Row,
    as_file,
    as_root,
    exported,
    into_file,
    of_the_others,
    sudo,
)
from preflight.judge.tables import gids
from preflight.judge.tables.rdma import parity
from preflight.said import values_in
from preflight.said.errors import FactMissing

PRIORITIES = 8
LARGEST_MTU = 4096
FRAMES_FOR_LARGEST = 4200  # what a netdev's MTU has to be for 4096 bytes with their headers


def _hca(case: Case, field: str = "name") -> str:
    """The port that differs, of those that the node has: "mlx5_3:1"."""
    name: str = case.value(field)
    if name not in (hca.name for hca in fabric.hcas(case.node.rdma)):
        raise FactMissing("port", "the node has none of that name")
    return name


def _netdev(case: Case, name: str) -> str:
    """The interface of an RoCE port."""
    for hca in fabric.hcas(case.node.rdma):
        if hca.name == name:
            for gid in hca.port.gids:
                if hca.is_roce and isinstance(gid.netdev, str):
                    return gid.netdev
    raise FactMissing(f"interface of {name}", "no row of its table names one")


def _without_its_port(hca: fabric.Hca, node: NodeFacts) -> str:
    device = next(device for device in node.rdma.devices if device.name == hca.device)
    return hca.device if len(device.ports) == 1 else hca.name


def _choice(node: NodeFacts, hcas: list[fabric.Hca]) -> Remedy:
    names = [_without_its_port(hca, node) for hca in hcas]
    if not names:
        raise FactMissing("RDMA ports", "none is left to name")
    return exported(NCCL_IB_HCA="=" + ",".join(names))


def _usable(case: Case) -> Remedy:
    """The active ports of the node: of the fabric's kind where there are two."""
    active = [hca for hca in fabric.hcas(case.node.rdma) if hca.is_active]
    of_infiniband = [hca for hca in active if not hca.is_roce]
    return _choice(case.node, of_infiniband or active)


def _exact(case: Case) -> Remedy:
    return exported(NCCL_IB_HCA=f"={case.node.value('NCCL_IB_HCA')}")


def _meant(node: NodeFacts) -> list[fabric.Hca]:
    """The active ports that NCCL takes now, without those that an entry of NCCL_IB_HCA takes as a prefix alone."""
    trapped = fabric.taken_by_prefix(node.rdma, node.value("NCCL_IB_HCA"))
    more = {name for names in trapped.values() for name in names}
    return [hca for hca in node.active_hcas() if hca.device not in more]


def _fast(case: Case) -> Remedy:
    """The active ports that NCCL takes now, without those slower than the fastest."""
    active = _meant(case.node)
    rates = {hca.name: hca.port.rate_gbps for hca in active if not isinstance(hca.port.rate_gbps, Missing)}
    return _choice(case.node, [hca for hca in active if rates.get(hca.name, 0.0) >= max(rates.values(), default=0.0)])


def _own(case: Case) -> Remedy:
    """The node's own names for the ports that it uses."""
    return _choice(case.node, _meant(case.node))


def _gid(case: Case) -> Remedy:
    """The row of the node's own tables; no row at all where they differ and NCCL finds each by itself."""
    found = gids.right_indices(case.node, subnets=_common_subnets(case))
    if set(found) != {hca.name for hca in case.node.active_hcas() if hca.is_roce}:
        raise FactMissing("GID index", "a port has no row that can be routed: its interface lacks its address")
    indexes = set(found.values())
    if len(indexes) == 1:
        return exported(NCCL_IB_GID_INDEX=str(indexes.pop()))
    if indexes and case.node.nccl_chooses_gids():
        return without(case.node, "NCCL_IB_GID_INDEX")
    raise FactMissing("GID index", "no row is right for every port")


def _common_subnets(case: Case) -> dict[str, str]:
    """Port -> the subnet that most nodes have, where it is that what differs."""
    found: dict[str, str] = next(values_in(case.sentence, "subnets"), {})
    return found


def _up(case: Case) -> Remedy:
    """The interfaces of RoCE ports that are down."""
    down = [hca for hca in case.node.hcas() if not hca.is_up and hca.is_roce]
    names = [_netdev(case, hca.name) for hca in down]
    held = {interface.name: interface for interface in case.node.network.interfaces}
    low = [name for name in names if name in held and not held[name].is_up]
    if not low:
        raise FactMissing("interface", "none of a port that is down is switched off")
    return Remedy(" && ".join(as_root(case.node, "ip", "link", "set", "dev", name, "up") for name in low))


def _driver(case: Case) -> Remedy:
    names = ("mlx5_ib", "ib_uverbs")
    now = as_root(case.node, "modprobe", "-a", *names)
    return Remedy(now, into_file(case.node, "/etc/modules-load.d/90-preflight-rdma.conf", *names))


def _opened(case: Case) -> Remedy:
    if case.node.identity.context == "container":
        raise FactMissing("devices", "the container is given them where it starts")
    error = case.value("error")  # as the node itself gave it
    if "ermission" in error or "EACCES" in error:
        rule = 'KERNEL=="uverbs*", MODE="0666"'
        lasting = as_file(case.node, "/etc/udev/rules.d/90-preflight-rdma.rules", rule)
        return Remedy(f"{sudo(case.node)}chmod a+rw /dev/infiniband/uverbs*", lasting)
    now = as_root(case.node, "modprobe", "-a", "ib_uverbs")
    return Remedy(now, into_file(case.node, "/etc/modules-load.d/90-preflight-rdma.conf", "ib_uverbs"))


def _interface(node: NodeFacts, name: str) -> Interface:
    return node.network.interface(name)


def _of_port(values: Mapping[str, str | Missing], name: str) -> str:
    """What a node's port of that name has. Raises FactMissing where it has no such port, or does not tell."""
    if name not in values:
        raise FactMissing(name, "the node has no such port in use", "absent")
    return present(values[name], name)


def _mtu(case: Case) -> Remedy:
    """That of the same port's interface on the others; 4200 and more carries 4096 bytes."""
    name = _hca(case)
    netdev = _netdev(case, name)
    wanted_active = of_the_others(case, lambda node: _of_port(parity.active_mtus(node), name), f"active MTU of {name}")
    try:
        wanted = of_the_others(case, lambda node: _interface(node, netdev).mtu, f"mtu of {netdev}")
    except FactMissing:
        wanted = 0
    least = int(wanted_active) + FRAMES_FOR_LARGEST - LARGEST_MTU
    return mtu(case.node, netdev, max(wanted, least))


def _large_mtu(case: Case) -> Remedy:
    """For 4096 bytes and their headers, on every RoCE port that has less."""
    small = [
        hca
        for hca in case.node.active_hcas()
        if hca.is_roce and isinstance(hca.port.active_mtu, int) and hca.port.active_mtu < LARGEST_MTU
    ]
    remedies = [mtu(case.node, _netdev(case, hca.name), FRAMES_FOR_LARGEST) for hca in small]
    if not remedies:
        raise FactMissing("interface", "the subnet manager sets the MTU of InfiniBand")
    lasting = remedies[0].lasting if len(remedies) == 1 else "# to last: the same in the configuration of the network"
    return Remedy(" && ".join(remedy.now for remedy in remedies), lasting)


def _partition(case: Case) -> Remedy:
    """The row of the node's own table that holds the others' partition."""
    name = _hca(case)
    wanted = of_the_others(case, lambda node: _of_port(parity.partitions(node), name), f"partition of {name}")
    for hca in fabric.hcas(case.node.rdma):
        if hca.name == name:
            for place, key in enumerate(present(hca.port.pkeys, "partition keys")):
                if f"0x{int(key, 16) & 0x7FFF:04x}" == wanted:
                    return exported(NCCL_IB_PKEY=str(place))
    raise FactMissing("partition", f"the table has no {wanted}")


def _flow_control(case: Case) -> Remedy:
    """The setting that differs, as the others have it, by the tool or file of its driver."""
    hca, words = _hca(case, "port"), parity.FLOW_CONTROL[case.value("setting")]
    netdev, setting = _netdev(case, hca), f"{hca}: {words}"
    wanted = of_the_others(case, lambda node: _of_port(parity.flow_control(node), setting), setting)
    device, _, port = hca.partition(":")
    lasting = "# lost at a reboot: the same line in a unit that runs at boot"
    if words == parity.FLOW_CONTROL["trust"]:
        return Remedy(as_root(case.node, "mlnx_qos", "-i", netdev, "--trust", wanted), lasting)
    if words == parity.FLOW_CONTROL["pfc_priorities"]:
        mask = ",".join(
            "1" if str(number) in wanted.replace(" ", "").split(",") else "0" for number in range(PRIORITIES)
        )
        return Remedy(as_root(case.node, "mlnx_qos", "-i", netdev, "--pfc", mask), lasting)
    if words == parity.FLOW_CONTROL["traffic_class"] and wanted.isdecimal():
        file = shlex.quote(f"/sys/class/infiniband/{device}/tc/{port}/traffic_class")
        return Remedy(f"printf '%s\\n' {wanted} | {sudo(case.node)}tee {file} >/dev/null", lasting)
    if words == parity.FLOW_CONTROL["ecn_priorities"]:
        commands = []
        on = wanted.replace(" ", "").split(",")
        for number in range(PRIORITIES):
            for side in ("roce_np", "roce_rp"):
                file = shlex.quote(f"/sys/class/net/{netdev}/ecn/{side}/enable/{number}")
                commands.append(f"printf '%s\\n' {int(str(number) in on)} | {sudo(case.node)}tee {file} >/dev/null")
        return Remedy(" && ".join(commands), lasting)
    raise FactMissing(setting, "no tool sets it")


def _iwarp(case: Case) -> Remedy:
    file = "/etc/modprobe.d/90-preflight-irdma.conf"
    line = "options irdma roce_ena=1"
    reload = f"{as_root(case.node, 'modprobe', '-r', 'irdma')} && {as_root(case.node, 'modprobe', 'irdma')}"
    return Remedy(f"{as_file(case.node, file, line)} && {reload}")


def _peermem(case: Case) -> Remedy:
    now = as_root(case.node, "modprobe", "nvidia_peermem")
    return Remedy(now, into_file(case.node, "/etc/modules-load.d/90-preflight-peermem.conf", "nvidia_peermem"))


CHOICE = "rdma.choice_of_ports_is_sound"
ROWS: dict[str, Row] = {
    "rdma.nccl_ib_hca_matches_a_port": _usable,
    "rdma.nccl_ib_hca_takes_no_more_than_it_names": _exact,
    "rdma.infiniband_adapters_have_their_driver": _driver,
    "rdma.ports_are_active": _up,
    "rdma.gid_index_exists_on_every_node": _gid,
    "rdma.gid_index_is_routable_roce_v2": _gid,
    "rdma.gid_index_means_the_same_on_every_node": _gid,
    "rdma.gid_index_leads_to_one_network": _gid,
    "rdma.devices_can_be_opened": _opened,
    "rdma.active_mtu_is_the_same_on_every_node": _mtu,
    "rdma.active_mtu_is_enough_for_device_initiated_traffic": _large_mtu,
    "rdma.partition_is_the_same_on_every_node": _partition,
    "rdma.flow_control_is_the_same_on_every_node": _flow_control,
    f"{CHOICE}: protocol of the adapters": _iwarp,
    f"{CHOICE}: NCCL_IGNORE_NET_MISMATCH": lambda case: without(case.node, "NCCL_IGNORE_NET_MISMATCH"),
    f"{CHOICE}: link layers of the ports": _usable,
    f"{CHOICE}: rates of like adapters": _fast,
    f"{CHOICE}: GID that NCCL chooses": _gid,
    f"{CHOICE}: GID index of old NCCL": _gid,
    "rdma.devices_have_the_same_names_on_every_node": _own,
    "rdma.adapters_reach_gpu_memory": _peermem,
}
