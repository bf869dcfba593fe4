"""Which GPUs and which driver does nvidia-smi report here?"""

from __future__ import annotations

import os
import select
import time

from preflight.node.environment import job_variables
from preflight.node.missing import missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen
    from typing import Any, Union
    from xml.etree.ElementTree import Element

    from preflight.node.missing import Missing, TextOrMissing

    CountOrMissing = Union[int, Missing]

PROGRAM = "nvidia-smi"
FOLDERS = ("/usr/bin", "/usr/local/nvidia/bin")
LIMIT_S = 10.0
AFTER_KILL_S = 1.0
LARGEST_REPLY_BYTES = 16 << 20
NOT_TOLD = ("N/A", "[N/A]", "Not Supported", "[Not Supported]", "Requested functionality has been deprecated")


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject gpu."""
    path = job_variables(arguments).get("PATH", ("", ""))[0]
    program = find(path)
    if program:
        try:
            return parse(run(program))
        except (OSError, ValueError) as error:
            return unknown(missing(str(error)))
    if os.path.exists(f"{arguments['proc']}/driver/nvidia"):
        return unknown(missing("the NVIDIA driver is loaded, but nvidia-smi was not found"))
    absent = missing("nvidia-smi not found", "absent")
    return {"devices": [], "driver": absent, "cuda_driver": absent}


def unknown(reason: Missing) -> dict[str, Any]:
    """Facts when nothing can be said."""
    return {"devices": reason, "driver": reason, "cuda_driver": reason}


def find(path: str) -> str:
    """Where nvidia-smi is, or the empty string."""
    for folder in [*filter(None, path.split(":")), *FOLDERS]:
        program = f"{folder}/{PROGRAM}"
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return ""


def run(program: str, *, limit_s: float = LIMIT_S) -> str:
    """What `nvidia-smi -q -x` prints; TimeoutError when it takes longer, for a sick driver can stop it for ever."""
    import subprocess

    from preflight.node import children

    reader, writer = os.pipe()
    with open(reader, "rb", buffering=0) as output:
        try:
            # stderr too: some failures are told only there; parse() takes the document out of what surrounds it.
            environment = {**os.environ, "LC_ALL": "C"}
            process = children.start(
                [program, "-q", "-x"], seconds=limit_s, stdout=writer, stderr=subprocess.STDOUT, env=environment
            )
        finally:
            os.close(writer)
        try:
            text = read_all(output.fileno(), end=time.monotonic() + limit_s)
        finally:
            stuck = stop(process)
    if text is None:
        raise TimeoutError(f"{PROGRAM} did not finish within {limit_s:g} s{stuck}")
    return text.decode("utf-8", "backslashreplace")


def read_all(descriptor: int, *, end: float) -> bytes | None:
    """Everything that comes until the other side closes, or nothing if it does not by `end`."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    parts: list[bytes] = []
    size = 0
    while poller.poll(max(0.0, 1000 * (end - time.monotonic()))):
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > LARGEST_REPLY_BYTES:
            raise ValueError(f"{PROGRAM} printed more than {LARGEST_REPLY_BYTES >> 20} MiB")
    return None


def stop(process: Popen[bytes]) -> str:
    """End the program; says so if even SIGKILL does not: it hangs in the kernel (D state)."""
    import subprocess

    process.kill()
    try:
        process.wait(AFTER_KILL_S)
    except subprocess.TimeoutExpired:
        process.returncode = -9  # nobody waits for it any more, and Popen need not complain about that
        return f" and cannot be killed: process {process.pid} hangs in the driver"
    return ""


def parse(text: str) -> dict[str, Any]:
    """Facts from the output of `nvidia-smi -q -x`; ValueError with its own words if that is not a whole document.

    Warnings may stand before and after the document, and an exit code other than 0 may come with a whole one.
    """
    start, end = text.find("<nvidia_smi_log"), text.rfind("</nvidia_smi_log>")
    if start < 0 or end < start:
        kind = "printed no XML" if start < 0 else "output was cut short"
        raise ValueError(f"{PROGRAM} {kind}: {' '.join(text[-300:].split())}")
    from xml.etree import ElementTree as ET

    try:
        log = ET.fromstring(text[start : end + len("</nvidia_smi_log>")])  # noqa: S314 - without a DTD no entities
    except ET.ParseError as error:
        raise ValueError(f"{PROGRAM} printed broken XML: {error}") from None
    devices = [gpu(element, index=index) for index, element in enumerate(log.findall("gpu"))]
    attached = log.findtext("attached_gpus", "").strip()
    short = attached.isdecimal() and int(attached) != len(devices)
    return {
        "devices": missing(f"{PROGRAM} counts {attached} GPUs and describes {len(devices)}") if short else devices,
        "driver": told(log, "driver_version"),
        "cuda_driver": told(log, "cuda_version"),
    }


def gpu(element: Element, *, index: int) -> dict[str, Any]:
    """One GPU; its index is its place in the list, which is NVML's order: minor numbers follow another one."""
    memory = told(element, "fb_memory_usage/total")
    return {
        "index": index,
        "name": required(element, "product_name"),
        "uuid": required(element, "uuid"),
        "memory_mib": memory_mib(memory) if isinstance(memory, str) else memory,
        "bus_id": element.get("id") or required(element, "pci/pci_bus_id"),
        "compute_mode": told(element, "compute_mode"),
        "mig_mode": told(element, "mig_mode/current_mig"),
        "processes": processes(element),
    }


def told(element: Element, path: str) -> TextOrMissing:
    """The text at a path, where nvidia-smi has one to tell."""
    text = element.findtext(path)
    if text is None:
        return missing(f"this {PROGRAM} does not tell {path}", "absent")
    text = text.strip()
    if not text or text in NOT_TOLD:
        return missing(f"{PROGRAM} says {text or 'nothing'}", "absent")
    if text.upper().startswith(("ERR!", "[UNKNOWN", "UNKNOWN ERROR", "[GPU", "GPU IS LOST", "GPU REQUIRES RESET")):
        return missing(f"{PROGRAM} says {text}")
    return text


def required(element: Element, path: str) -> str:
    """The text at a path without which a GPU cannot be named."""
    text = told(element, path)
    if isinstance(text, str):
        return text
    raise ValueError(f"{path} of GPU {element.get('id', '?')}: {text['missing']}")


def memory_mib(text: str) -> CountOrMissing:
    """The figure in "81920 MiB"."""
    figure, _, unit = text.partition(" ")
    if unit == "MiB" and figure.isdecimal():
        return int(figure)
    return missing(f"{PROGRAM} says {text}")


def processes(element: Element) -> CountOrMissing:
    """How many processes use the GPU."""
    block = element.find("processes")
    if block is None:
        return missing(f"this {PROGRAM} does not tell processes", "absent")
    text = (block.text or "").strip()
    if text:
        return missing(f"{PROGRAM} says {text}", "absent" if text in NOT_TOLD else "failed")
    return len(block.findall("process_info"))
