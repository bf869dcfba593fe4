"""Which Xids of NVIDIA's driver, and SXids of its switches, need something to be done, and what?

By the actions of NVIDIA's Xid catalogue: an Xid after which it says to ignore it, or to start the program again, is
none of a node's faults. Beyond that only those that report a part wearing out are listed, for a warning.
"""

from __future__ import annotations

import re

from preflight.facts.subjects.kernel import LogEvent
from preflight.said import said

SOURCE = "NVIDIA Xid Errors: Xid catalogue; Fabric Manager User Guide: SXid errors"
# The catalogue's action is to reset the GPU, to restart the machine, or to have it looked at.
BROKEN = {
    46: "GPU stopped processing",
    48: "double-bit ECC error",
    54: "auxiliary power is not connected",
    62: "internal micro-controller halt",
    64: "row remapping failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    95: "uncontained memory error",
    109: "context switch time-out",
    110: "security fault",
    119: "GSP did not answer",
    120: "GSP error",
    136: "link training failed",
    140: "unrecovered ECC error",
    143: "GPU initialisation failed",
    144: "NVLink SAW error",
    145: "NVLink RLW error",
    146: "NVLink TLW error",
    147: "NVLink TREX error",
    148: "NVLink NVLPW error",
    149: "NVLink NETIR error",
    150: "NVLink MSE error",
    151: "key rotation error",
    154: "recovery action changed",
    155: "NVLink error by software",
    156: "resource retired until the next reset",
    158: "GPU fatal time-out",
    167: "PCIe fatal time-out",
    168: "less GPU memory than there should be",
    169: "internal micro-controller halt",
    171: "uncorrectable DRAM error",
    172: "uncorrectable SRAM error",
    173: "C2C link failed",
}
# A job can go on, and should know.
WEARING = {
    63: "row remapping recorded",
    92: "high single-bit ECC error rate",
    93: "InfoROM wears out",
    94: "contained memory error",
    121: "C2C link error",
    157: "resource retirement failed",
    159: "coherent interconnect error",  # the catalogue asks for a reset where managed memory is in use
    166: "NVLink traffic before its encryption",  # this and 170 in confidential-computing mode only: no reset helps
    170: "NVLink interrupt in confidential-computing mode",
}
FALLEN_OFF = 79
NVLINK5 = range(144, 151)  # whose line says whether it is fatal
WANTED = re.compile(r"\bto (?:0x\w+ )?\((\w[\w /-]*)\)")  # Xid 154: the recovery action
OVER = re.compile(r"\bto (0x0 )?\(?None\)?", re.IGNORECASE)  # Xid 154: nothing is to be done any more


def is_fatal(event: LogEvent) -> bool:
    """Whether the Xid or SXid of a line asks for a reset, a restart or another board."""
    if event.kind == "sxid":
        return "non-fatal" not in event.text.lower()
    if event.code == 154 and OVER.search(event.text):
        return False
    if event.code in NVLINK5 and re.search(r"non-?fatal", event.text, re.IGNORECASE):
        return False
    return event.code in BROKEN


def is_wear(event: LogEvent) -> bool:
    """Whether it reports something that a job survives, and that gets worse."""
    if event.kind == "sxid":
        return not is_fatal(event)
    is_nvlink = event.code in NVLINK5 and not is_fatal(event)
    return event.code in WEARING or is_nvlink


def text(event: LogEvent) -> str:
    """The event as a message says it."""
    if event.kind == "sxid":
        message = event.text.partition("SXid")[2].partition("): ")[2] or event.text
        return said("NVSwitch error (SXid) {strip} of {device}", message[:120].strip(), event.device)
    wanted = WANTED.search(event.text) if event.code == 154 else None
    name = said("the driver asks for: {wanted}", wanted[1]) if wanted else {**BROKEN, **WEARING}[event.code]
    return said("Xid {code} ({name}) of {device}", event.code, name, event.device)
