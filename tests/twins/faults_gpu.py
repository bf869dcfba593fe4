"""What breaks with GPUs, as nvidia-smi, amd-smi, the kernel's log and sysfs tell it?"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from . import nvidia, sysfs
from .faults import Fault, Fits, Plant, both, file, gone, logged, replaced, variables
from .faults_node import VERSIONS
from .folder import TWIN, Folder
from .platform import Platform

QUERY, TOPO, LINKS, ERRORS, READ, WRITE = (
    f"{TWIN}/outputs/nvidia-smi {words}"
    for words in ("-q -x", "topo -m", "nvlink -s", "nvlink -e", "topo -p2p r", "topo -p2p w")
)
AMD, METRIC, XGMI, FIRMWARE, PROCESS = (
    f"{TWIN}/outputs/amd-smi {words} --json"
    for words in ("static", "metric", "xgmi --link-status", "firmware", "process")
)
BROKEN, HELD_BACK = "gpu.none_is_broken", "gpu.none_is_held_back"
COUNT, LISTED = "gpu.count_is_the_same_on_every_node", "gpu.every_gpu_on_the_bus_is_listed"
PCIE_ERRORS = "gpu.none_counted_pcie_errors_during_the_run"
NVLINK_ERRORS = "gpu.nvlinks_counted_no_errors_during_the_run"
DOMAIN, JOINS = "gpu.an_nvlink_domain_is_of_one_clique", "gpu.imex_joins_an_nvlink_domain"
IMEX = f"{TWIN}/outputs/nvidia-imex-ctl -N -j"
NODES_CONFIG = "etc/nvidia-imex/nodes_config.cfg"
SETTINGS = "gpu.settings_are_the_same_on_every_node"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.133\n"


def is_nvidia(platform: Platform) -> bool:
    """Whether nvidia-smi is there."""
    return platform.gpus is not None and platform.gpus.vendor == "nvidia"


def is_confined(platform: Platform) -> bool:
    """Whether a session there may be shown fewer GPUs than there are."""
    return platform.container or "SLURM_JOB_ID" in platform.environment


def is_amd(platform: Platform) -> bool:
    """Whether amd-smi is there."""
    return platform.gpus is not None and platform.gpus.vendor == "amd"


def of(condition: Fits) -> Fits:
    """The same on platforms with NVIDIA's GPUs."""
    return lambda platform: is_nvidia(platform) and condition(platform)


has_ecc = of(lambda p: p.gpus.has_ecc)  # type: ignore[union-attr]
remaps = of(lambda p: p.gpus.has_ecc and p.gpus.architecture not in ("Pascal", "Volta", "Turing"))  # type: ignore[union-attr]
has_links = of(lambda p: p.gpus.nvlinks > 0)  # type: ignore[union-attr]
has_fabric = of(lambda p: p.gpus.has_fabric)  # type: ignore[union-attr]
has_switches = of(lambda p: p.gpus.switches > 0 and "nv-fabricmanager" in p.processes)  # type: ignore[union-attr]
over_pcie = of(lambda p: p.gpus.nvlinks == 0)  # type: ignore[union-attr]
logs = of(lambda p: p.has_log)
counts_pcie = lambda p: p.gpus is not None and p.gpus.is_on_bus and not p.is_guest  # noqa: E731 - as those above
in_rack = of(lambda p: p.gpus.clique != "0")


def tag(name: str, before: str, after: str) -> object:
    """What nvidia-smi says in one element of the first GPU."""
    return replaced(QUERY, rf"<{name}>{before}</{name}>", f"<{name}>{after}</{name}>")


def lost_gpu(folder: Folder, platform: Platform) -> None:
    """The last GPU has fallen off the bus: the driver lists one less."""
    assert platform.gpus is not None
    fewer = replace(platform.gpus, count=platform.gpus.count - 1)
    folder.write(QUERY, nvidia.query_xml(fewer, 3))
    folder.write(TOPO, nvidia.topology(fewer, platform.hcas, platform.topology))
    folder.write(LINKS, nvidia.nvlink_status(fewer, 3))
    folder.write(ERRORS, nvidia.nvlink_errors(fewer, 3))
    for access in (READ, WRITE):
        folder.write(access, nvidia.peer_access(fewer))


