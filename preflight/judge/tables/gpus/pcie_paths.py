"""Does what GPUs send each other over PCIe take the short way, or is it sent up to the root complex?

Sources: NVIDIA's GPUDirect documentation and NCCL's troubleshooting page (ACS, IOMMU), and field cases by their issue.
"""

from __future__ import annotations

from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing, present
from preflight.judge.tables.faults import Fault
from preflight.said import said
from preflight.said.errors import FactMissing


def _translates(node: NodeFacts) -> str:
    """An IOMMU that translates, with GPUs that talk over PCIe: what they send each other goes up to the root."""
    gpus = node.gpu.readable()
    kinds = [gpu.pci.iommu for gpu in gpus if not isinstance(gpu.pci, Missing)]
    if len(gpus) < 2 or not kinds:
        raise FactMissing("IOMMU of the GPUs", "fewer than two GPUs report it", "absent")
    if _are_joined(node):
        return ""
    if 0 < sum(isinstance(kind, Missing) for kind in kinds) < len(kinds):
        raise FactMissing("IOMMU of the GPUs", "it can be read for some of them only")
    translated = sorted({kind for kind in kinds if not isinstance(kind, Missing) and kind.startswith("DMA")})
    options = [] if isinstance(node.kernel.boot_options, Missing) else node.kernel.boot_options
    started = said(" (the kernel was started with {options})", " ".join(options)) if options else ""
    words = said("the IOMMU translates what GPUs send each other over PCIe{started}: peer-to-peer may hang", started)
    return words if translated and node.value("NCCL_P2P_DISABLE") != "1" else ""


IOMMU = (
    Fault(
        "IOMMU",
        _translates,
        "start the kernel with `iommu=pt` (or `intel_iommu=off`, `amd_iommu=off`); NCCL_P2P_DISABLE=1 works around it",
        "NVIDIA/nccl#257",
    ),
)


def _are_joined(node: NodeFacts) -> bool:
    """Whether NVLink joins all GPUs: by the topology, and where that is not known by the kind of board."""
    topology = node.gpu.topology
    if isinstance(topology, Missing):
        return all(gpu.is_on_a_baseboard for gpu in node.gpu.readable())
    return topology.are_joined_by_nvlink()


def _redirects(node: NodeFacts) -> str:
    found: list[str] = []
    gpus = node.gpu.readable()
    functions = [gpu.pci for gpu in gpus if not isinstance(gpu.pci, Missing)]
    if not functions:
        raise FactMissing("bridges above the GPUs", "no GPU reports its PCI path", "absent")
    joined = _are_joined(node)
    for function in functions:
        found += present(function.redirecting_bridges, "ACS of the bridges above the GPUs")
    # With NVLink between all GPUs it still matters to the network adapters' way to them.
    if not found or len(gpus) < 2 or (joined and not node.rdma.devices):
        return ""
    bridges = ", ".join(sorted(set(found)))
    return said("ACS of {bridges} redirects what devices send each other to the root complex: slow, or hangs", bridges)


ACS = (
    Fault(
        "ACS",
        _redirects,
        "`setpci -s <bridge> ECAP_ACS+0x6.w=0000` on the bridges named, or switch ACS off in the BIOS",
        "NVIDIA/nccl#2079, NCCL troubleshooting: PCI Access Control Services",
    ),
)
