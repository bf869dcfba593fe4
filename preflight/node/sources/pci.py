"""Where does a GPU or a network adapter sit, how fast is its slot, and what stands between it and its peers?"""

from __future__ import annotations

import os

from preflight.node.agent.missing import missing, missing_because, read_lines, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, Union

    from preflight.node.agent.missing import Missing, TextOrMissing

    CountOrMissing = Union[int, Missing]
    Functions = dict[str, tuple[str, str, str]]  # by address: vendor, class and folder

HEXADECIMAL = frozenset("0123456789abcdef")
NVIDIA, AMD = "0x10de", "0x1002"
INFINIBAND_CLASS = "0x0207"
SWITCH_CLASS = "0x068000"  # an NVSwitch is a bridge of no PCI kind
# VGA and 3D controllers; of AMD's only what draws no picture, for those that do are often part of a processor.
GPU_CLASSES = {NVIDIA: ("0x0300", "0x0302"), AMD: ("0x0302", "0x0380", "0x1200")}
GPU_DRIVERS = ("nvidia", "amdgpu")  # any other driver has the device for another purpose: a guest
SCREEN_DRIVERS = ("nouveau", "nova_core")  # of the kernel, without CUDA: fine on a screen, in the way elsewhere
LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
# The kernel's counters of Advanced Error Reporting, whose last line is their sum.
AER_FILES = {"aer_dev_fatal": "fatal", "aer_dev_nonfatal": "uncorrected", "aer_dev_correctable": "corrected"}
EXTENDED_CONFIG = 0x100
FIRST_CAPABILITY, EXPRESS_CAPABILITY = 0x34, 0x10
ACS_CAPABILITY, ATS_CAPABILITY = 0x000D, 0x000F
# Bits of the ACS control register that send what one device says to another up to the root: lspci's ReqRedir,
# CmpltRedir, UpstreamFwd. SrcValid alone redirects nothing.
ACS_REDIRECTS = 0b0001_1100


def function(sysfs: str, bus_id: str) -> dict[str, Any]:
    """Facts of PciFunction, or why there are none. NVML writes a domain of eight digits, the kernel of four."""
    place = folder(sysfs, bus_id)
    if not place:
        return missing(f"not a PCI address: {bus_id}")
    if not os.path.exists(place):
        return missing(f"{os.path.basename(place)} is not in sysfs", "absent")
    return describe(place)


def folder(sysfs: str, bus_id: str) -> str:
    """Where sysfs has the function of this address; "" where it is none."""
    domain, _, rest = bus_id.lower().partition(":")
    try:
        return f"{sysfs}/bus/pci/devices/{int(domain, 16):04x}:{rest}"
    except ValueError:
        return ""


def is_address(name: str) -> bool:
    """Whether this is how sysfs writes the place of a PCI function."""
    # "0000:3b:00.0". Not by the module re, whose import costs every node 5 ms.
    domain, _, rest = name.partition(":")
    bus, device, function = rest[:2], rest[3:5], rest[6:]
    is_punctuated = len(domain) >= 4 and len(function) == 1 and rest[2:3] == ":" and rest[5:6] == "."
    return is_punctuated and HEXADECIMAL.issuperset(domain + bus + device + function)


def describe(folder: str) -> dict[str, Any]:
    """Facts of the PCI function whose folder in sysfs this is."""
    place = os.path.realpath(folder)
    parts = place.split("/")
    above = [i for i, part in enumerate(parts[:-1]) if is_address(part)]
    bridges = ["/".join(parts[: i + 1]) for i in above]
    root = next((part for part in parts if part.startswith("pci") and ":" in part), "")
    slot = bridges[-1] if bridges else place
    width, width_max = lanes(place)
    return {
        "path": "/".join([root, *(parts[i] for i in above), parts[-1]]),
        "numa_node": _numa_node(place),
        "width": width,
        "width_max": width_max,
        "speed": _speed(f"{place}/current_link_speed"),
        "speed_max": _least(_speed(f"{place}/max_link_speed"), _speed(f"{slot}/max_link_speed")),
        "iommu": read_lines(f"{place}/iommu_group/type"),
        "redirecting_bridges": redirecting(bridges),
    }


