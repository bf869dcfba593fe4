"""Which facts of the RDMA ports should be the same on all nodes?"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from preflight.facts.cluster import Cluster
from preflight.facts.fabric import Hca
from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing
from preflight.judge.tables import faults
from preflight.said import knowing, said
from preflight.said.errors import FactMissing, NotApplicable


def active_mtus(node: NodeFacts) -> dict[str, str | Missing]:
    """Each active port -> its active MTU; one whose netdev is the training interface is that interface's matter."""
    own = "" if isinstance(node.network.training, Missing) else node.network.training
    found: dict[str, str | Missing] = {}
    for hca in node.active_hcas():
        is_own = hca.is_roce and any(gid.netdev == own for gid in hca.port.gids)
        if not is_own:
            mtu = hca.port.active_mtu
            found[hca.name] = mtu if isinstance(mtu, Missing) else str(mtu)
    return found


def rates(node: NodeFacts) -> dict[str, str | Missing]:
    """Each active port -> its rate and kind of link."""
    return {hca.name: hca.port.rate_text() for hca in node.active_hcas()}


def lost_ports(ports: Mapping[str, Collection[Hca]]) -> frozenset[str]:
    """The names of ports that are down on a node of own names with fewer active ones than another of these has."""
    alike = faults.of_own_names({node: [hca.name for hca in hcas] for node, hcas in ports.items()})
    active = {node: sum(hca.is_up for hca in ports[node]) for node in alike}
    return frozenset(
        hca.name for node in alike if active[node] < max(active.values()) for hca in ports[node] if not hca.is_up
    )


def same_mtus(cluster: Cluster) -> None:
    """Each port has one active MTU on all nodes; NotApplicable where none tells any."""
    reported = [mtu for mtus in faults.values_by_node(cluster, active_mtus).values() for mtu in mtus.values()]
    if all(isinstance(mtu, Missing) and mtu.kind == "absent" for mtu in reported):
        raise NotApplicable("active MTU: no port reports it")
    faults.same_of_ports(cluster, active_mtus, "active MTU")


FLOW_CONTROL = {
    "pfc_priorities": "lossless priorities (PFC)",
    "ecn_priorities": "priorities with ECN",
    "trust": "marking that the adapter trusts",
    "traffic_class": "default traffic class",
}


def flow_control(node: NodeFacts) -> dict[str, str | Missing]:
    """What each active RoCE port and each of its settings is; what no tool or driver of the node tells is left out."""
    found: dict[str, str | Missing] = {}
    for hca in node.active_hcas():
        for name, words in FLOW_CONTROL.items() if hca.is_roce else ():
            value = getattr(hca.port, name)
            if not isinstance(value, Missing):
                found[knowing(said("{port}: {words}", hca.name, words), setting=name)] = value
    if not found:
        raise FactMissing("flow control", "no port of this node reports it", "absent")
    return found


def requests(node: NodeFacts) -> dict[str, str | Missing]:
    """Each adapter with an active port -> how it asks for memory over PCIe."""
    used = {hca.device for hca in node.active_hcas()}
    found: dict[str, str | Missing] = {}
    for device in node.rdma.devices:
        if device.name in used:
            held = device.requests
            found[device.name] = held if isinstance(held, Missing) else held.text()
    if all(isinstance(held, Missing) and held.kind == "absent" for held in found.values()):
        raise FactMissing("requests over PCIe", "no adapter reports them", "absent")
    return found


def partitions(node: NodeFacts) -> dict[str, str | Missing]:
    """Each active InfiniBand port -> the partition that NCCL takes: the row at NCCL_IB_PKEY, else the first."""
    text = node.value("NCCL_IB_PKEY")
    row = int(text) if text.isdecimal() else 0
    found: dict[str, str | Missing] = {}
    for hca in node.active_hcas():
        keys = hca.port.pkeys
        if hca.port.link_layer == "InfiniBand" and isinstance(keys, Missing):
            found[hca.name] = keys
        elif hca.port.link_layer == "InfiniBand" and not isinstance(keys, Missing):
            found[hca.name] = f"0x{int(keys[row], 16) & 0x7FFF:04x}" if row < len(keys) else "none"
    if all(isinstance(keys, Missing) and keys.kind == "absent" for keys in found.values()):
        raise FactMissing("partition keys", "no InfiniBand port reports any", "absent")
    return found
