"""What does a node report of its GPUs?"""

from __future__ import annotations

import re
from typing import NamedTuple

from preflight.facts.pci import PciFunction, without_domain_zeros
from preflight.facts.subjects.gpus.status import GpuStatus
from preflight.facts.subjects.gpus.topology import Topology
from preflight.facts.value import NOT_REPORTED, Count, Missing, Text, Value, present
from preflight.said import joined, knowing, said
from preflight.said.errors import BlockedBy, FactMissing


class Links(NamedTuple):
    """The NVLinks of a GPU."""

    active: Count
    inactive: Count

    def text(self, noun: str = "NVLinks") -> str:
        """Those that are down as a message says it; where all are, nvidia-smi does not say how many."""
        return (
            said("{inactive} {noun} are inactive, {active} active", self.inactive, noun, self.active)
            if self.active
            else said("all {noun} are inactive", noun)
        )


class LinkErrors(NamedTuple):
    """What the NVLinks of a GPU have counted since the driver was loaded."""

    links: Count
    counters: Count
    counted: dict[Text, Count]  # "link 3: CRC Errors" -> how many; those at 0 are left out


NOT_WHOLE = ("cut short", "and describes", "broken XML", "broken JSON", "no JSON")
# By their names: of models that come as PCIe cards too, only the boards that are wired by NVLink.
BASEBOARDS = (
    r"SXM|\bMI(250|3\d\d)|\bMI200\b.*\bOAM\b|(\bH100 80GB HBM3|\bH[128]00|\bH20|\bG?B[123]00)\b(?!.*(PCIe|NVL))"
)
FILLED_SHARE, FILLED_MIB = 0.05, 2048  # more than a driver and its services hold for themselves


class Gpu(Value, frozen=True, kw_only=True):
    """One GPU as its driver's tool reports it."""

    index: Count
    name: Text
    uuid: Text
    memory_mib: Count | Missing
    bus_id: Text
    compute_mode: Text | Missing
    mig_mode: Text | Missing
    processes: Count | Missing
    status: GpuStatus = GpuStatus()
    links: Links | Missing = NOT_REPORTED
    link_errors: LinkErrors | Missing = NOT_REPORTED
    peer_access: tuple[Text, ...] | Missing = NOT_REPORTED  # to each GPU by its index: "X", "OK", or why not ("CNS")
    pci: PciFunction | Missing = NOT_REPORTED

    @property
    def is_partitioned(self) -> bool:
        """Whether it is split into MIG slices."""
        return self.mig_mode == "Enabled"

    @property
    def is_on_a_baseboard(self) -> bool:
        """Whether the model is one of those that are always wired by NVLink."""
        return re.search(BASEBOARDS, self.name) is not None

    @property
    def is_amd(self) -> bool:
        """Whether AMD's driver has it."""
        return re.search(r"AMD|Instinct|\bMI\d{2,3}[AX]?\b", self.name) is not None

    @property
    def kind(self) -> tuple[str, int]:
        """Its model, and which die of a module it is: of an MI250X the first tells the power of both."""
        return self.name, self.index % 2 if re.search(r"\bMI2[05]0X?\b", self.name) else 0

    @property
    def board(self) -> str:
        """Its PCI address: drivers count the GPUs that are there, so one that has fallen off the bus moves others."""
        return re.sub("^0000(?=[0-9a-f]{4}:)", "", self.bus_id.lower())  # NVML writes domains of eight digits

    @property
    def noun_of_links(self) -> str:
        """What joins it to the others of its node."""
        return "xGMI links" if self.is_amd else "NVLinks"

    def is_filled(self) -> bool:
        """Whether much of its memory is taken: from inside a container the programs that hold it are not seen."""
        used, total = self.status.memory_used_mib, self.memory_mib
        if isinstance(used, Missing) or isinstance(total, Missing) or self.is_partitioned:
            return False
        return used > max(FILLED_SHARE * total, FILLED_MIB)

    def is_busy(self) -> bool:
        """Whether a program holds memory of it; of a GPU that does not report its programs only memory can tell."""
        if isinstance(self.processes, Missing) and self.processes.kind == "absent":
            return False
        return present(self.processes, said("programs on GPU {index}", self.index)) > 0

    def summary(self) -> str:
        """The model as a message says it."""
        memory = "" if isinstance(self.memory_mib, Missing) else f" {self.memory_mib} MiB"
        return f"{self.name}{memory}" + (" in MIG mode" if self.is_partitioned else "")