def lanes(place: str) -> tuple[CountOrMissing, CountOrMissing]:
    """How many lanes the link of a function has, and how many it could have: by itself, and by its slot."""
    above = os.path.dirname(place)
    slot = above if is_address(os.path.basename(above)) else place
    most = _least(_count(f"{place}/max_link_width"), _count(f"{slot}/max_link_width"))
    return _count(f"{place}/current_link_width"), most


def redirecting(bridges: list[str]) -> list[str] | Missing:
    """The bridges above a device whose ACS sends traffic between devices up to the root complex."""
    found = []
    for bridge in bridges:
        try:
            with open(f"{bridge}/config", "rb") as file:
                config = file.read(4096)
        except OSError as error:
            return missing_because(error)
        if len(config) <= 64:  # the kernel shows others than root no more than that
            return missing("the extended configuration of PCI bridges is for root only", "denied")
        if acs_control(config) & ACS_REDIRECTS:
            found.append(bridge.rpartition("/")[2])
    return found


def acs_control(config: bytes) -> int:
    """The ACS control register in a PCI configuration space; 0 where there is none."""
    offset = extended(config, ACS_CAPABILITY)
    return int.from_bytes(config[offset + 6 : offset + 8], "little") if offset else 0


def extended(config: bytes, capability: int) -> int:
    """Where an extended capability begins in a PCI configuration space; 0 where there is none."""
    offset = EXTENDED_CONFIG
    seen = set()
    while offset >= EXTENDED_CONFIG and offset + 8 <= len(config) and offset not in seen:
        seen.add(offset)
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header & 0xFFFF == capability:
            return offset
        offset = header >> 20
    return 0


def requests(folder: str) -> dict[str, Any]:
    """How a function asks for memory, as lspci's MaxReadReq, RlxdOrd and ATSCtl: [bytes, relaxed?, ATS?]."""
    try:
        with open(f"{folder}/config", "rb") as file:
            config = file.read(4096)
    except OSError as error:
        return missing_because(error)
    if len(config) <= 64:
        return missing("the configuration of PCI devices is for root only", "denied")
    offset, seen = config[FIRST_CAPABILITY] & 0xFC, set()
    while offset >= 0x40 and offset + 10 <= len(config) and offset not in seen:
        seen.add(offset)
        if config[offset] == EXPRESS_CAPABILITY:
            control = int.from_bytes(config[offset + 8 : offset + 10], "little")
            ats = extended(config, ATS_CAPABILITY)
            has_ats = bool(ats) and bool(int.from_bytes(config[ats + 6 : ats + 8], "little") >> 15)
            return {
                "read_request_bytes": 128 << (control >> 12 & 7),
                "is_relaxed": bool(control >> 4 & 1),
                "has_ats": has_ats,
            }
        offset = config[offset + 1] & 0xFC
    return missing("it has no capability of PCI Express", "absent")


def count_switches(found: Functions) -> int:
    """How many NVSwitches the node has."""
    return sum(function[:2] == (NVIDIA, SWITCH_CLASS) for function in found.values())


def counted(sysfs: str, address: str) -> list[list[Any]] | Missing:
    """What a function has counted of errors on PCIe (AER): [[name, count]].

    "absent" where nothing is counted: a virtual machine, a slot without AER. The kernel has all of its files or none.
    """
    place = folder(sysfs, address)
    found: dict[str, int] = {}
    lost: list[str] = []
    for name, kind in AER_FILES.items():
        text = read_lines(f"{place}/{name}")
        if isinstance(text, dict):
            if text["kind"] == "absent":
                lost.append(name)
                continue
            return text
        words = text.splitlines()[-1].split() if text else []
        if len(words) != 2 or not words[0].startswith("TOTAL_ERR") or not words[1].isdecimal():
            return missing(f"{place}/{name} was cut short")
        found[f"PCIe errors, {kind}"] = int(words[1])
    if found and lost:
        return missing(f"{place} has no {', '.join(lost)}, and others of these counters")
    return [[name, count] for name, count in found.items()] or missing("no errors of PCIe are counted", "absent")


