"""Which facts of the GPUs should be the same on all nodes?"""

from __future__ import annotations

from preflight.facts.cluster import Row
from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing, present
from preflight.said import said
from preflight.said.errors import FactMissing, NotApplicable


def of_all(node: NodeFacts, field: str, fact: str, *, unit: str = "") -> str:
    """The values that the GPUs of a node have in a field of their status."""
    found, lacking = [], {}
    for gpu in node.gpu.readable():
        value = getattr(gpu.status, field)
        if isinstance(value, Missing) and value.kind == "absent":
            lacking[gpu.kind] = said("GPU {index} does not report it, as others of its model do", gpu.index)
        else:
            found.append(present(value, said("{fact} of GPU {index}", fact, gpu.index)))
    reported = {gpu.kind for gpu in node.gpu.readable() if not isinstance(getattr(gpu.status, field), Missing)}
    for name, reason in lacking.items():
        if name in reported:
            raise FactMissing(fact, reason)
    if not found:
        raise FactMissing(fact, "no GPU reports it", "absent")
    if isinstance(found[0], bool):
        return ", ".join(sorted({"on" if value else "off" for value in found}))
    return ", ".join(value if isinstance(value, str) else f"{value:g}{unit}" for value in sorted(set(found)))


def _numa_nodes(node: NodeFacts) -> str:
    functions = [gpu.pci for gpu in node.gpu.countable() if not isinstance(gpu.pci, Missing)]
    known = [str(one.numa_node) for one in functions if not isinstance(one.numa_node, Missing)]
    if not known:
        raise FactMissing("NUMA nodes of the GPUs", "the firmware reports none", "absent")
    if len(known) < len(functions):
        raise FactMissing(
            "NUMA nodes of the GPUs", said("{known} of {functions} GPUs report theirs", len(known), len(functions))
        )
    return ", ".join(known)


def _iommus(node: NodeFacts) -> str:
    functions = [gpu.pci for gpu in node.gpu.readable() if not isinstance(gpu.pci, Missing)]
    if not functions:
        raise FactMissing("IOMMU of the GPUs", "no GPU reports its PCI path", "absent")
    kinds = {"none" if isinstance(one.iommu, Missing) and one.iommu.kind == "absent" else present(one.iommu, "IOMMU")
             for one in functions}  # fmt: skip
    return ", ".join(sorted(kinds))


def _ways(node: NodeFacts) -> str:
    if node.is_confined():
        raise NotApplicable("a session may be given GPUs that are joined in other ways")
    if len(node.gpu.readable()) < 2:
        raise FactMissing("NVLinks between the GPUs", "there are no two GPUs", "absent")
    return present(node.gpu.topology, "topology").between_gpus()


def _nvlink_speeds(node: NodeFacts) -> str:
    """Of GPUs that have any: links that are down are another check's matter."""
    reported = [gpu.status.nvlink_gbytes_per_s for gpu in node.gpu.readable()]
    speeds = sorted({speed for speed in reported if not isinstance(speed, Missing)})
    if not speeds:
        raise FactMissing("speed of the NVLinks", "no GPU reports it", "absent")
    return ", ".join(f"{speed:g} GB/s" for speed in speeds)


SAME = (
    Row(
        "speed of the slowest NVLinks",
        _nvlink_speeds,
        "`nvidia-smi nvlink -s` on a node named and on one that is not; reset the GPUs, have the baseboard looked at",
    ),
    Row(
        "NVLinks between the GPUs",
        _ways,
        "`nvidia-smi topo -m` on a node named and on one that is not; reset the GPUs, look at their bridges",
    ),
    Row(
        "NVSwitches",
        lambda node: str(node.gpu.switches),
        "`lspci -d 10de: | grep -i bridge` on a node named and on one that is not; power-cycle the nodes with fewer "
        "(a reboot is not enough), and have the baseboard looked at",
    ),
    Row(
        "IOMMU of the GPUs",
        _iommus,
        "start the kernel of the nodes named with the others' options (`iommu=pt`), or set the BIOS as on the others",
    ),
    Row(
        "memory behind BAR1",
        lambda node: of_all(node, "bar1_mib", "memory behind BAR1", unit=" MiB"),
        "switch Above 4G Decoding and Resizable BAR on in the BIOS: adapters reach that much of a GPU",
    ),
    Row(
        "NUMA nodes of the GPUs",
        _numa_nodes,
        "set the same NUMA nodes per socket (NPS, SNC) in the BIOS of the nodes named; compare `nvidia-smi topo -m`",
    ),
    Row(
        "power limit",
        lambda node: of_all(node, "power_limit_watts", "power limit", unit=" W"),
        "`nvidia-smi -pl <the others' limit>` on the nodes named: the slowest GPU sets the pace of all",
    ),
    Row(
        "persistence mode",
        lambda node: of_all(node, "is_persistent", "persistence mode"),
        "`systemctl enable --now nvidia-persistenced` on the nodes named: without it every start waits for the driver",
    ),
    Row(
        "ECC",
        lambda node: of_all(node, "has_ecc", "ECC"),
        "`nvidia-smi -e 1` on all nodes, and reboot: ECC takes memory and bandwidth, so all should have it on, or none",
    ),
    Row(
        "largest PCIe generation",
        lambda node: of_all(node, "pcie_generation_max", "largest PCIe generation"),
        "set the slots' speed to Auto in the BIOS of the nodes named",
    ),
    Row(
        "VBIOS",
        lambda node: of_all(node, "vbios", "VBIOS"),
        "bring the GPUs of the nodes named to the others' VBIOS by the vendor's firmware package",
    ),
    Row(
        "partition",
        lambda node: of_all(node, "partition", "partition"),
        "`amd-smi set --compute-partition SPX --memory-partition NPS1` on the nodes named, or as the others have it",
    ),
    Row(
        "performance level",
        lambda node: of_all(node, "performance_level", "performance level"),
        "`amd-smi set --perf-level AUTO` on the nodes named",
    ),
    Row(
        "PCIe width",
        lambda node: of_all(node, "pcie_width", "PCIe width", unit=" lanes"),
        "reseat the GPUs or their risers on the nodes named",
    ),
)


def firmware(node: NodeFacts) -> dict[str, str | Missing]:
    """Block of a GPU -> the versions that the GPUs of the node have there; FactMissing where none is reported."""
    found: dict[str, set[str]] = {}
    for gpu in node.gpu.readable():
        for name, version in present(gpu.status.firmware, "firmware of the GPUs"):
            found.setdefault(name, set()).add(version)
    if not found:
        raise FactMissing("firmware of the GPUs", "no GPU", "absent")
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}
