"""What can be wrong with an RDMA port that the job may use?

Sources: the InfiniBand Architecture Specification (states, partition keys) and field cases by their issue.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable

from preflight.facts.cluster import Cluster
from preflight.facts.fabric import Hca, classify
from preflight.facts.node import NodeFacts
from preflight.facts.value import present
from preflight.judge.tables.faults import Fault
from preflight.knowledge.variables.interfaces import parse_patterns
from preflight.said import said
from preflight.said.errors import FactMissing, NotApplicable

FULL_MEMBER = 0x8000


def _unopenable(hca: Hca) -> str:
    error = present(hca.open_error, "device file")
    return said("it cannot be opened: {error}", error) if error else ""


OPENABLE = (
    Fault(
        "device file",
        _unopenable,
        "give the container its devices (`--device=/dev/infiniband`, on Kubernetes the device plugin's resource), and "
        "load ib_uverbs on the nodes named; all nodes must open the same set; where libibverbs sees no device, install "
        "there the vendor's libraries of the driver's version (rdma-core, libbnxt_re)",
        "NVIDIA/nccl#2428, NVIDIA/nccl#451, k8snetworkplumbingwg/sriov-cni#348",
    ),
)


def to_open(cluster: Cluster) -> Callable[[NodeFacts], Iterable[tuple[str, Hca]]]:
    """The ports that a node should be able to open: all that NCCL_IB_HCA takes.

    Of a container that was given a part of its machine's it is those that are named in full, and as many as its peers
    were given: where it has fewer, all that it sees.
    """
    most = max(cluster.gather(lambda node: len(node.hcas()) if node.rdma.devices else 0).values(), default=0)

    def ports(node: NodeFacts) -> Iterable[tuple[str, Hca]]:
        held = node.hcas() if node.rdma.devices else ()
        every = node.hcas_named() if held else ()
        patterns = parse_patterns(node.value("NCCL_IB_HCA"))
        written = set() if patterns.is_exclusion else {entry.name for entry in patterns.entries}
        return [(hca.name, hca) for hca in every if len(held) < most or hca in held or hca.device in written]

    return ports


def closed_to_libfabric(node: NodeFacts) -> list[str]:
    """The device files beside EFA's that are there and may not be opened; NotApplicable without EFA.

    A file that the container was not given is none that libfabric opens.
    """
    is_efa = {one.name: any(port.link_layer == "Unspecified" for port in one.ports) for one in node.rdma.devices}
    if not any(is_efa.values()):
        raise NotApplicable("no EFA on this node")
    errors = [one.open_error for one in node.rdma.devices if not is_efa[one.name]]
    told = [error for error in errors if isinstance(error, str) and error]
    return [error for error in told if not error.endswith(os.strerror(errno.ENOENT))]


def _unmanaged(hca: Hca) -> str:
    if hca.port.link_layer != "InfiniBand":
        raise NotApplicable("the link is not InfiniBand")
    waits = hca.port.state in ("INIT", "ARMED")
    return said("it waits for a subnet manager ({state_text})", hca.port.state_text()) if waits else ""


def _limited(hca: Hca) -> str:
    if hca.port.link_layer != "InfiniBand":
        raise NotApplicable("the link is not InfiniBand")
    keys = present(hca.port.pkeys, "partition keys")
    held = {int(key, 16) for key in keys}
    return (
        ""
        if held & {0xFFFF} or any(key & FULL_MEMBER for key in held)
        else said("limited member only ({keys})", ", ".join(keys))
    )


def _unaddressed(hca: Hca) -> str:
    if hca.port.link_layer != "InfiniBand" or not hca.is_active:
        raise NotApplicable("no active InfiniBand port")
    lid = present(hca.port.lid, "LID")
    return "it is active and has no address (LID 0)" if not lid.lower().removeprefix("0x").strip("0") else ""


MANAGED = (
    Fault(
        "address",
        _unaddressed,
        "`sminfo` and `ibstat` on the nodes named; have the subnet manager sweep again, or restart the port",
        "InfiniBand Architecture Specification, PortInfo.LID",
    ),
    Fault(
        "subnet manager",
        _unmanaged,
        "`sminfo` on the nodes named; start OpenSM (or the switch's subnet manager), then the port becomes ACTIVE",
        "InfiniBand Architecture Specification, port states",
    ),
)


def _without_manager(hca: Hca) -> str:
    if hca.port.link_layer != "InfiniBand":
        raise NotApplicable("the link is not InfiniBand")
    lid = present(hca.port.sm_lid, "LID of the subnet manager")
    try:
        return "it knows no subnet manager (sm_lid 0)" if int(lid, 16) == 0 else ""
    except ValueError:
        raise FactMissing("LID of the subnet manager", said("not a number: {lid}", lid)) from None


def _local_only(hca: Hca) -> str:
    """Rows that all end at the layer 2 segment: the interface has no address."""
    if hca.port.link_layer != "Ethernet":
        raise NotApplicable("the link is not Ethernet")
    hca.port.needs_gids()
    scopes = {classify(gid).scope for gid in hca.port.gids} - {"empty"}
    return "all its GIDs are link-local: its interface has no address" if scopes == {"link-local"} else ""


def _wide(hca: Hca) -> str:
    width = present(hca.port.width, "width of the link")
    named = hca.port.link_layer == "InfiniBand" and width == 1
    # One lane of EDR is how some adapters reach 25 Gbit/s; a wide link that came up on one lane is far slower.
    return (
        said("one lane only, {rate_text}", hca.port.rate_text())
        if named and present(hca.port.rate_gbps, "rate") < 25
        else ""
    )


# Steps of a link that is not up, through which one that stays active goes again and again.
BETWEEN = ("LinkErrorRecovery", "PortConfigurationTraining", "Polling", "Sleep")


def _recovering(hca: Hca) -> str:
    state = present(hca.port.physical_state, "physical state")
    return said("its link is in {state}, though the port is active", state) if hca.is_up and state in BETWEEN else ""


FRAGILE = (
    Fault(
        "physical state",
        _recovering,
        "reseat or replace the cable of the port on the nodes named (`mlxlink -d <device> -m -c`, `perfquery`)",
        "InfiniBand Architecture Specification, PortInfo.PortPhysicalState",
    ),
    Fault(
        "known subnet manager",
        _without_manager,
        "`sminfo` on the nodes named; start the subnet manager again before the next port comes up",
        "InfiniBand Architecture Specification, PortInfo.MasterSMLID",
    ),
    Fault(
        "link-local GIDs",
        _local_only,
        "give the interface of the port its address (`ip addr add <address>/<prefix> dev <netdev>`) on the nodes named",
        "NVIDIA/nccl#769",
    ),
    Fault(
        "full membership",
        _limited,
        "make the nodes named full members of a partition on the subnet manager (partitions.conf: `ALL=full`)",
        "InfiniBand Architecture Specification, partitioning",
    ),
    Fault("lanes", _wide, "reseat or replace the cable of the port on the nodes named", "sysfs ports/*/rate"),
)
