"""Which GPUs and which driver does this node have, and how are they?"""

from __future__ import annotations

import os

from preflight.node.agent import programs, roots
from preflight.node.agent.missing import in_order, missing, missing_because, read_text_or_missing
from preflight.node.sources import pci
from preflight.node.subjects.environment import job_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.missing import Missing, TextOrMissing

# What reads its answers is loaded only where it is there: a node without GPUs does not pay for it.
PROGRAM = "nvidia-smi"
LIMIT_S = 18.0  # without persistence the driver initialises every GPU first: seconds each
LINKS_LIMIT_S = 5.0
FABRIC_MANAGER = "nv-fabricmanage"  # the kernel keeps 15 characters of a name
CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")
CONFINING = ("KUBERNETES_SERVICE_HOST", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")
CONFINING_GROUPS = ("docker", "kubepods", "libpod", "lxc", "containerd", "slurm", "pbs", "nspawn")
NOT_IN_MATRIX = "nvidia-smi topo -p2p does not list it"
# What an nvidia-smi without the word nvlink says, and one of a driver that knows no such GPU.
NO_SUCH_WORD = ("Invalid combination of input arguments", "Option is not recognized", "not a recognized")


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject gpu; a program is started only where there is one to ask."""
    facts = listed(arguments)
    sysfs = arguments.get("sysfs", "/sys")
    for device in facts["devices"] if isinstance(facts["devices"], list) else []:
        device["pci"] = in_order(pci.function(sysfs, device["bus_id"]))
    functions = pci.listed(arguments)
    facts["counted"] = pci.counted_by_gpus(sysfs, functions)
    facts["on_bus"] = on_bus(arguments, facts["devices"], pci.gpus(functions))
    switches = pci.count_switches(functions)
    if switches:
        facts["fabric_manager"] = fabric_manager(arguments)
    if is_in_a_domain(facts["devices"]):
        from preflight.node.sources.gpus import imex

        path = job_variables(arguments).get("PATH", ("", ""))[0]
        facts["imex"] = in_order(imex.collect(arguments, path, sees_processes=sees_processes(arguments)))
    return {**facts, "switches": switches, "imex_channels": imex_channels(arguments)}


def is_in_a_domain(devices: Any) -> bool:
    """Whether the NVLink fabric of a GPU may span several nodes."""
    clusters = [device["status"].get("fabric_cluster") for device in devices] if isinstance(devices, list) else []
    return any(isinstance(cluster, str) and cluster.strip("0-") for cluster in clusters)


def listed(arguments: dict[str, Any]) -> dict[str, Any]:
    """The GPUs as their driver's program lists them."""
    path = job_variables(arguments).get("PATH", ("", ""))[0]
    program = programs.find(PROGRAM, path, roots.root_of(arguments))
    if program:
        return with_links(asked(program), program)
    if os.path.exists(f"{arguments['proc']}/driver/nvidia"):
        return unknown(missing("the NVIDIA driver is loaded, but nvidia-smi was not found"))
    absent = missing("nvidia-smi not found", "absent")
    nothing = {"devices": [], "driver": absent, "cuda_driver": absent}
    has_compute = os.path.exists(f"{arguments.get('sysfs', '/sys')}/class/kfd")
    return (listed_by_amd(arguments, path) if has_compute else {}) or nothing


def listed_by_amd(arguments: dict[str, Any], path: str) -> dict[str, Any]:
    """The GPUs as AMD's tools list them; nothing where its driver is loaded for the CPU's integrated GPU only."""
    from preflight.node.sources import amd

    if not amd.is_present(arguments, path):
        return {}
    facts = amd.collect(path, roots.root_of(arguments))
    sysfs = arguments.get("sysfs", "/sys")
    if facts["devices"] == [] and pci.gpus(pci.listed(arguments), pci.AMD):
        return unknown(missing("AMD's tools list no GPU, and the bus has some: is the user in the group render?"))
    for device in facts["devices"] if isinstance(facts["devices"], list) else []:
        counted = amd.ras(f"{pci.folder(sysfs, device['bus_id'])}/ras")
        reported = device.get("status", {})
        # The kernel's counters are more reliable than a tool's sum; the tool fills in what the kernel does not show.
        kept = {name: value for name, value in counted.items() if not (isinstance(value, dict) and name in reported)}
        device["status"] = {**reported, **kept}
    return facts


def on_bus(arguments: dict[str, Any], devices: Any, found: list[str]) -> list[str] | Missing:
    """The GPUs that the kernel found on the PCI bus, with or without a driver.

    A container or a scheduler shows a session fewer than there are: then the list says nothing.
    """
    kfd = f"{arguments.get('sysfs', '/sys')}/class/kfd"
    is_driven = bool(devices) or any(map(os.path.exists, (f"{arguments['proc']}/driver/nvidia", kfd)))
    if found and is_driven and is_confined(arguments):
        return missing("a container or a scheduler may show fewer GPUs than there are", "absent")
    return found


def is_confined(arguments: dict[str, Any]) -> bool:
    """Whether this session may be kept from some of the machine's devices."""
    if any(name in roots.environment(arguments) for name in CONFINING) or is_marked(arguments):
        return True
    groups = read_text_or_missing(f"{arguments['proc']}/self/cgroup")
    if not isinstance(groups, str):
        return True  # nothing is known, and a GPU that is held back on purpose is no fault
    # In a control group namespace of its own a container sees itself at the root.
    return "0::/" in groups.splitlines() or any(word in groups for word in CONFINING_GROUPS)


def imex_channels(arguments: dict[str, Any]) -> int | Missing:
    """How many channels of IMEX there are, over which GPUs of several nodes share memory by NVLink."""
    folder = f"{arguments.get('dev', f'{roots.root_of(arguments)}/dev')}/nvidia-caps-imex-channels"
    try:
        return len(os.listdir(folder))
    except OSError as error:
        return missing_because(error)


def unknown(reason: Missing) -> dict[str, Any]:
    """Facts when nothing can be said."""
    return {"devices": reason, "driver": reason, "cuda_driver": reason}


def asked(program: str) -> dict[str, Any]:
    """What nvidia-smi prints in XML; where it has none or this Python cannot read it, in its plain text."""
    try:
        started = programs.Started([program, "-q", "-x"], limit_s=LIMIT_S)
        text = started.text()
    except (OSError, ValueError) as error:
        return unknown(missing(str(error)))
    try:
        return parse(text)
    except (ValueError, ImportError) as error:
        reason = f"{error}{started.silence}"
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
    commands = {
        "topology": [program, "topo", "-m"],
        "links": [program, "nvlink", "-s"],
        "errors": [program, "nvlink", "-e"],
        "read": [program, "topo", "-p2p", "r"],
        "write": [program, "topo", "-p2p", "w"],
    }
    outputs = programs.run_all(commands, limit_s=LINKS_LIMIT_S)
    try:
        matrix = (
            gpu_links.topology(outputs["topology"]) if isinstance(outputs["topology"], str) else outputs["topology"]
        )
    except ValueError as error:
        matrix = missing(str(error))
    access = access_of(outputs["read"], outputs["write"])
    links, errors = links_of(outputs["links"]), errors_of(outputs["errors"])
    reported = outputs["links"] if "missing" not in links else ""
    speeds = gpu_links.speeds(reported) if isinstance(reported, str) and reported else {}
    for device in devices:
        lost = missing("nvidia-smi nvlink -s does not list it")
        device["links"] = links if "missing" in links else in_order(links.get(device["index"], lost))
        if device["index"] in speeds:
            device["status"]["nvlink_gbytes_per_s"] = speeds[device["index"]]
        lost = missing("nvidia-smi nvlink -e does not list it")
        counted = errors.get(device["uuid"], errors.get(str(device["index"]), lost))
        device["peer_access"] = (
            access if isinstance(access, dict) else dict(enumerate(access)).get(device["index"], missing(NOT_IN_MATRIX))
        )
        device["link_errors"] = errors if "missing" in errors else in_order(counted)
    return {**facts, "topology": in_order(matrix)}


def links_of(text: TextOrMissing) -> dict[Any, Any]:
    """The NVLinks of each GPU, or why they are not known; an old nvidia-smi has no such word."""
    from preflight.node.sources import gpu_links

    if not isinstance(text, str):
        return text
    try:
        return gpu_links.nvlinks(text)
    except ValueError as error:
        return missing(str(error), "absent" if any(words in text for words in NO_SUCH_WORD) else "failed")


def errors_of(text: TextOrMissing) -> dict[Any, Any]:
    """What the NVLinks of each GPU have counted, or why that is not known."""
    from preflight.node.sources import gpu_links

    if not isinstance(text, str):
        return text
    try:
        return gpu_links.errors(text)
    except ValueError as error:
        return missing(str(error), "absent" if any(words in text for words in NO_SUCH_WORD) else "failed")


def access_of(read: TextOrMissing, write: TextOrMissing) -> list[list[str]] | Missing:
    """Which GPUs may reach which, by reading and by writing, or why that is not known."""
    from preflight.node.sources import gpu_links

    for text in (read, write):
        if not isinstance(text, str):
            return text
        if any(words in text for words in NO_SUCH_WORD):
            return missing(" ".join(text[:200].split()), "absent")
    try:
        return gpu_links.peer_access(str(read), str(write))
    except ValueError as error:
        return missing(str(error))


def errors_now(arguments: dict[str, Any]) -> list[list[Any]] | Missing:
    """The same, asked once more: [[UUID or index, its errors], ...]."""
    program = programs.find(PROGRAM, job_variables(arguments).get("PATH", ("", ""))[0], roots.root_of(arguments))
    if not program:
        return missing("nvidia-smi not found", "absent")
    outputs = programs.run_all({"errors": [program, "nvlink", "-e"]}, limit_s=LINKS_LIMIT_S)
    counted = errors_of(outputs["errors"])
    if "missing" in counted:
        return missing(counted["missing"], counted["kind"])
    return [[key, in_order(value)] for key, value in counted.items()]


def fabric_manager(arguments: dict[str, Any]) -> bool | Missing:
    """Whether Fabric Manager runs; from inside a container its process may not be seen."""
    from preflight.node.sources.gpus import imex

    if imex.runs(arguments["proc"], FABRIC_MANAGER):
        return True
    return (
        False if sees_processes(arguments) else missing("a container does not see the processes of its host", "absent")
    )


def sees_processes(arguments: dict[str, Any]) -> bool:
    """Whether this session sees all processes of its machine."""
    return not is_marked(arguments) and "KUBERNETES_SERVICE_HOST" not in roots.environment(arguments)


def is_marked(arguments: dict[str, Any]) -> bool:
    """Whether a file marks this as the inside of a container."""
    return any(os.path.exists(f"{roots.root_of(arguments)}{mark}") for mark in CONTAINER_MARKS)


def parse(text: str, *, is_text: bool = False) -> dict[str, Any]:
    """Facts from the output of `nvidia-smi -q -x`, or of `-q`; ValueError if that is not a whole document.

    Warnings may stand before and after the document, and an exit code other than 0 may come with a whole one.
    """
    return parse_text(text) if is_text else parse_xml(text)


def parse_xml(text: str) -> dict[str, Any]:
    """Facts from the output of `nvidia-smi -q -x`."""
    from preflight.node.sources import gpu_values

    worn = gpu_values.corrupted_inforoms(text)
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
        devices.append(gpu_values.gpu(pairs, index=index, bus_id=bus_id, worn=worn))
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
        gpu_values.gpu(pairs, index=index, bus_id=bus_id, is_part=is_part, worn=gpu_values.corrupted_inforoms(text))
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
        "driver": gpu_values.version_at(head, "kmd_version", "driver_version"),
        "cuda_driver": gpu_values.version_at(head, "cuda_umd_version", "cuda_version"),
    }
