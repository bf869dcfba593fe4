"""What do nvidia-smi -q -x, -q, topo -m, topo -p2p, nvlink -s and nvlink -e print on a node?

The form is that of drivers 535 to 590: nvsmi_device_v12/v13.dtd, `nvidia-smi --help-query-gpu`, and the manual's pages
on topo and nvlink; the words are written by hand, with what the collectors read and what stands around it.
"""

from __future__ import annotations

import hashlib
import json
import re
from xml.sax.saxutils import escape

from .platform import Gpus, Hca

SCREEN = (
    "\t\t\t<process_info>\n\t\t\t\t<gpu_instance_id>N/A</gpu_instance_id>\n\t\t\t\t<pid>1422</pid>\n"
    "\t\t\t\t<type>G</type>\n\t\t\t\t<process_name>/usr/lib/xorg/Xorg</process_name>\n"
    "\t\t\t\t<used_memory>212 MiB</used_memory>\n\t\t\t</process_info>\n"
)
OK_REASONS = (
    *("applications_clocks_setting", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"),
    *("hw_power_brake_slowdown", "sync_boost", "sw_thermal_slowdown", "display_clocks_setting"),
)


def uuid(node: int, index: int) -> str:
    """A GPU's own id."""
    digits = hashlib.sha256(f"gpu {node} {index}".encode()).hexdigest()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def query_xml(gpus: Gpus, node: int) -> str:
    """`nvidia-smi -q -x`."""
    head = f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
\t<timestamp>Mon Nov  3 09:0{node % 10}:11 2025</timestamp>
\t<driver_version>{gpus.driver}</driver_version>
\t<cuda_version>{gpus.cuda}</cuda_version>
\t<attached_gpus>{gpus.count}</attached_gpus>
"""
    text = head + "".join(_gpu(gpus, node, index) for index in range(gpus.count)) + "</nvidia_smi_log>\n"
    return _of_driver(text, gpus)


def _gpu(gpus: Gpus, node: int, index: int) -> str:
    bus = f"0000{gpus.pci[index]}".upper()
    has_ecc = gpus.has_ecc
    zero = "0" if has_ecc else "N/A"
    banks, no_bank = ("640 bank(s)", "0 bank(s)") if has_ecc else ("N/A", "N/A")
    on = "Enabled" if has_ecc else "N/A"
    no = "No" if has_ecc else "N/A"
    fabric = gpus.has_fabric
    screen = "Enabled" if gpus.has_screen and index == 0 else "Disabled"
    server = SCREEN if gpus.has_screen and index == 0 else ""
    mig = "Disabled" if gpus.can_split else "N/A"
    reasons = "".join(
        f"\t\t\t<clocks_event_reason_{name}>Not Active</clocks_event_reason_{name}>\n" for name in OK_REASONS
    )
    bar1 = 1 << max(gpus.memory_mib - 1, 1).bit_length()
    number = 1650000000000 + node * 1000 + index
    return f"""\t<gpu id="{bus}">
\t\t<product_name>{escape(gpus.name)}</product_name>
\t\t<product_brand>NVIDIA</product_brand>
\t\t<product_architecture>{gpus.architecture}</product_architecture>
\t\t<display_mode>Disabled</display_mode>
\t\t<display_active>{screen}</display_active>
\t\t<persistence_mode>{gpus.persistence}</persistence_mode>
\t\t<addressing_mode>None</addressing_mode>
\t\t<mig_mode>
\t\t\t<current_mig>{mig}</current_mig>
\t\t\t<pending_mig>{mig}</pending_mig>
\t\t</mig_mode>
\t\t<mig_devices>
\t\t\tNone
\t\t</mig_devices>
\t\t<accounting_mode>Disabled</accounting_mode>
\t\t<driver_model>
\t\t\t<current_dm>N/A</current_dm>
\t\t\t<pending_dm>N/A</pending_dm>
\t\t</driver_model>
\t\t<serial>{number}</serial>
\t\t<uuid>{uuid(node, index)}</uuid>
\t\t<minor_number>{index}</minor_number>
\t\t<vbios_version>96.00.89.00.01</vbios_version>
\t\t<multigpu_board>No</multigpu_board>
\t\t<board_id>0x{bus[9:11]}00</board_id>
\t\t<gpu_module_id>{index + 1}</gpu_module_id>
\t\t<inforom_version>
\t\t\t<img_version>G520.0200.00.05</img_version>
\t\t\t<ecc_object>7.16</ecc_object>
\t\t</inforom_version>
\t\t<gpu_virtualization_mode>
\t\t\t<virtualization_mode>None</virtualization_mode>
\t\t\t<host_vgpu_mode>N/A</host_vgpu_mode>
\t\t</gpu_virtualization_mode>
\t\t<gpu_reset_status>
\t\t\t<reset_required>{no}</reset_required>
\t\t\t<drain_and_reset_recommended>{no}</drain_and_reset_recommended>
\t\t</gpu_reset_status>
\t\t<gpu_recovery_action>None</gpu_recovery_action>
\t\t<gsp_firmware_version>{gpus.driver}</gsp_firmware_version>
\t\t<ibmnpu>
\t\t\t<relaxed_ordering_mode>N/A</relaxed_ordering_mode>
\t\t</ibmnpu>
\t\t<pci>
\t\t\t<pci_bus>{bus[9:11]}</pci_bus>
\t\t\t<pci_device>00</pci_device>
\t\t\t<pci_domain>{bus[4:8]}</pci_domain>
\t\t\t<pci_device_id>{gpus.device_id}</pci_device_id>
\t\t\t<pci_bus_id>{bus}</pci_bus_id>
\t\t\t<pci_sub_system_id>16C110DE</pci_sub_system_id>
\t\t\t<pci_gpu_link_info>
\t\t\t\t<pcie_gen>
\t\t\t\t\t<max_link_gen>{gpus.generation}</max_link_gen>
\t\t\t\t\t<current_link_gen>{gpus.generation}</current_link_gen>
\t\t\t\t\t<device_current_link_gen>{gpus.generation}</device_current_link_gen>
\t\t\t\t\t<max_device_link_gen>{gpus.generation}</max_device_link_gen>
\t\t\t\t\t<max_host_link_gen>{gpus.generation}</max_host_link_gen>
\t\t\t\t</pcie_gen>
\t\t\t\t<link_widths>
\t\t\t\t\t<max_link_width>16x</max_link_width>
\t\t\t\t\t<current_link_width>16x</current_link_width>
\t\t\t\t</link_widths>
\t\t\t</pci_gpu_link_info>
\t\t\t<replay_counter>0</replay_counter>
\t\t</pci>
\t\t<fan_speed>N/A</fan_speed>
\t\t<performance_state>P0</performance_state>
\t\t<clocks_event_reasons>
\t\t\t<clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
{reasons}\t\t</clocks_event_reasons>
\t\t<bar1_memory_usage>
\t\t\t<total>{bar1} MiB</total>
\t\t\t<used>1 MiB</used>
\t\t</bar1_memory_usage>
\t\t<fb_memory_usage>
\t\t\t<total>{gpus.memory_mib} MiB</total>
\t\t\t<reserved>551 MiB</reserved>
\t\t\t<used>0 MiB</used>
\t\t\t<free>{gpus.memory_mib - 551} MiB</free>
\t\t</fb_memory_usage>
\t\t<compute_mode>Default</compute_mode>
\t\t<utilization>
\t\t\t<gpu_util>0 %</gpu_util>
\t\t\t<memory_util>0 %</memory_util>
\t\t</utilization>
\t\t<ecc_mode>
\t\t\t<current_ecc>{on}</current_ecc>
\t\t\t<pending_ecc>{on}</pending_ecc>
\t\t</ecc_mode>
\t\t<ecc_errors>
\t\t\t<volatile>
\t\t\t\t<sram_correctable>{zero}</sram_correctable>
\t\t\t\t<sram_uncorrectable_parity>{zero}</sram_uncorrectable_parity>
\t\t\t\t<sram_uncorrectable_secded>{zero}</sram_uncorrectable_secded>
\t\t\t\t<dram_correctable>{zero}</dram_correctable>
\t\t\t\t<dram_uncorrectable>{zero}</dram_uncorrectable>
\t\t\t</volatile>
\t\t\t<aggregate>
\t\t\t\t<sram_correctable>{zero}</sram_correctable>
\t\t\t\t<dram_uncorrectable>{zero}</dram_uncorrectable>
\t\t\t\t<sram_threshold_exceeded>{no}</sram_threshold_exceeded>
\t\t\t</aggregate>
\t\t</ecc_errors>
\t\t<retired_pages>
\t\t\t<multiple_single_bit_retirement>
\t\t\t\t<retired_count>N/A</retired_count>
\t\t\t\t<retired_pagelist>N/A</retired_pagelist>
\t\t\t</multiple_single_bit_retirement>
\t\t\t<double_bit_retirement>
\t\t\t\t<retired_count>N/A</retired_count>
\t\t\t\t<retired_pagelist>N/A</retired_pagelist>
\t\t\t</double_bit_retirement>
\t\t\t<pending_blacklist>N/A</pending_blacklist>
\t\t\t<pending_retirement>N/A</pending_retirement>
\t\t</retired_pages>
\t\t<remapped_rows>
\t\t\t<remapped_row_corr>{zero}</remapped_row_corr>
\t\t\t<remapped_row_unc>{zero}</remapped_row_unc>
\t\t\t<remapped_row_pending>{no}</remapped_row_pending>
\t\t\t<remapped_row_failure>{no}</remapped_row_failure>
\t\t\t<row_remapper_histogram>
\t\t\t\t<row_remapper_histogram_max>{banks}</row_remapper_histogram_max>
\t\t\t\t<row_remapper_histogram_high>{no_bank}</row_remapper_histogram_high>
\t\t\t\t<row_remapper_histogram_partial>{no_bank}</row_remapper_histogram_partial>
\t\t\t\t<row_remapper_histogram_low>{no_bank}</row_remapper_histogram_low>
\t\t\t\t<row_remapper_histogram_none>{no_bank}</row_remapper_histogram_none>
\t\t\t</row_remapper_histogram>
\t\t</remapped_rows>
\t\t<temperature>
\t\t\t<gpu_temp>{30 + index} C</gpu_temp>
\t\t\t<gpu_temp_slow_threshold>90 C</gpu_temp_slow_threshold>
\t\t</temperature>
\t\t<gpu_power_readings>
\t\t\t<power_state>P0</power_state>
\t\t\t<power_draw>{70 + index}.52 W</power_draw>
\t\t\t<current_power_limit>{gpus.watts:.2f} W</current_power_limit>
\t\t\t<requested_power_limit>{gpus.watts:.2f} W</requested_power_limit>
\t\t\t<default_power_limit>{gpus.watts:.2f} W</default_power_limit>
\t\t\t<min_power_limit>200.00 W</min_power_limit>
\t\t\t<max_power_limit>{gpus.watts:.2f} W</max_power_limit>
\t\t</gpu_power_readings>
{_module_power(gpus)}\t\t<clocks>
\t\t\t<graphics_clock>1980 MHz</graphics_clock>
\t\t\t<sm_clock>1980 MHz</sm_clock>
\t\t</clocks>
\t\t<processes>
{server}\t\t</processes>
\t\t<accounted_processes>
\t\t</accounted_processes>
\t\t<capabilities>
\t\t\t<egm>disabled</egm>
\t\t</capabilities>
\t\t<fabric>
\t\t\t<state>{"Completed" if fabric else "N/A"}</state>
\t\t\t<status>{"Success" if fabric else "N/A"}</status>
\t\t\t<cliqueId>{gpus.clique if fabric else "N/A"}</cliqueId>
\t\t\t<clusterUuid>{gpus.cluster if fabric else "N/A"}</clusterUuid>
\t\t</fabric>
\t</gpu>
"""


def _module_power(gpus: Gpus) -> str:
    """What the GPU and its CPU take together; the limit is that of both."""
    if not gpus.has_module_power:
        return ""
    return f"""\t\t<module_power_readings>
\t\t\t<power_state>P0</power_state>
\t\t\t<power_draw>215.11 W</power_draw>
\t\t\t<current_power_limit>{gpus.watts + 100:.2f} W</current_power_limit>
\t\t\t<requested_power_limit>{gpus.watts + 100:.2f} W</requested_power_limit>
\t\t\t<default_power_limit>{gpus.watts + 100:.2f} W</default_power_limit>
\t\t\t<min_power_limit>N/A</min_power_limit>
\t\t\t<max_power_limit>{gpus.watts + 100:.2f} W</max_power_limit>
\t\t</module_power_readings>
"""


def _not_supported(found: re.Match[str]) -> str:
    return re.sub(r">-?\d+ MiB<", ">N/A<", found[0])


def _of_driver(text: str, gpus: Gpus) -> str:
    """The same in the words of the driver: the form above is that of 550 and 570."""
    if gpus.generation_of_driver < 530:  # before the event reasons, the fabric and the reset status
        text = text.replace("clocks_event_reason", "clocks_throttle_reason").replace(
            "gpu_power_readings", "power_readings"
        )
        text = re.sub(r"<current_power_limit>(.*)</current_power_limit>", r"<power_limit>\1</power_limit>", text)
        text = re.sub(r"<requested_power_limit>(.*)</req.*>", r"<enforced_power_limit>\1</enforced_power_limit>", text)
        text = re.sub(r"(?s)\t\t<(fabric|gpu_reset_status|capabilities)>.*?</\1>\n", "", text)
        text = re.sub(r"\t\t<gpu_recovery_action>.*\n|\t\t\t\t<sram_threshold_exceeded>.*\n", "", text)
    if gpus.architecture in ("Pascal", "Volta", "Turing"):  # pages of memory are retired; later ones remap rows
        text = re.sub(r"<retired_count>N/A<", "<retired_count>0<", text)
        text = re.sub(r"<(pending_blacklist|pending_retirement)>N/A<", r"<\1>No<", text)
        text = re.sub(r"<(remapped_row_\w+)>\w+<", r"<\1>N/A<", text)
        text = re.sub(r"(?s)\t\t\t<row_remapper_histogram>.*?</row_remapper_histogram>\n", "", text)
    if gpus.name.startswith("GRID"):
        licence = "<license_status>Licensed (Expiry: 2026-3-1 12:0:0 GMT)</license_status>"
        product = f"<vgpu_software_licensed_product>\n\t\t\t{licence}\n\t\t</vgpu_software_licensed_product>\n"
        text = text.replace("<virtualization_mode>None", "<virtualization_mode>VGPU")
        text = text.replace("\t\t<fan_speed>", f"\t\t{product}\t\t<fan_speed>")
    if not gpus.memory_mib:  # it shares the host's memory, and has no limit of its own
        text = re.sub(r"(?s)(<fb_memory_usage>).*?(</fb_memory_usage>)", _not_supported, text)
    if not gpus.watts:
        text = re.sub(r"((?:_limit|power_draw)>)[\d.]+ W<", r"\1N/A<", text)
    if gpus.generation_of_driver >= 575:
        text = text.replace("nvsmi_device_v12.dtd", "nvsmi_device_v13.dtd")
        text = re.sub(r"<power_draw>(.*)</power_draw>", r"<average_power_draw>\1</average_power_draw>", text)
        repair = "".join(
            f"\t\t\t<{name}>No</{name}>\n"
            for name in ("channel_repair_pending", "tpc_repair_pending", "unrepairable_memory")
        )
        text = text.replace("\t\t</ecc_errors>", f"{repair}\t\t</ecc_errors>") if gpus.has_ecc else text
        health = (
            "\t\t\t<health>\n\t\t\t\t<summary>Healthy</summary>\n\t\t\t\t<bandwidth>Full</bandwidth>\n"
            "\t\t\t\t<route_recovery_in_progress>False</route_recovery_in_progress>\n"
            "\t\t\t\t<route_unhealthy>False</route_unhealthy>\n"
            "\t\t\t\t<access_timeout_recovery>False</access_timeout_recovery>\n\t\t\t</health>\n"
        )
        text = text.replace("\t\t</fabric>", f"{health}\t\t</fabric>") if gpus.has_fabric else text
    return text


def imex_json(addresses: list[str]) -> str:
    """`nvidia-imex-ctl -N -j`, of driver 570 and later."""
    links = {str(i): {"host": host, "status": "CONNECTED", "changed": True} for i, host in enumerate(addresses)}
    nodes = {
        str(i): {"status": "READY", "host": host, "connections": links, "changed": True, "version": "570.172.08",
                 "hostName": f"tray{i + 1}"}
        for i, host in enumerate(addresses)
    }  # fmt: skip
    return json.dumps({"nodes": nodes, "timestamp": "11/3/2025 09:00:11.305", "status": "UP"})


def imex_text(addresses: list[str], node: int) -> str:
    """`nvidia-imex-ctl -N`."""
    lines = ["Connectivity Table Legend:", "I - Invalid - Node wasn't reachable", "C - Connected - Ready", ""]
    lines += ["11/3/2025 09:00:11.305", "Nodes:"]
    for i, host in enumerate(addresses):
        mark = "*" if i + 1 == node else "-"
        lines.append(f"Node #{i}   {mark} {host} {mark}   - READY                - Version: 570.172.08")
    numbers = "   ".join(str(i) for i in range(len(addresses)))
    lines += ["", f" Nodes From\\To  {numbers}   "]
    lines += [f"       {i}        {'   '.join('C' for _ in addresses)}   " for i in range(len(addresses))]
    return "\n".join([*lines, "Domain State: UP", ""])


def nvlink_status(gpus: Gpus, node: int) -> str:
    """`nvidia-smi nvlink -s`."""
    lines = []
    for index in range(gpus.count):
        lines.append(f"GPU {index}: {gpus.name} (UUID: {uuid(node, index)})")
        if not gpus.nvlinks:
            lines.append("Device does not have or support Nvlink")
        lines += [f"\t Link {link}: {gpus.link_gbytes} GB/s" for link in range(gpus.nvlinks)]
    return "\n".join(lines) + "\n"


COUNTERS = ("Replay Errors", "Recovery Errors", "CRC Errors")
BLACKWELL_COUNTERS = (
    *("Malformed packet Errors", "Buffer overrun Errors", "Rx Errors", "Rx remote Errors", "Rx General Errors"),
    *("Local link integrity Errors", "Tx discards", "Link recovery successful events", "Link recovery failed events"),
    *("Total link recovery events", "Effective Errors", "Symbol Errors", "FEC Errors - 0", "FEC Errors - 1"),
)


def nvlink_errors(gpus: Gpus, node: int) -> str:
    """`nvidia-smi nvlink -e`; Blackwell counts more, among it every word that FEC corrects."""
    names = BLACKWELL_COUNTERS if gpus.architecture == "Blackwell" else COUNTERS
    lines = []
    for index in range(gpus.count):
        lines.append(f"GPU {index}: {gpus.name} (UUID: {uuid(node, index)})")
        if not gpus.nvlinks:
            lines.append("Device does not have or support Nvlink")
        for link in range(gpus.nvlinks):
            lines += [f"\t Link {link}: {name}: {36140749276 if name.endswith('- 0') else 0}" for name in names]
            lines += [f"\t Link {link}: Symbol BER: 15e-255"] * (names is BLACKWELL_COUNTERS)
            lines.append("")
    return "\n".join(lines) + "\n"


def peer_access(gpus: Gpus) -> str:
    """`nvidia-smi topo -p2p r`: by PCIe within a socket only."""
    names = [f"GPU{i}" for i in range(gpus.count)]
    lines = ["\t\x1b[4m" + "\t".join(names) + "\x1b[0m"]
    for one in range(gpus.count):
        reached = ["OK" if gpus.nvlinks or one // 4 == other // 4 else "CNS" for other in range(gpus.count)]
        lines.append("\t".join([f" GPU{one}", *reached[:one], "X", *reached[one + 1 :]]))
    lines += ["", "Legend:", "", "  X    = Self", "  OK   = Status Ok", "  CNS  = Chipset not supported", ""]
    return "\n".join(lines) + "\n"


def topology(gpus: Gpus, hcas: tuple[Hca, ...], style: str) -> str:
    """`nvidia-smi topo -m`: by PCIe each GPU is near the adapter of its rail, or all adapters are as far."""
    hcas = tuple(hca for hca in hcas if hca.port == 1)
    devices = [f"GPU{i}" for i in range(gpus.count)] + [f"NIC{i}" for i in range(len(hcas))]
    near = f"NV{gpus.nvlinks}" if gpus.nvlinks else "NODE"

    def relation(one: str, other: str) -> str:
        if one == other:
            return " X "
        kinds = {one[:3], other[:3]}
        if kinds == {"GPU"}:
            far = abs(int(one[3:]) // 4 - int(other[3:]) // 4)
            return "SYS" if not gpus.nvlinks and far else near
        if kinds == {"NIC"}:
            return "NODE" if _same_half(one, other, hcas) else "SYS"
        gpu, nic = sorted((one, other))
        place = hcas[int(nic[3:])].pci
        if style != "rails" or place[:6] != gpus.pci[int(gpu[3:])][:6]:
            return "NODE" if style == "shared" else "SYS"
        return "PXB"

    head = "\t\x1b[4m" + "\t".join(devices) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m"
    lines = [head]
    for one in devices:
        tail = ["0-55,112-167" if int(one[3:]) < 4 else "56-111,168-223", str(int(one[3:]) // 4), "N/A"]
        cells = [relation(one, other) for other in devices]
        lines.append("\t".join([one, *cells, *(tail if one.startswith("GPU") else ["", "", ""])]))
    lines += ["", "Legend:", "", "  X    = Self", "  NV#  = Connection traversing a bonded set of # NVLinks", ""]
    if hcas:
        lines += ["NIC Legend:", "", *(f"  NIC{i}: {hca.name}" for i, hca in enumerate(hcas)), ""]
    return "\n".join(lines) + "\n"


def _same_half(one: str, other: str, hcas: tuple[Hca, ...]) -> bool:
    places = [int(hcas[int(name[3:])].pci[5:7], 16) for name in (one, other)]
    return places[0] // 0x50 == places[1] // 0x50