def _counted(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"


class Counted(NamedTuple):
    """What one GPU on the bus has counted of errors since the machine started."""

    address: Text
    errors: tuple[tuple[Text, Count], ...] | Missing  # ("PCIe errors, corrected", 12)


class Imex(NamedTuple):
    """NVIDIA's IMEX on a node whose GPUs are in an NVLink fabric of several nodes."""

    is_running: bool | Missing
    nodes: tuple[Text, ...] | Missing  # of nodes_config.cfg: addresses, or names
    state: Text | Missing  # of its domain: "UP", "DEGRADED", "DOWN"
    not_ready: tuple[Text, ...] | Missing  # nodes of the domain with their status: "10.0.0.2 UNAVAILABLE"


class Gpus(Value, frozen=True, kw_only=True):
    """The GPUs of a node and the driver that runs them; an empty tuple means that there is none."""

    devices: tuple[Gpu, ...] | Missing
    driver: Text | Missing
    cuda_driver: Text | Missing
    topology: Topology | Missing = NOT_REPORTED
    switches: Count = 0  # NVSwitches
    fabric_manager: bool | Missing = NOT_REPORTED
    on_bus: tuple[Text, ...] | Missing = NOT_REPORTED  # PCI addresses of GPUs, whether a driver runs them or not
    imex_channels: Count | Missing = NOT_REPORTED
    imex: Imex | Missing = NOT_REPORTED
    counted: tuple[Counted, ...] = ()

    def trouble(self) -> str:
        """Why the driver does not list its GPUs, "" where it does; no GPU is an answer too.

        FactMissing where the tool's answer did not come whole: that says nothing about the GPUs.
        """
        if not isinstance(self.devices, Missing):
            return ""
        if any(words in self.devices.missing for words in NOT_WHOLE):
            raise FactMissing("GPUs", self.devices.missing)
        return self.devices.missing

    def why_bus_says_nothing(self) -> str:
        """Why the PCI bus does not tell how many GPUs the session should have, "" where it does or is not known."""
        return self.on_bus.missing if isinstance(self.on_bus, Missing) and self.on_bus.kind == "absent" else ""

    def are_all_listed(self) -> str:
        """Which GPUs of the node its driver does not list, "" where it lists all; FactMissing where that is not known.

        Boards with NVSwitches have 8 GPUs, or 16: there a number of its own tells that one is lost.
        """
        held = self.readable()
        there = present(self.on_bus, "GPUs on the PCI bus")
        listed = {without_domain_zeros(gpu.bus_id) for gpu in held}
        lost = [address for address in there if without_domain_zeros(address) not in listed]
        if lost:
            which = f"{', '.join(lost[:4])}{' and others' if lost[4:] else ''}"
            return said(
                "{counted} on the PCI bus, and the driver lists {held}: not {which}",
                _counted(len(there)),
                len(held) or "none",
                which,
            )
        if self.switches and held and len(held) not in (8, 16):
            return said(
                "{counted}, where a board with NVSwitches has 8: not even the PCI bus shows the others",
                _counted(len(held)),
            )
        return ""

    def has_any(self) -> bool:
        """Whether the node has GPUs, even if no driver lists them."""
        is_on_bus = isinstance(self.on_bus, tuple) and bool(self.on_bus)
        return isinstance(self.devices, Missing) or bool(self.devices) or is_on_bus

    def countable(self) -> tuple[Gpu, ...]:
        """The GPUs, blocked where some of them are there and not listed: that is one cause and not two."""
        try:
            message = self.are_all_listed()
        except FactMissing as missing:
            if missing.kind != "absent":
                raise
            message = ""
        if message:
            raise BlockedBy("gpu.every_gpu_on_the_bus_is_listed", detail=message)
        return self.readable()

    def readable(self) -> tuple[Gpu, ...]:
        """The GPUs, blocked where the driver does not list them."""
        if isinstance(self.devices, Missing):
            raise BlockedBy("gpu.devices_are_readable", detail=self.devices.missing)
        return self.devices

    def are_on_a_board(self) -> bool:
        """Whether the node has several GPUs, and all sit on a board that joins them by NVLink or the like."""
        gpus = self.readable()
        return len(gpus) > 1 and (self.switches > 0 or all(gpu.is_on_a_baseboard for gpu in gpus))

    def is_joined(self) -> bool:
        """Whether every GPU says that it has joined the NVLink fabric, which Fabric Manager alone makes it do."""
        return bool(self.readable()) and all(gpu.status.fabric_state == "Completed" for gpu in self.readable())

    def nvlinks(self) -> str:
        """How many NVLinks are up on a GPU, each figure once: "18", or "17, 18"."""
        found = [gpu.links for gpu in self.readable()]
        for links in found:
            if isinstance(links, Missing) and links.kind != "absent":
                self.countable()  # a GPU that its driver lists no more may be why
                raise FactMissing("NVLinks", links.missing, links.kind)
        if not any(isinstance(links, Links) for links in found):
            raise FactMissing("NVLinks", "no GPU has any", "absent")
        return ", ".join(sorted({"none" if isinstance(links, Missing) else str(links.active) for links in found}))

    def has_every_nvlink(self) -> bool:
        """Whether the GPUs have NVLinks, and none of them is down."""
        links = [gpu.links for gpu in self.readable() if isinstance(gpu.links, Links)]
        return any(one.active for one in links) and not any(one.inactive for one in links)

    def inactive_nvlinks(self, *, is_bridged: bool = False) -> str:
        """The GPUs that are wired by NVLink and have links down, as a message says it.

        A PCIe card without its bridge has inactive links by nature, unless its equals have none (``is_bridged``); what
        sits on a baseboard has not.
        """
        gpus = self.readable()
        down = [
            _of_gpu(
                said("GPU {index}: {links}", f"{gpu.index} ({gpu.board})", gpu.links.text(gpu.noun_of_links)), gpu.index
            )
            for gpu in gpus
            if isinstance(gpu.links, Links)
            and gpu.links.inactive
            and (is_bridged or self.switches or gpu.is_on_a_baseboard)
        ]
        if len(gpus) < 2:
            return ""
        up = {gpu.index: gpu.links.active for gpu in gpus if isinstance(gpu.links, Links) and not gpu.links.inactive}
        boards = {gpu.index: gpu.board for gpu in gpus}
        most = max(up.values(), default=0)
        down += [
            _of_gpu(
                said(
                    "GPU {index}: {count} {noun_of_links} are active, {most} on others",
                    f"{index} ({boards[index]})",
                    count,
                    gpus[0].noun_of_links,
                    most,
                ),
                index,
            )
            for index, count in up.items()
            if count < most and (self.switches or gpus[0].is_on_a_baseboard)
        ]
        return joined(down)

    def models(self) -> str:
        """Each model once, with its memory and whether it is partitioned: "NVIDIA H200 143771 MiB"."""
        if not self.readable():
            raise FactMissing("GPU model", "no GPU", "absent")
        return ", ".join(sorted({gpu.summary() for gpu in self.readable()}))

    def driver_version(self) -> str:
        """The version of the driver; a node without GPUs needs none."""
        if not self.readable():
            raise FactMissing("driver", "no GPU", "absent")
        return present(self.driver, "driver")


def _of_gpu(words: str, index: int) -> str:
    return knowing(words, things=(str(index),))
