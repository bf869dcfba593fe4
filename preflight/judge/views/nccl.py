"""What does NCCL's own log prove: which network, ports and paths it took, and whether that is what it should take?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from preflight.facts import fabric
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.results import Bench, Transport
from preflight.facts.value import Missing
from preflight.said import knowing, said
from preflight.said.errors import Blame, FactMissing, NotApplicable, NotMeasured

ADDS_UP = ("H100", "H200", "H800", "H20", "GH200", "B100", "B200", "B300", "GB200", "GB300")  # with NVSwitch: NVLS
OFF = ("0", "false", "no")
OF_PLUGINS = ("NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_")  # only these plugins of Google read them
RDMA_PORT = re.compile(r"[^:/]+:\d+/(IB|RoCE)")
WITHOUT_EFA_RDMA = re.compile(r"\b(T4|A10G?|L4|L40S?|RTX)\b")  # EFA does not reach the memory of these


@dataclass(frozen=True)
class Row:
    """What is the same on every node: what it is, where it stands in the logs of a node, and how to make it so."""

    what: str
    key: Callable[[list[Transport]], object]
    fix: str


def _named(parts: Iterable[str]) -> str:
    return ", ".join(sorted(set(parts))) or "none"


PARITY = (
    Row(
        "network that NCCL took",
        lambda used: _named(one.network for one in used),
        "read logs/ of this run: a plugin that one image lacks, or a port that is down, makes NCCL take another",
    ),
    Row(
        "ways that NCCL took between the nodes",
        lambda used: _named(way for one in used for way in one.between_nodes),
        "load nvidia_peermem, or a kernel and an open driver with dma-buf, on the nodes without GDRDMA; the same "
        "NCCL_NET_GDR_LEVEL everywhere",
    ),
    Row(
        "ways that NCCL took between the GPUs of a node",
        lambda used: _named(way.split("/")[0] for one in used for way in one.within_node),
        "`nvidia-smi topo -p2p r` on the nodes named; unset NCCL_P2P_DISABLE; give containers --ipc=host and "
        "--shm-size=8g",
    ),
    Row(
        "addition by NVSwitch (NVLS)",
        lambda used: _named(one.nvls for one in used if one.nvls),
        "`nvidia-smi -q | grep -A3 Fabric` and `systemctl restart nvidia-fabricmanager` on the nodes named; the same "
        "NCCL_NVLS_ENABLE everywhere",
    ),
    Row(
        "NVLink domain over several nodes (MNNVL)",
        lambda used: "joined" if any(one.is_rack for one in used) else "not joined",
        "`nvidia-imex-ctl -N` on the nodes named: IMEX must run on all nodes of the rack",
    ),
    Row(
        "channels of NCCL",
        lambda used: max(one.channels for one in used),
        "use the same NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS and NCCL_TOPO_FILE everywhere",
    ),
    Row(
        "way of the adapters to the GPUs' memory by Data Direct",
        lambda used: "used" if any(one.is_data_direct for one in used) else "not used",
        "use the same firmware of the adapters, rdma-core and NCCL_IB_DATA_DIRECT everywhere",
    ),
    Row(
        "way by another GPU to the adapter (PXN)",
        lambda used: "used" if any(one.is_proxied for one in used) else "not used",
        "use the same NCCL_PXN_DISABLE and the same place of the adapters everywhere (`nvidia-smi topo -m`)",
    ),
)


@dataclass(frozen=True)
class NcclView:
    """The logs of a benchmark over the nodes of `cluster`."""

    result: Bench
    cluster: Cluster

    @cached_property
    def logs(self) -> dict[str, list[Transport]]:
        """Node -> what its ranks used; NotMeasured where a node's logs say nothing, NotApplicable without NCCL."""
        if self.result.backend != "nccl":
            raise NotApplicable(said("no rank has a log of NCCL (backend {backend})", self.result.backend))
        if self.result.not_measured:
            raise NotMeasured(self.result.not_measured)
        logs: dict[str, list[Transport]] = {node.name: [] for node in self.cluster}
        for one in self.result.transports:
            if one.network and one.node in logs:
                logs[one.node].append(one)
        silent = [name for name, used in logs.items() if not used]
        if silent:
            raise NotMeasured(
                said("NCCL's log of the ranks on {silent} does not say which network it used", ", ".join(silent))
            )
        return logs

    def sockets_beside_rdma(self) -> list[Blame]:
        """A Blame for the nodes whose ranks went over sockets while an RDMA port of theirs is active."""
        if not self.cluster.has_peers:
            raise NotApplicable("one node: no link measured")
        blamed: dict[tuple[str, str], list[str]] = {}
        for node in self.cluster:
            for used in self.logs[node.name]:
                words, fix = _sockets(node, used)
                if words and node.name not in blamed.setdefault((words, fix), []):
                    blamed[words, fix].append(node.name)
        return [Blame(words, nodes=nodes, fix=fix) for (words, fix), nodes in blamed.items()]

    def ports_left_out(self) -> list[Blame]:
        """A Blame for the nodes where NCCL left out an active port that it takes elsewhere, or that is asked for."""
        over_ib = {name: _ports(used) for name, used in self.logs.items() if all(map(_lists_rdma_ports, used))}
        if not over_ib or not any(over_ib.values()):
            raise NotApplicable("no rank went over InfiniBand or RoCE ports that its log lists")
        taken_somewhere = set().union(*over_ib.values())
        blamed: dict[str, list[str]] = {}
        for name, taken in over_ib.items():
            node = self.cluster[name]
            active = [hca.name for hca in node.hcas() if hca.is_active]
            is_named = node.value("NCCL_IB_HCA")[:1] not in ("", "^")
            wanted = [port for port in active if port in taken_somewhere or is_named]
            left_out = [port for port in wanted if port not in taken]
            if left_out:
                message = said(
                    "NCCL took {named} and left out {left_out}, active and chosen", _named(taken), ", ".join(left_out)
                )
                blamed.setdefault(message, []).append(name)
        return [Blame(message, nodes=nodes) for message, nodes in blamed.items()]

    def differences(self) -> list[Blame]:
        """A Blame for the nodes on which NCCL did something else than on the others."""
        self.cluster.needs_peers()
        blames: list[Blame] = []
        for row in PARITY:
            groups: dict[object, list[str]] = {}
            for name, used in self.logs.items():
                groups.setdefault(row.key(used), []).append(name)
            blames += self.cluster.differing(groups, row.what, fix=row.fix)
        return blames + self._other_algorithms()

    def _other_algorithms(self) -> list[Blame]:
        """Where every node measured by itself, each collective had the same algorithm and protocol on all."""
        blames: list[Blame] = []
        for op in self.result.operations if self.result.scope == "intra" else ():
            groups: dict[object, list[str]] = {}
            for name, used in self.logs.items():
                reported = {one.algorithms[op] for one in used if op in one.algorithms}
                if reported:
                    groups.setdefault(_named(reported), []).append(name)
            blames += self.cluster.differing(groups, said("algorithm of {op}", op), fix=PARITY[3].fix)
        return blames

    def lost_plugins(self) -> list[Blame]:
        """A Blame for the nodes where the network plugin that was asked for is not the network in use."""
        blames = []
        is_asked = False
        for name, used in self.logs.items():
            wanted = _plugin_asked_for(self.cluster[name])
            if not wanted:
                continue
            is_asked = True
            lost = next((one.lost_plugin for one in used if one.lost_plugin and one.network in ("IB", "Socket")), "")
            if lost:
                message = knowing(
                    said("{wanted}, and NCCL took {network}: {lost}", wanted, used[0].network, lost),
                    variables=(wanted.partition("=")[0],),
                )
                blames.append(Blame(message, nodes=[name]))
        if not is_asked:
            raise NotApplicable("no variable asks for a network plugin of NCCL")
        return blames

    def detours_within(self) -> list[Blame]:
        """A Blame for the nodes whose GPUs are all joined by NVLink and talked through the host's memory."""
        blamed: dict[str, list[str]] = {}
        joined = [name for name in self.logs if _is_joined(self.cluster[name]) and self._ranks(name) > 1]
        if not joined:
            raise NotApplicable("no node has several ranks on GPUs that NVLink joins")
        for name in joined:
            detours = {way for one in self.logs[name] for way in one.within_node if way.startswith("SHM")}
            if detours:
                message = said("GPUs that NVLink joins talked over {named}", _named(detours))
                off = [v for v in ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL") if self.cluster[name].value(v)]
                if off:
                    values = ", ".join(f"{v}={self.cluster[name].value(v)}" for v in off)
                    message = knowing(said("{message} ({values})", message, values), variables=tuple(off))
                blamed.setdefault(message, []).append(name)
        return [Blame(message, nodes=nodes) for message, nodes in blamed.items()]

    def slow_ways(self) -> list[Blame]:
        """A Blame for the nodes that could do without the host's memory, or let switches add up, and do not."""
        blamed: dict[tuple[str, str], list[str]] = {}
        for name, used in self.logs.items():
            for slow in (_without_gpudirect(self.cluster[name], used), self._without_nvls(name, used)):
                if slow is not None:
                    blamed.setdefault(slow, []).append(name)
        return [Blame(words, nodes=nodes, fix=fix) for (words, fix), nodes in blamed.items()]

    def _ranks(self, name: str) -> int:
        return self._ranks_of[name]

    @cached_property
    def _ranks_of(self) -> Counter[str]:
        return Counter(report.node for report in self.result.ranks)

    def _without_nvls(self, name: str, used: list[Transport]) -> tuple[str, str] | None:
        node = self.cluster[name]
        try:
            models = {gpu.name for gpu in node.gpu.readable()}
            can = node.gpu.switches > 0 and all(any(word in model for word in ADDS_UP) for model in models)
        except FactMissing:
            return None
        if not can or self._ranks(name) < node.gpu_count():
            return None
        if node.value("NCCL_NVLS_ENABLE").lower() in OFF:  # then NCCL does not look, and says nothing of it
            words = knowing("NCCL_NVLS_ENABLE=0: the switches do not add up", variables=("NCCL_NVLS_ENABLE",))
            return words, "unset NCCL_NVLS_ENABLE"
        if "not available" not in (one.nvls for one in used):
            return None
        return "the switches could add up (NVLS), and NCCL says they cannot", PARITY[3].fix


def _lists_rdma_ports(used: Transport) -> bool:
    """Whether the network lists the ports that it drives: NCCL's own, and plugins that are made of it (IBext, gIB)."""
    return used.network == "IB" or any(RDMA_PORT.match(port) for port in used.ports)


def _plugin_asked_for(node: NodeFacts) -> str:
    """The variable that asks for a network plugin, with its value; "" where none does."""
    if node.value("NCCL_NET_PLUGIN").lower() not in ("", "none"):
        return f"NCCL_NET_PLUGIN={node.value('NCCL_NET_PLUGIN')}"
    return next((name for name in node.environment.variables if name.startswith(OF_PLUGINS)), "")


def _ports(used: list[Transport]) -> set[str]:
    """The ports by their names: "mlx5_0:1/RoCE" is mlx5_0:1."""
    return {port.partition("/")[0] for one in used for port in one.ports}


def _sockets(node: NodeFacts, used: Transport) -> tuple[str, str]:
    """What there is to say of a rank that went over sockets beside an RDMA port, and what to do."""
    ports = fabric.hcas(node.rdma)
    over = [path for path in used.between_nodes or (f"NET/{used.network}",) if "Socket" in path]
    active = [hca.name for hca in ports if hca.is_active or hca.is_efa]
    if not over or not active:
        return "", ""
    disabled = " with NCCL_IB_DISABLE=1" if node.value("NCCL_IB_DISABLE") == "1" else ""
    words = said(
        "NCCL went over {over} ({ports}){disabled}; active beside it: ",
        ", ".join(over),
        ", ".join(used.ports),
        disabled,
    )
    lost = f"; {used.lost_plugin}" if used.lost_plugin and any(hca.is_efa for hca in ports) else ""
    fix = "install aws-ofi-nccl, and put its folder into LD_LIBRARY_PATH of the job, on the nodes named"
    return words + ", ".join(active) + lost, fix if any(hca.is_efa for hca in ports) else ""


def _is_joined(node: NodeFacts) -> bool:
    try:
        gpus, topology = node.gpu.readable(), node.gpu.topology
        linked = len(gpus) > 1 and node.gpu.nvlinks() != "none"
        return linked and not isinstance(topology, Missing) and topology.are_joined_by_nvlink()
    except FactMissing:
        return False


def _without_gpudirect(node: NodeFacts, used: list[Transport]) -> tuple[str, str] | None:
    ways = {way for one in used for way in one.between_nodes if way.startswith("NET/") and "Socket" not in way}
    try:
        is_efa = any(hca.is_efa for hca in fabric.hcas(node.rdma))
        if is_efa and any(WITHOUT_EFA_RDMA.search(gpu.name) for gpu in node.gpu.readable()):
            return None
        could = node.kernel.gpudirect(node.identity.kernel)
    except FactMissing:
        return None
    if not ways or any("GDRDMA" in way for way in ways) or could == "none":
        return None
    words = said("NCCL went over {named} through the host's memory, though {could} is there", _named(ways), could)
    level = node.value("NCCL_NET_GDR_LEVEL")
    if level:
        words = knowing(said("{words} (NCCL_NET_GDR_LEVEL={level})", words, level), variables=("NCCL_NET_GDR_LEVEL",))
    return words, (
        "unset NCCL_NET_GDR_LEVEL; switch off ACS and IOMMU translation (`lspci -vvv | grep ACSCtl`), and look for "
        "GPU Direct RDMA in logs/ of this run"
    )