def other_model(folder: Folder, platform: Platform) -> None:
    """A board of another kind."""
    folder.sub(QUERY, r"<product_name>.*</product_name>", "<product_name>NVIDIA A30</product_name>")


def without_driver(folder: Folder, _: Platform) -> None:
    """The driver was removed with a kernel's update: no module, no program, but the GPUs sit on PCIe."""
    gone("usr/local/bin/nvidia-smi", "proc/driver")(folder, _)
    text = folder.path("proc/modules").read_text()
    folder.write("proc/modules", "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("nvidia")))


def held_by(name: str) -> Plant:
    """The same, with another driver of the kernel on the GPUs."""

    def plant(folder: Folder, platform: Platform) -> None:
        without_driver(folder, platform)
        assert platform.gpus is not None
        for place in platform.gpus.pci[: platform.gpus.count]:
            folder.link(f"sys/{sysfs.folder_of(place)}/driver", f"/sys/bus/pci/drivers/{name}")

    return plant


def by_bios(folder: Folder, platform: Platform) -> None:
    """The IOMMU translates, with the same kernel and the same options."""
    assert platform.gpus is not None
    for place in platform.gpus.pci[: platform.gpus.count]:
        folder.write(f"sys/{sysfs.folder_of(place)}/iommu_group/type", "DMA-FQ\n")


def no_link(folder: Folder, _: Platform) -> None:
    """All links of the first GPU are down, and nvidia-smi says so instead of listing them."""
    text = folder.path(LINKS).read_text()
    first, rest = re.split(r"\n(?=GPU 1:)", text, maxsplit=1)
    words = "NVML: Unable to retrieve NVLink information as all links are inActive"
    folder.write(LINKS, f"{first.splitlines()[0]}\n{words}\n{rest}")


def acs(folder: Folder, platform: Platform) -> None:
    """The firmware has switched ACS on for a port of a switch."""
    assert platform.gpus is not None
    bridge = sysfs.folder_of(platform.gpus.pci[0]).rpartition("/")[0]
    folder.write(f"sys/{bridge}/config", sysfs.config(acs=0x1D))


def narrow(folder: Folder, platform: Platform) -> None:
    """A GPU is linked with eight lanes."""
    assert platform.gpus is not None
    folder.write(f"sys/{sysfs.folder_of(platform.gpus.pci[0])}/current_link_width", "8\n")
    folder.sub(QUERY, "<current_link_width>16x", "<current_link_width>8x")


def translated(folder: Folder, platform: Platform) -> None:
    """The IOMMU translates."""
    assert platform.gpus is not None
    for place in platform.gpus.pci:
        folder.write(f"sys/{sysfs.folder_of(place)}/iommu_group/type", "DMA-FQ\n")
    folder.sub("proc/cmdline", "iommu=pt", "intel_iommu=on")


def one_numa_node(folder: Folder, platform: Platform) -> None:
    """The BIOS shows both sockets as one NUMA node."""
    assert platform.gpus is not None
    for place in platform.gpus.pci:
        folder.write(f"sys/{sysfs.folder_of(place)}/numa_node", "0\n")


def busy(folder: Folder, _: Platform) -> None:
    """A program of yesterday still computes."""
    process = "\t\t\t<process_info>\n\t\t\t\t<pid>4711</pid>\n\t\t\t\t<type>C</type>\n\t\t\t</process_info>\n"
    folder.sub(QUERY, r"\t\t<processes>\n", rf"\t\t<processes>\n{process}")


def mig(folder: Folder, _: Platform) -> None:
    """A GPU was left split."""
    folder.sub(QUERY, "<current_mig>Disabled", "<current_mig>Enabled")
    folder.sub(QUERY, "<pending_mig>Disabled", "<pending_mig>Enabled")


def lost_amd(folder: Folder, _: Platform) -> None:
    """amd-smi lists one less."""
    for name in ("static", "metric", "firmware", "process"):
        path = f"{TWIN}/outputs/amd-smi {name} --json"
        told = json.loads(folder.path(path).read_text())
        fewer = {"gpu_data": told["gpu_data"][:-1]} if isinstance(told, dict) else told[:-1]
        folder.write(path, json.dumps(fewer))


def aer(name: str, total: str, count: int) -> Plant:
    """Errors that the first GPU has counted on PCIe."""

    def plant(folder: Folder, platform: Platform) -> None:
        assert platform.gpus is not None
        folder.sub(f"sys/{sysfs.folder_of(platform.gpus.pci[0])}/{name}", f"{total} 0", f"{total} {count}")

    return plant


def swapped(folder: Folder, platform: Platform) -> None:
    """The adapters of two rails sit in each other's slots; before driver 520 their names head the columns."""
    text = folder.path(TOPO).read_text()
    if "NIC0" in text:
        text = re.sub(r"NIC0: (\S+)\n  NIC1: (\S+)", r"NIC0: \2\n  NIC1: \1", text)
    else:
        one, other = (hca.name for hca in platform.hcas[:2])
        text = re.sub(rf"\b({one}|{other})\b", lambda found: other if found[1] == one else one, text)
    folder.write(TOPO, text)


FAULTS = (
    Fault(
        "GPU off the bus",
        lost_gpu,
        lambda p: COUNT if is_confined(p) or not p.gpus.is_on_bus else LISTED,
        "",
        is_nvidia,
    ),
    Fault(
        "GPU lost to nvidia-smi",
        file(QUERY, "Unable to determine the device handle for GPU0000:13:00.0: Unknown Error\n"),
        "gpu.devices_are_readable",
        "Unable to determine",
        is_nvidia,
    ),
    Fault(
        "driver not reloaded",
        both(file(QUERY, MISMATCH), file(f"{QUERY}.exit", "18")),
        "gpu.devices_are_readable",
        "version mismatch",
        is_nvidia,
    ),
    Fault(
        "no devices found",
        both(file(QUERY, "No devices were found\n"), file(f"{QUERY}.exit", "6")),
        "gpu.devices_are_readable",
        "No devices",
        is_nvidia,
    ),
    Fault("driver gone", without_driver, LISTED, "the driver lists none", lambda p: is_nvidia(p) and p.gpus.is_on_bus),
    Fault("nouveau", held_by("nouveau"), LISTED, "the driver lists none", of(lambda p: p.gpus.is_on_bus)),
    Fault(
        "small BAR1",
        replaced(QUERY, r"(?s)(<bar1_memory_usage>\s*<total>)\d+", r"\g<1>256"),
        SETTINGS,
        "BAR1",
        of(lambda p: p.gpus.count > 1),
    ),
    Fault(
        "pairs without NVLink",
        replaced(TOPO, "NV18", "SYS", 3),
        SETTINGS,
        "NV18, PCIe",
        of(lambda p: p.gpus.nvlinks == 18 and not is_confined(p) and p.gpus.count > 1),
    ),
    Fault(
        "IOMMU of the BIOS",
        by_bios,
        SETTINGS,
        "IOMMU of the GPUs",
        of(lambda p: p.gpus.is_on_bus and p.iommu == "identity"),
    ),
    Fault("ECC errors", tag("dram_uncorrectable", "0", "3"), BROKEN, "3 memory errors", has_ecc),
    Fault("remapping pending", tag("remapped_row_pending", "No", "Yes"), BROKEN, "remapping of a broken row", remaps),
    Fault("remapping failed", tag("remapped_row_failure", "No", "Yes"), BROKEN, "could not be remapped", remaps),
    Fault(
        "no spare row",
        tag("row_remapper_histogram_none", r"0 bank\(s\)", "1 bank(s)"),
        HELD_BACK,
        "no spare row",
        remaps,
    ),
    Fault(
        "last spare row",
        tag("row_remapper_histogram_low", r"0 bank\(s\)", "2 bank(s)"),
        HELD_BACK,
        "2 banks of its memory have one spare row left",
        remaps,
    ),
    Fault("worn SRAM", tag("sram_threshold_exceeded", "No", "Yes"), BROKEN, "SRAM errors", has_ecc),
    Fault("reset wanted", tag("gpu_recovery_action", "None", "Reset"), BROKEN, "the driver asks for: Reset", is_nvidia),
    Fault("out of the NVLink fabric", tag("state", "Completed", "In Progress"), BROKEN, "NVLink fabric", has_fabric),
    Fault("prohibited", tag("compute_mode", "Default", "Prohibited"), BROKEN, "Prohibited", is_nvidia),
    Fault("exclusive", tag("compute_mode", "Default", "Exclusive_Process"), HELD_BACK, "Exclusive_Process", is_nvidia),
    Fault(
        "too hot",
        tag("clocks_event_reason_hw_thermal_slowdown", "Not Active", "Active"),
        HELD_BACK,
        "thermal slowdown",
        is_nvidia,
    ),
    Fault(
        "power brake",
        tag("clocks_event_reason_hw_power_brake_slowdown", "Not Active", "Active"),
        HELD_BACK,
        "power brake",
        is_nvidia,
    ),
    Fault(
        "narrow slot",
        narrow,
        HELD_BACK,
        "PCIe x8 in a slot for x16",
        of(lambda p: not p.is_guest and p.gpus.generation > 1),
    ),
    Fault("narrow slot of a guest's host", narrow, SETTINGS, "8 lanes", of(lambda p: p.is_guest)),
    Fault(
        "slow slot",
        tag("current_link_gen", r"\d", "1"),
        HELD_BACK,
        "PCIe generation 1",
        of(lambda p: p.gpus.generation > 1),
    ),
    Fault("ECC off after a reboot", tag("pending_ecc", "Enabled", "Disabled"), HELD_BACK, "ECC will be off", has_ecc),
    Fault(
        "no persistence",
        replaced(QUERY, "<persistence_mode>Enabled", "<persistence_mode>Disabled", 0),
        SETTINGS,
        "persistence mode",
        is_nvidia,
    ),
    Fault(
        "one NUMA node less",
        one_numa_node,
        SETTINGS,
        "NUMA nodes of the GPUs",
        of(lambda p: p.gpus.vendor == "nvidia" and len({place[5:7] >= "50" for place in p.gpus.pci}) > 1),
    ),
    Fault(
        "no IMEX channel",
        gone("dev/nvidia-caps-imex-channels"),
        JOINS,
        "no IMEX channel",
        in_rack,
    ),
    Fault(
        "IMEX stopped",
        lambda folder, platform: both(
            gone(f"proc/{300 + platform.processes.index('nvidia-imex')}"),
            file(IMEX, '{"nodes":{"0":{"status":"UNAVAILABLE","host":"10.77.0.3"}},"timestamp":"","status":"DOWN"}'),
        )(folder, platform),
        JOINS,
        "nvidia-imex does not run",
        in_rack,
    ),
    Fault(
        "IMEX waits",
        replaced(IMEX, r'"READY", "host": "10.77.0.3"', '"WAITING_FOR_PEERS", "host": "10.77.0.3"'),
        JOINS,
        "10.77.0.3 WAITING_FOR_PEERS",
        in_rack,
    ),
    Fault(
        "IMEX does not know the node",
        file(NODES_CONFIG, "10.77.0.1\n10.77.0.2\n"),
        JOINS,
        "does not name the node itself",
        in_rack,
    ),
    Fault(
        "IMEX knows another node",
        file(NODES_CONFIG, "10.77.0.1\n10.77.0.2\n10.77.0.3\n10.77.0.9\n"),
        JOINS,
        "3 nodes without 10.77.0.9 on node[1-2]",
        in_rack,
    ),
    Fault(
        "other clique",
        replaced(QUERY, r"<cliqueId>.*<", "<cliqueId>7<", 0),
        DOMAIN,
        "clique",
        of(lambda p: p.gpus.clique != "0"),
    ),
    Fault("lower power limit", tag("current_power_limit", r"\S+ W", "250.00 W"), SETTINGS, "power limit", is_nvidia),
    Fault("split", mig, "gpu.none_is_partitioned", "MIG mode", of(lambda p: p.gpus.can_split)),
    Fault("other model", other_model, "gpu.model_is_the_same_on_every_node", "A30", is_nvidia),
    Fault(
        "other driver",
        replaced(QUERY, r"<driver_version>.*<", "<driver_version>525.147.05<"),
        VERSIONS,
        "GPU driver: ",
        of(lambda p: not p.gpus.driver.startswith("525.147")),
    ),
    Fault(
        "driver too old for torch",
        replaced(QUERY, r"<cuda_version>.*<", "<cuda_version>11.4<"),
        "gpu.driver_runs_the_cuda_of_torch",
        "CUDA 11.4 at most",
        of(lambda p: not p.cuda_of_torch.startswith("11")),  # a driver of 11.4 runs all of CUDA 11
    ),
    Fault(
        "Xid 79",
        logged("NVRM: Xid (PCI:0000:13:00): 79, pid='<unknown>', GPU has fallen off the bus."),
        "gpu.kernel_log_tells_of_no_broken_gpu",
        "Xid 79",
        logs,
    ),
    Fault(
        "Xid 48",
        logged("NVRM: Xid (PCI:0000:13:00): 48, pid=2341, name=python, An uncorrectable double bit error"),
        "gpu.kernel_log_tells_of_no_broken_gpu",
        "Xid 48",
        logs,
    ),
    Fault(
        "Xid 74",
        logged("NVRM: Xid (PCI:0000:13:00): 74, pid=2341, NVLink: fatal error detected on link 2"),
        "gpu.kernel_log_tells_of_no_broken_gpu",
        "Xid 74",
        of(lambda p: p.has_log and p.gpus.nvlinks > 0),
    ),
    Fault(
        "NVLink down",
        replaced(LINKS, r"Link 0: [\d.]+ GB/s", "Link 0: <inactive>"),
        "gpu.nvlinks_are_up",
        "NVLinks are inactive",
        has_links,
    ),
    Fault("NVLinks all down", no_link, "gpu.nvlinks_are_up", "all NVLinks are inactive", has_links),
    Fault(
        "Fabric Manager stopped",
        lambda folder, platform: both(
            gone(f"proc/{300 + platform.processes.index('nv-fabricmanager')}"),
            *([tag("state", "Completed", "Not Started")] if platform.gpus.has_fabric else []),
        )(folder, platform),
        "gpu.fabric_manager_runs_where_it_is_needed",
        "nvidia-fabricmanager does not run",
        has_switches,
    ),
    Fault(
        "no peer access by writing",
        replaced(WRITE, r"^( GPU0\tX\t)OK", r"\1CNS"),
        "gpu.gpus_reach_each_others_memory",
        "GPU 0 and 1",
        of(lambda p: p.gpus.count > 1),
    ),
    Fault(
        "NVLink recovers during the run",
        replaced(ERRORS, r"Link 2: (Recovery Errors|Link recovery failed events): 0", r"Link 2: \1: 3"),
        NVLINK_ERRORS,
        "link 2: ",
        has_links,
        during=True,
    ),
    Fault(
        "many NVLink CRC errors during the run",
        replaced(ERRORS, r"Link 1: (CRC Errors|Effective Errors): 0", r"Link 1: \1: 20000"),
        NVLINK_ERRORS,
        "Errors grew by 20000",
        has_links,
        during=True,
    ),
    Fault(
        "Xid 79 during the run",
        logged("NVRM: Xid (PCI:0000:13:00): 79, pid='<unknown>', GPU has fallen off the bus."),
        "gpu.none_broke_during_the_run",
        "Xid 79",
        logs,
        during=True,
    ),
    Fault(
        "SXid during the run",
        logged("nvidia-nvswitch3: SXid (PCI:0000:a4:00.0): 22013, Fatal, Link 33 Minion Link DLREQ interrupt"),
        "gpu.none_broke_during_the_run",
        "SXid",
        of(lambda p: p.has_log and p.gpus.switches > 0),
        during=True,
    ),
    Fault(
        "ACS",
        acs,
        "gpu.acs_leaves_peer_to_peer_alone",
        "ACS of ",
        of(lambda p: p.user_id == 0 and bool(p.hcas or not p.gpus.nvlinks) and p.gpus.count > 1 and not p.is_guest),
    ),
    Fault(
        "IOMMU",
        translated,
        "gpu.iommu_leaves_peer_to_peer_alone",
        "the IOMMU translates",
        of(lambda p: over_pcie(p) and p.gpus.count > 1 and p.iommu == "identity"),
    ),
    Fault(
        "hidden GPUs",
        variables(CUDA_VISIBLE_DEVICES="0"),
        "gpu.count_is_the_same_on_every_node",
        "number of GPUs that the job sees",
        of(lambda p: p.gpus.count > 1),
    ),
    Fault(
        "GPU that is not there",
        variables(CUDA_VISIBLE_DEVICES="0,11"),
        "gpu.visible_devices_exist",
        "none is 11",
        is_nvidia,
    ),
    Fault("busy GPU", busy, "gpu.no_other_program_uses_them", "other programs use GPU 0", is_nvidia),
    Fault(
        "swapped adapters",
        swapped,
        "gpu.adapters_are_as_near_on_every_node",
        "adapters near the GPUs",
        of(lambda p: p.topology == "rails" and len(p.hcas) > 3 and not is_confined(p)),
    ),
    Fault(
        "AMD: deferred errors",
        replaced(METRIC, '"total_deferred_count": 0', '"total_deferred_count": 3'),
        HELD_BACK,
        "3 memory errors that are reported only when a program reads there",
        is_amd,
    ),
    Fault(
        "AMD: hot",
        replaced(METRIC, '"hbm_thermal_violation_status": "NOT ACTIVE"', '"hbm_thermal_violation_status": "ACTIVE"'),
        HELD_BACK,
        "its memory is too hot",
        is_amd,
    ),
    Fault("AMD: xGMI down", replaced(XGMI, '"U"', '"D"'), "gpu.nvlinks_are_up", "1 xGMI links are inactive", is_amd),
    Fault(
        "AMD: errors of xGMI",
        replaced(METRIC, "STATUS_NO_ERRORS", "STATUS_MULTIPLE_ERRORS"),
        HELD_BACK,
        "its xGMI links report MULTIPLE_ERRORS",
        is_amd,
    ),
    Fault(
        "AMD: other firmware",
        replaced(FIRMWARE, '"00.85.112.00"', '"00.85.90.00"', 0),
        "gpu.firmware_is_the_same_on_every_node",
        "GPU firmware of PM: 00.85.112.00 on node[1-2], 00.85.90.00 on node3",
        is_amd,
    ),
    Fault(
        "AMD: power cap",
        replaced(AMD, r'("(?:socket|current|max)_power(?:_limit)?": \{\s*"value": )[\d.]+', r"\g<1>450", 0),
        SETTINGS,
        "power limit",
        is_amd,
    ),
    Fault("AMD: partitions", replaced(AMD, '"SPX"', '"CPX"', 0), SETTINGS, "partition: SPX/NPS1 on node[1-2]", is_amd),
    Fault(
        "AMD: low clocks", replaced(METRIC, "LEVEL_AUTO", "LEVEL_LOW", 0), HELD_BACK, "performance level LOW", is_amd
    ),
    Fault(
        "AMD: busy",
        replaced(PROCESS, '"No running processes detected"', '{"name": "python3", "pid": 4711}'),
        "gpu.no_other_program_uses_them",
        "other programs use GPU 0",
        is_amd,
    ),
    Fault(
        "PCIe error during the run",
        aer("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL", 1),
        PCIE_ERRORS,
        "PCIe errors, uncorrected grew by 1",
        counts_pcie,
        during=True,
    ),
    Fault(
        "corrected PCIe errors during the run",
        aer("aer_dev_correctable", "TOTAL_ERR_COR", 5000),
        PCIE_ERRORS,
        "PCIe errors, corrected grew by 5000",
        counts_pcie,
        during=True,
    ),
    Fault(
        "hot at rest",
        replaced(QUERY, r"<gpu_temp>\d+ C", "<gpu_temp>88 C"),
        HELD_BACK,
        "88 °C before the job, and it slows down at 90",
        is_nvidia,
    ),
    Fault(
        "GSP switched off",
        replaced(QUERY, r"<gsp_firmware_version>.*<", "<gsp_firmware_version>N/A<", 0),
        "gpu.firmware_is_the_same_on_every_node",
        "none on node3",
        is_nvidia,
    ),
    Fault("GPU missing", lost_amd, lambda p: COUNT if is_confined(p) else LISTED, "", is_amd),
    Fault(
        "amd-smi broken",
        file(AMD, "ERROR: amdgpu not found in modules\n"),
        "gpu.devices_are_readable",
        "no JSON",
        is_amd,
    ),
    Fault(
        "other amdgpu", replaced(AMD, r'"version": "[\d.]+"', '"version": "6.3.6"', 0), VERSIONS, "GPU driver: ", is_amd
    ),
    Fault("amd-smi gone", gone("usr/local/bin/amd-smi"), "gpu.devices_are_readable", "neither amd-smi", is_amd),
)