def counted_by_gpus(sysfs: str, found: Functions) -> list[list[Any]]:
    """The same of every GPU on the bus: [[address, what it counted], ...]."""
    return [[address, counted(sysfs, address)] for address in gpus(found)]


def unused_infiniband(functions: Functions, used: Collection[str]) -> list[str]:
    """The PCI addresses of the InfiniBand adapters that are not among the RDMA devices, whose addresses are given."""
    found = []
    for address, (_, kind, folder) in functions.items():
        driver = os.path.basename(os.path.realpath(f"{folder}/driver"))
        is_lost = address not in used and driver in ("driver", "mlx5_core", "mlx4_core")
        if kind.startswith(INFINIBAND_CLASS) and is_lost and not os.path.exists(f"{folder}/physfn"):
            found.append(address)
    return found


def gpus(functions: Functions, only: str = "") -> list[str]:
    """The PCI addresses of the GPUs that are there for programs, whether a driver runs them or not; of one vendor."""
    found = []
    for address, (vendor, kind, folder) in functions.items():
        if only and vendor != only:
            continue
        if kind.startswith(GPU_CLASSES.get(vendor, ())) and not os.path.exists(f"{folder}/physfn"):
            driver = os.path.basename(os.path.realpath(f"{folder}/driver"))
            # Without a driver the link is not there.
            if driver in ("driver", *GPU_DRIVERS) or (driver in SCREEN_DRIVERS and not has_screen(folder)):
                found.append(address)
    return found


def has_screen(folder: str) -> bool:
    """Whether the machine started on this GPU's screen; on servers that is another chip's."""
    try:
        return read_text(f"{folder}/boot_vga") == "1"
    except OSError:
        return False


def listed(arguments: dict[str, Any]) -> Functions:
    """The functions of this node; a call with a dictionary "held" among its arguments lists them once."""
    held: dict[str, Any] = arguments.get("held", {})
    if "functions" not in held:
        held["functions"] = functions(arguments.get("sysfs", "/sys"))
    found: Functions = held["functions"]
    return found


def functions(sysfs: str) -> Functions:
    """Every PCI function by its address; a server with GPUs has hundreds."""
    folder = f"{sysfs}/bus/pci/devices"
    found: dict[str, tuple[str, str, str]] = {}
    for entry in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        place = f"{folder}/{entry}"
        try:
            found[entry] = (read_text(f"{place}/vendor"), read_text(f"{place}/class"), place)
        except OSError:
            continue
    return found


def _numa_node(folder: str) -> CountOrMissing:
    text = read_lines(f"{folder}/numa_node")
    if isinstance(text, str):
        return int(text) if text.isdecimal() else missing("the firmware reports no NUMA node", "absent")
    return text


def _link(path: str) -> TextOrMissing:
    """One of the files of a link, which has all of them or none, as in a virtual machine."""
    text = read_lines(path)
    folder = os.path.dirname(path)
    has_others = any(os.path.exists(f"{folder}/{name}") for name in LINK_FILES)
    is_lost = isinstance(text, dict) and text["kind"] == "absent" and has_others
    return missing(f"{path} is not there, and others of the link are") if is_lost else text


def _count(path: str) -> CountOrMissing:
    text = _link(path)
    if not isinstance(text, str):
        return text
    # 255 and 0 are what the kernel writes where the link has none.
    return int(text) if text.isdecimal() and 0 < int(text) < 255 else missing(f"the link says {text}", "absent")


def _speed(path: str) -> float | Missing:
    """The figure in "16.0 GT/s PCIe"."""
    text = _link(path)
    if not isinstance(text, str):
        return text
    figure = text.partition(" ")[0]
    return float(figure) if figure.replace(".", "", 1).isdecimal() else missing(f"the link says {text}", "absent")


def _least(one: Any, other: Any) -> Any:
    """The lesser of two figures: a slot gives no more than either end can."""
    known = [value for value in (one, other) if not isinstance(value, dict)]
    return min(known) if known else one
