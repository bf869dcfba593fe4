"""Which GPUs and which driver does this node have, and how are they?"""

from __future__ import annotations

import os

from preflight.node.agent import programs
from preflight.node.agent.missing import in_order, missing
from preflight.node.sources import amd, pci
from preflight.node.subjects.environment import job_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.missing import Missing

# What reads its answers is loaded only where it is there: a node without GPUs need not pay for it.
PROGRAM = "nvidia-smi"
LIMIT_S = 10.0
LINKS_LIMIT_S = 5.0
FABRIC_MANAGER = "nv-fabricmanage"  # the kernel keeps 15 characters of a name


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject gpu; a program is started only where there is one to ask."""
    path = job_variables(arguments).get("PATH", ("", ""))[0]
    program = programs.find(PROGRAM, path)
    if program:
        facts = with_links(asked(program), program)
    elif os.path.exists(f"{arguments['proc']}/driver/nvidia"):
        return unknown(missing("the NVIDIA driver is loaded, but nvidia-smi was not found"))
    elif amd.is_present(arguments):
        facts = amd.collect(path)
    else:
        absent = missing("nvidia-smi not found", "absent")
        return {"devices": [], "driver": absent, "cuda_driver": absent}
    sysfs = arguments.get("sysfs", "/sys")
    for device in facts["devices"] if isinstance(facts["devices"], list) else []:
        device["pci"] = in_order(pci.function(sysfs, device["bus_id"]))
    switches = pci.count_switches(sysfs)
    return {**facts, "switches": switches, **({"fabric_manager": fabric_manager(arguments)} if switches else {})}


def unknown(reason: Missing) -> dict[str, Any]:
    """Facts when nothing can be said."""
    return {"devices": reason, "driver": reason, "cuda_driver": reason}


def asked(program: str) -> dict[str, Any]:
    """What nvidia-smi prints in XML; where it has none or this Python cannot read it, in its plain text."""
    try:
        text = programs.run([program, "-q", "-x"], limit_s=LIMIT_S)
    except (OSError, ValueError) as error:
        return unknown(missing(str(error)))
    try:
        return parse(text)
    except (ValueError, ImportError) as error:
        reason = str(error)
    if "<nvidia_smi_log" not in text and "NVSMI LOG" not in text:
        return unknown(missing(reason))  # it failed in words of its own: asking again gives the same
    try:
        return parse(text if "NVSMI LOG" in text else programs.run([program, "-q"], limit_s=LIMIT_S), is_text=True)
    except (OSError, ValueError):
        return unknown(missing(reason))


def with_links(facts: dict[str, Any], program: str) -> dict[str, Any]:
    """The same with NVLinks and the topology, where there is more than one GPU to join."""
    from preflight.node.sources import gpu_links

    devices = facts["devices"]
    if not isinstance(devices, list) or len(devices) < 2:
        return facts
    commands = {"topology": [program, "topo", "-m"], "links": [program, "nvlink", "-s"]}
    outputs = programs.run_all(commands, limit_s=LINKS_LIMIT_S)
    try:
        matrix = (
            gpu_links.topology(outputs["topology"]) if isinstance(outputs["topology"], str) else outputs["topology"]
        )
    except ValueError as error:
        matrix = missing(str(error))
    try:
        links = gpu_links.nvlinks(outputs["links"]) if isinstance(outputs["links"], str) else {}
    except ValueError:
        links = {}  # an old nvidia-smi has no such word, and a table of links is not worth an error
    for device in devices:
        if device["index"] in links:
            device["links"] = in_order(links[device["index"]])
    return {**facts, "topology": in_order(matrix)}


def fabric_manager(arguments: dict[str, Any]) -> bool | Missing:
    """Whether Fabric Manager runs; from inside a container its process may not be seen."""
    proc = arguments["proc"]
    for entry in os.listdir(proc):
        if entry.isdigit():
            try:
                with open(f"{proc}/{entry}/comm", encoding="utf-8", errors="backslashreplace") as file:
                    if file.read().strip().startswith(FABRIC_MANAGER):
                        return True
            except OSError:
                continue
    inside = any(os.path.exists(mark) for mark in ("/.dockerenv", "/run/.containerenv"))
    if inside or "KUBERNETES_SERVICE_HOST" in os.environ:
        return missing("a container does not see the processes of its host", "absent")
    return False


def parse(text: str, *, is_text: bool = False) -> dict[str, Any]:
    """Facts from the output of `nvidia-smi -q -x`, or of `-q`; ValueError if that is not a whole document.

    Warnings may stand before and after the document, and an exit code other than 0 may come with a whole one.
    """
    return parse_text(text) if is_text else parse_xml(text)


def parse_xml(text: str) -> dict[str, Any]:
    """Facts from the output of `nvidia-smi -q -x`."""
    from preflight.node.sources import gpu_values

    start, end = text.find("<nvidia_smi_log"), text.rfind("</nvidia_smi_log>")
    if start < 0 or end < start:
        kind = "printed no XML" if start < 0 else "output was cut short"
        raise ValueError(f"{PROGRAM} {kind}: {' '.join(text[-300:].split())}")
    from xml.etree import ElementTree as ET

    try:
        log = ET.fromstring(text[start : end + len("</nvidia_smi_log>")])  # noqa: S314 - without a DTD no entities
    except ET.ParseError as error:
        raise ValueError(f"{PROGRAM} printed broken XML: {error}") from None
    devices = []
    for index, element in enumerate(log.findall("gpu")):
        pairs = gpu_values.flatten(element)
        bus_id = element.get("id") or dict(pairs).get("pci/pci_bus_id", "?")
        devices.append(gpu_values.gpu(pairs, index=index, bus_id=bus_id))
    head = {child.tag: (child.text or "").strip() for child in log if child.tag != "gpu"}
    return _all(head, devices)


def parse_text(text: str) -> dict[str, Any]:
    """Facts from the output of `nvidia-smi -q`, or of a section of it (`-q -d ECC`)."""
    from preflight.node.sources import gpu_values

    start = text.find("NVSMI LOG")
    if start < 0:
        raise ValueError(f"{PROGRAM} printed no log: {' '.join(text[-300:].split())}")
    head, blocks = gpu_values.blocks(text[start:])
    names = [{path for path, _ in pairs} for _, pairs in blocks]
    is_part = not any("product_name" in paths for paths in names)
    if not is_part and not all(any(path.startswith("processes") for path in paths) for paths in names):
        raise ValueError(f"{PROGRAM} output was cut short: {' '.join(text[-300:].split())}")
    devices = [
        gpu_values.gpu(pairs, index=index, bus_id=bus_id, is_part=is_part)
        for index, (bus_id, pairs) in enumerate(blocks)
    ]
    return _all(head, devices)


def _all(head: dict[str, str], devices: list[dict[str, Any]]) -> dict[str, Any]:
    from preflight.node.sources import gpu_values

    attached = head.get("attached_gpus", "")
    if not attached.isdecimal() and not devices:
        raise ValueError(f"{PROGRAM} output was cut short before the number of GPUs")
    short = attached.isdecimal() and int(attached) != len(devices)
    return {
        "devices": missing(f"{PROGRAM} counts {attached} GPUs and describes {len(devices)}") if short else devices,
        "driver": gpu_values.text_at(head, "driver_version"),
        "cuda_driver": gpu_values.text_at(head, "cuda_version"),
    }
