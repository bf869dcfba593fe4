"""Which Xids of NVIDIA's driver, and SXids of its switches, need something to be done, and what?

By the actions of NVIDIA's Xid catalogue: an Xid after which it says to ignore it, or to start the program again, is
none of a node's faults. Beyond that only those that report a part wearing out are listed, for a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from preflight.said import said

SOURCE = "NVIDIA Xid Errors: Xid catalog; Fabric Manager User Guide: SXid errors"


@dataclass(frozen=True)
class Xid:
    """An Xid and what it means; ``is_wear`` where a job can go on, and should know.

    ``example`` is what a line says behind "Xid (PCI:...): ", where another line with the code is ``neighbour`` and asks
    for nothing.
    """

    code: int
    name: str
    is_wear: bool = False
    example: str = ""
    neighbour: str = ""


XIDS = (
    # The catalogue's action is to reset the GPU, to restart the machine, or to have it looked at.
    Xid(46, "GPU stopped processing"),
    Xid(48, "double-bit ECC error"),
    Xid(54, "auxiliary power is not connected"),
    Xid(62, "internal micro-controller halt"),
    Xid(64, "row remapping failed"),
    Xid(74, "NVLink error"),
    Xid(79, "GPU has fallen off the bus"),
    Xid(95, "uncontained memory error"),
    Xid(109, "context switch time-out"),
    Xid(110, "security fault"),
    Xid(119, "GSP did not answer"),
    Xid(120, "GSP error"),
    Xid(136, "link training failed"),
    Xid(140, "unrecovered ECC error"),
    Xid(143, "GPU initialization failed"),
    Xid(144, "NVLink SAW error", example="144, Fatal XC0", neighbour="144, Nonfatal XC0"),
    Xid(145, "NVLink RLW error", example="145, Fatal XC0", neighbour="145, Nonfatal XC0"),
    Xid(146, "NVLink TLW error", example="146, Fatal XC0", neighbour="146, Nonfatal XC0"),
    Xid(147, "NVLink TREX error", example="147, Fatal XC0", neighbour="147, Nonfatal XC0"),
    Xid(148, "NVLink NVLPW error", example="148, Fatal XC0", neighbour="148, Nonfatal XC0"),
    Xid(149, "NVLink NETIR error", example="149, Fatal XC0", neighbour="149, Nonfatal XC0"),
    Xid(150, "NVLink MSE error", example="150, Fatal XC0", neighbour="150, Nonfatal XC0"),
    Xid(151, "key rotation error"),
    Xid(
        154,
        "recovery action changed",
        example="154, GPU recovery action changed from 0x0 (None) to 0x1 (Reset)",
        neighbour="154, GPU recovery action changed from 0x1 (Reset) to 0x0 (None)",
    ),
    Xid(155, "NVLink error by software"),
    Xid(156, "resource retired until the next reset"),
    Xid(158, "GPU fatal time-out"),
    Xid(167, "PCIe fatal time-out"),
    Xid(168, "less GPU memory than there should be"),
    Xid(169, "internal micro-controller halt"),
    Xid(171, "uncorrectable DRAM error"),
    Xid(172, "uncorrectable SRAM error"),
    Xid(173, "C2C link failed"),
    # A job can go on, and should know.
    Xid(63, "row remapping recorded", is_wear=True),
    Xid(92, "high single-bit ECC error rate", is_wear=True),
    Xid(93, "InfoROM wears out", is_wear=True),
    Xid(94, "contained memory error", is_wear=True),
    Xid(121, "C2C link error", is_wear=True),
    Xid(157, "resource retirement failed", is_wear=True),
    Xid(
        159, "coherent interconnect error", is_wear=True
    ),  # the catalogue asks for a reset where managed memory is in use
    Xid(
        166, "NVLink traffic before its encryption", is_wear=True
    ),  # this and 170 in confidential-computing mode only: no reset helps
    Xid(170, "NVLink interrupt in confidential-computing mode", is_wear=True),
)
BY_CODE = {row.code: row for row in XIDS}
BROKEN = {row.code: row.name for row in XIDS if not row.is_wear}
WEARING = {row.code: row.name for row in XIDS if row.is_wear}
FALLEN_OFF = 79
NVLINK5 = range(144, 151)  # whose line says whether it is fatal
WANTED = re.compile(r"\bto (?:0x\w+ )?\((\w[\w /-]*)\)")  # Xid 154: the recovery action
OVER = re.compile(r"\bto (0x0 )?\(?None\)?", re.IGNORECASE)  # Xid 154: nothing is to be done any more


class Event(Protocol):
    """A line of the kernel's log, as a node reports it."""

    @property
    def kind(self) -> str:
        """Either xid or sxid."""

    @property
    def code(self) -> int:
        """The number of the Xid."""

    @property
    def device(self) -> str:
        """The address of the GPU or switch."""

    @property
    def text(self) -> str:
        """The whole line."""


def is_fatal(event: Event, rows: Mapping[int, Xid] = BY_CODE) -> bool:
    """Whether the Xid or SXid of a line asks for a reset, a restart or another board."""
    if event.kind == "sxid":
        return "non-fatal" not in event.text.lower()
    if event.code == 154 and OVER.search(event.text):
        return False
    if event.code in NVLINK5 and re.search(r"non-?fatal", event.text, re.IGNORECASE):
        return False
    return event.code in rows and not rows[event.code].is_wear


def is_wear(event: Event, rows: Mapping[int, Xid] = BY_CODE) -> bool:
    """Whether it reports something that a job survives, and that gets worse."""
    if event.kind == "sxid":
        return not is_fatal(event)
    is_nvlink = event.code in NVLINK5 and not is_fatal(event)
    return is_nvlink or (event.code in rows and rows[event.code].is_wear)


def text(event: Event) -> str:
    """The event as a message says it."""
    if event.kind == "sxid":
        message = event.text.partition("SXid")[2].partition("): ")[2] or event.text
        return said("NVSwitch error (SXid) {strip} of {device}", message[:120].strip(), event.device)
    wanted = WANTED.search(event.text) if event.code == 154 else None
    name = said("the driver asks for: {wanted}", wanted[1]) if wanted else BY_CODE[event.code].name
    return said("Xid {code} ({name}) of {device}", event.code, name, event.device)
