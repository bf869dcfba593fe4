"""Where does a device sit on the PCI bus, and how is it written?"""

from __future__ import annotations

from typing import NamedTuple

from preflight.facts.value import Count, Missing, Text


class PciFunction(NamedTuple):
    """Where a device sits: the bridges above it, its link, and what the IOMMU and ACS do with its traffic."""

    path: Text  # "pci0000:80/0000:80:02.2/0000:82:00.0"
    numa_node: Count | Missing
    width: Count | Missing
    width_max: Count | Missing  # what both the device and its slot can do
    speed: float | Missing  # GT/s a lane
    speed_max: float | Missing
    iommu: Text | Missing  # "identity", "DMA", "DMA-FQ"; absent without an IOMMU
    redirecting_bridges: tuple[Text, ...] | Missing  # whose ACS sends traffic between devices up to the root


def without_domain_zeros(address: str) -> str:
    """A PCI address as NVML and the kernel write it, with domains of eight and of four digits."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain.lstrip('0')}:{rest}"
