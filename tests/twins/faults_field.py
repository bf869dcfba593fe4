"""What breaks on bonds, other vendors' adapters, virtual machines and with newer drivers?"""

from __future__ import annotations

import json
from collections.abc import Callable

from . import sysfs
from .faults import (
    Fault,
    Fits,
    Plant,
    answer,
    both,
    file,
    gone,
    interface,
    place_of_training,
    replaced,
    training,
    variables,
)
from .faults_gpu import AMD, BROKEN, COUNT, HELD_BACK, LINKS, QUERY, is_amd, is_nvidia, of, tag
from .faults_gpu import SETTINGS as GPU_SETTINGS
from .faults_log import of_vendor
from .faults_node import AT_ITS_BEST, COMPANIONS, SETTINGS, VERSIONS
from .faults_rdma import MATCHES, has_index, has_ports, is_efa, is_infiniband, is_roce, number, port, rail
from .folder import TWIN, Folder
from .platform import Nic, Platform

LINKS_LOST = "network.no_interface_counted_errors_during_the_run"
COUNTED = "rdma.no_errors_were_counted_during_the_run"
OTHERS = "environment.other_variables_are_the_same_on_every_node"
ONE_NETWORK = "rdma.gid_index_leads_to_one_network"
NOBODY = "Partner Mac Address: 00:00:00:00:00:00"
AGREE = "environment.variables_of_all_ranks_agree"


def on(*names: str) -> Fits:
    """Fits these platforms."""
    return lambda platform: platform.name in names


def bonded(platform: Platform) -> bool:
    """Whether it has a bond whose members are known."""
    return any(nic.members for nic in platform.nics)


def bond_file(platform: Platform) -> tuple[str, Nic]:
    """The last bond's file and the bond."""
    bond = [nic for nic in platform.nics if nic.members][-1]
    return f"proc/net/bonding/{bond.name}", bond


def member_down(folder: Folder, platform: Platform) -> None:
    """The second cable of a bond is out."""
    name, bond = bond_file(platform)
    folder.sub(name, rf"(Slave Interface: {bond.members[1]}\nMII Status: )up", r"\1down")


def member_lost(folder: Folder, platform: Platform) -> None:
    """A bond was made of one interface."""
    name, bond = bond_file(platform)
    folder.sub(name, rf"(?s)\nSlave Interface: {bond.members[1]}.*", "")


def aggregators(folder: Folder, platform: Platform) -> None:
    """The switch ports of a bond are in no one port channel."""
    name, bond = bond_file(platform)
    folder.sub(name, rf"(?s)(Slave Interface: {bond.members[1]}\n.*?Aggregator ID: )1", r"\g<1>2")


def speeds(folder: Folder, platform: Platform) -> None:
    """The second cable of a bond came up far slower."""
    name, bond = bond_file(platform)
    folder.sub(name, rf"(?s)(Slave Interface: {bond.members[1]}\n.*?Speed: )\d+", r"\g<1>1000")


def trains_on_bond(platform: Platform) -> bool:
    """Whether the job meets on a bond, or on a VLAN over it, whose members' rates are known."""
    below = training(platform).name.partition(".")[0]
    return any(nic.members for nic in platform.nics if nic.name == below)


def half_bond(folder: Folder, platform: Platform) -> None:
    """Every cable of the bond that the job meets on came up at a slower rate, and so did the bond."""
    below = training(platform).name.partition(".")[0]
    folder.sub(f"proc/net/bonding/{below}", r"^Speed: (\d+) Mbps", "Speed: 10000 Mbps", 0)
    interface(speed_mbps=20000)(folder, platform)


def without_lacp(folder: Folder, platform: Platform) -> None:
    """The switch does not answer: each port is an aggregator of its own, and one of them carries all."""
    name, bond = bond_file(platform)
    folder.sub(name, rf"(?s)(Slave Interface: {bond.members[1]}\n.*?Aggregator ID: )1", r"\g<1>2")
    text = folder.path(name).read_text()
    text = text.replace("Partner Mac Address: 00:23:04:ee:be:0a", "Partner Mac Address: 00:00:00:00:00:00")
    folder.write(name, text.replace("Number of ports: 2", "Number of ports: 1"))


def vlan_lost(folder: Folder, platform: Platform) -> None:
    """NetworkManager did not bring the VLAN up: its address is nowhere."""
    interface(addresses=[], is_up=False)(folder, platform)


def other_mode(folder: Folder, platform: Platform) -> None:
    """The bond fails over instead of sharing the load."""
    folder.sub(bond_file(platform)[0], "IEEE 802.3ad Dynamic link aggregation", "fault-tolerance (active-backup)")


def rail_nic(platform: Platform) -> int:
    """The interface behind the adapter that breaks."""
    return next(i for i, nic in enumerate(platform.nics) if nic.name == rail(platform).netdev)


def has_rail_address(platform: Platform) -> bool:
    """Whether each rail has a network of its own, apart from the first interface."""
    return (
        is_roce(platform)
        and len(platform.hcas) > 1
        and any(nic.name == rail(platform).netdev and nic.addresses for nic in platform.nics[1:])
    )


def renumber(folder: Folder, platform: Platform, old: str, new: str) -> None:
    """An interface and the GIDs made of its address have another one."""
    at = rail_nic(platform)
    folder.kernel(
        lambda answers: answers["interfaces"][at].update(
            addresses=[each.replace(f"{old}/", f"{new}/") for each in answers["interfaces"][at]["addresses"]]
        )
    )
    gids = [sysfs._groups(0xFFFF << 32 | int.from_bytes(map(int, text.split(".")), "big"), 32)
            for text in (old, new)]  # fmt: skip
    for path in folder.path(f"{port(platform)}/gids").iterdir():
        if path.read_text().strip() == gids[0]:
            folder.write(f"{port(platform)}/gids/{path.name}", f"{gids[1]}\n")


def own(platform: Platform, n: int) -> str:
    """The address of the rail that breaks, on node n."""
    return platform.nics[rail_nic(platform)].addresses[0].format(n=n).partition("/")[0]


def twice(folder: Folder, platform: Platform) -> None:
    """A rail has the address of another node's."""
    renumber(folder, platform, own(platform, 3), own(platform, 1))


def foreign(folder: Folder, platform: Platform) -> None:
    """A rail has an address of a network that no other node has."""
    renumber(folder, platform, own(platform, 3), "172.31.99.3")


def ipv6_first(folder: Folder, platform: Platform) -> None:
    """An IPv6 address came before IPv4: the rows have moved."""
    place = f"{port(platform)}/gids"
    index = int(platform.environment["NCCL_IB_GID_INDEX"])
    folder.write(f"{place}/{index}", "fd00:0000:0000:0000:0000:0000:0000:0033\n")


def another_first(address: str) -> Plant:
    """The rail has a second address, whose rows came before that of the fabric."""

    def plant(folder: Folder, platform: Platform) -> None:
        place, at = port(platform), rail_nic(platform)
        held = [(row, folder.path(f"{place}/gids/{row}").read_text()) for row in (2, 3)]
        first = sysfs._groups(0xFFFF << 32 | int.from_bytes(map(int, address.split(".")), "big"), 32)
        for row, text in held:
            folder.write(f"{place}/gids/{row}", f"{first}\n")
            folder.write(f"{place}/gids/{row + 2}", text)
            for name in ("types", "ndevs"):
                folder.write(
                    f"{place}/gid_attrs/{name}/{row + 2}", folder.path(f"{place}/gid_attrs/{name}/{row}").read_text()
                )
        folder.kernel(lambda answers: answers["interfaces"][at]["addresses"].insert(0, f"{address}/24"))

    return plant


def chooses_rows(platform: Platform) -> bool:
    """Whether NCCL chooses the row itself, on rails that have a row of each kind."""
    return is_roce(platform) and not has_index(platform) and rail(platform).state.endswith("ACTIVE")


def ethernet(folder: Folder, platform: Platform) -> None:
    """The adapter came up as Ethernet: its firmware was set to the other link type."""
    folder.write(f"{port(platform)}/link_layer", "Ethernet\n")
    folder.write(f"{port(platform)}/lid", "0x0\n")
    folder.write(f"{port(platform)}/sm_lid", "0x0\n")


def counter(name: str, count: int = 7) -> Plant:
    """A counter of the rail grows."""
    return lambda folder, platform: folder.write(f"{port(platform)}/hw_counters/{name}", f"{count}\n")


def driver_from(first: int) -> Fits:
    """Whether NVIDIA's driver is at least of this series."""
    return of(lambda p: p.gpus.generation_of_driver >= first and p.gpus.has_ecc)  # type: ignore[union-attr]


def retires(platform: Platform) -> bool:
    """Whether its GPUs retire pages of memory: those before Ampere, with ECC."""
    gpus = platform.gpus
    return gpus is not None and gpus.has_ecc and gpus.architecture in ("Pascal", "Volta", "Turing")


def filled(folder: Folder, platform: Platform) -> None:
    """Something that this session cannot see holds the memory of GPU 0."""
    assert platform.gpus is not None
    folder.sub(QUERY, "<used>0 MiB</used>", f"<used>{platform.gpus.memory_mib * 3 // 4} MiB</used>")


def inforom(folder: Folder, platform: Platform) -> None:
    """nvidia-smi warns before its document."""
    assert platform.gpus is not None
    text = folder.path(QUERY).read_text()
    folder.write(QUERY, f"WARNING: infoROM is corrupted at gpu {platform.gpus.pci[0]}\n{text}")


def ras(folder: Folder, platform: Platform) -> None:
    """The driver of AMD counts errors that could not be corrected."""
    assert platform.gpus is not None
    place = f"sys/{sysfs.folder_of(platform.gpus.pci[0])}/ras"
    folder.write(f"{place}/umc_err_count", "ue: 4\nce: 0\n")


def split_amd(folder: Folder, _: Platform) -> None:
    """The GPUs of a node are partitioned (DPX): twice as many devices."""
    text = folder.path(AMD).read_text()
    found = json.loads(text)
    gpus = found["gpu_data"] if isinstance(found, dict) else found
    more = [{**gpu, "gpu": i, "bus": {**gpu["bus"], "bdf": gpu["bus"]["bdf"][:-1] + str(half)}}
            for i, (gpu, half) in enumerate((gpu, half) for gpu in gpus for half in (0, 1))]  # fmt: skip
    folder.write(AMD, json.dumps({"gpu_data": more} if isinstance(found, dict) else more))


def cut_amd(folder: Folder, platform: Platform) -> None:
    """An AMD GPU is linked with eight lanes."""
    assert platform.gpus is not None
    folder.write(f"sys/{sysfs.folder_of(platform.gpus.pci[0])}/current_link_width", "8\n")


def without_gpus(folder: Folder, platform: Platform) -> None:
    """Neither driver nor GPU: the machine was started without them."""
    gone("usr/local/bin/nvidia-smi")(folder, platform)
    if folder.path("proc/driver").exists():
        folder.remove("proc/driver")
    for place in platform.gpus.pci if platform.gpus and platform.gpus.is_on_bus else ():
        folder.remove(f"sys/{sysfs.folder_of(place)}")
        folder.remove(f"sys/bus/pci/devices/{place}")


def other_wheel(name: str, version: str) -> Plant:
    """A package is of another version."""

    def plant(folder: Folder, _: Platform) -> None:
        (found,) = folder.path(f"{TWIN}/env").glob(f"lib/*/site-packages/{name}-*.dist-info/METADATA")
        place = str(found.parent.parent.relative_to(folder.root))
        folder.remove(str(found.parent.relative_to(folder.root)))
        folder.write(f"{place}/{name}-{version}.dist-info/METADATA", f"Name: {name}\nVersion: {version}\n\n")

    return plant


def with_wheel(name: str, version: str) -> Plant:
    """A package is installed that the others do not have."""

    def plant(folder: Folder, _: Platform) -> None:
        place = next(folder.path(f"{TWIN}/env").glob("lib/*/site-packages"))
        where = f"{place.relative_to(folder.root)}/{name}-{version}.dist-info/METADATA"
        folder.write(where, f"Name: {name}\nVersion: {version}\n\n")

    return plant


def has_plain_hosts(platform: Platform) -> bool:
    """Whether /etc/hosts names node3, and the node calls itself so."""
    return platform.own_name == "" and platform.nics[0].addresses[0].startswith("10.77.0.{n}")


def has_slot(platform: Platform) -> bool:
    """Whether the training interface is a card whose PCIe link sysfs tells."""
    return bool(training(platform).pci) and not platform.is_guest


def carrier(name: Callable[[Platform], str], count: int) -> Plant:
    """The link of an interface went up and down so often."""
    return lambda folder, platform: folder.write(f"sys/class/net/{name(platform)}/carrier_changes", f"{count}\n")


def first_nic(platform: Platform) -> str:
    """The training interface."""
    return training(platform).name.format(n=3)


def second_member(platform: Platform) -> str:
    """A member of the bond that the job trains over."""
    return next(nic for nic in platform.nics if nic.members).members[1]


def without_plugin(folder: Folder, platform: Platform) -> None:
    """No file by which NCCL or RCCL finds its network."""
    for name in platform.files:
        if "ccl-net.so" in name:
            folder.remove(name)


def needs_anp(platform: Platform) -> bool:
    """Whether it has a plugin of another name."""
    return "NCCL_NET_PLUGIN" in platform.environment


FAULTS = (
    Fault("link of the interface lost during the run", carrier(first_nic, 8), LINKS_LOST, "lost its link 3 times",
          lambda p: training(p).is_up, True),
    Fault("link of a member lost during the run", carrier(second_member, 4), LINKS_LOST, "lost its link once",
          lambda p: any(nic.members for nic in p.nics), True),
    Fault("link of a rail's interface lost during the run", carrier(lambda p: rail(p).netdev, 4), LINKS_LOST,
          "lost its link once", lambda p: is_roce(p) and bool(p.gpus) and rail(p).state.endswith("ACTIVE"), True),
    Fault("half duplex", lambda f, p: f.write(f"sys/class/net/{first_nic(p)}/duplex", "half\n"), AT_ITS_BEST,
          "at half duplex", lambda p: bool(training(p).speed_mbps)),
    Fault("files used up", file("proc/sys/fs/file-nr", "95000\t0\t100000\n"), AT_ITS_BEST, "95% of the files"),
    Fault("loose cable", carrier(first_nic, 428), AT_ITS_BEST, "lost its link 214 times"),
    Fault("loose cable of a bond",
          lambda f, p: f.sub(bond_file(p)[0], rf"(?s)(Slave Interface: {bond_file(p)[1].members[1]}\n.*?Count: )0",
                             r"\g<1>77"),
          AT_ITS_BEST, "lost its link 77 times", bonded),
    Fault("narrow slot of a plain adapter",
          lambda f, p: f.write(f"sys/{sysfs.folder_of(training(p).pci)}/current_link_width", "4\n"), SETTINGS,
          "x4 of x", has_slot),
    Fault("bond member down", member_down, AT_ITS_BEST, "is down", bonded),
    Fault("bond of one member", member_lost, SETTINGS, "bond", bonded),
    Fault("half rate of a bond", half_bond, "network.training_interfaces_have_the_same_rate", "20000 Mbit/s on node3",
          trains_on_bond),
    Fault("bond in another mode", other_mode, SETTINGS, "active-backup", bonded),
    Fault("rail with another node's address", twice, "network.training_addresses_are_unique", "", has_rail_address,
          nodes=("node1", "node3")),
    Fault("rail in a foreign network", foreign, "rdma.ports_are_in_the_subnet_of_their_rail", "is in 172.31.9",
          lambda p: has_rail_address(p) and "{n}." not in p.nics[rail_nic(p)].addresses[0]),
    Fault("row of storage first", another_first("172.31.98.3"), ONE_NETWORK, "172.31.98.0/24 on node3", chooses_rows),
    Fault("link-local row first", another_first("169.254.7.3"), ONE_NETWORK, "link-local 169.254.7.3", chooses_rows),
    Fault("row of IPv6", ipv6_first, "rdma.gid_index_means_the_same_on_every_node", "ipv6", has_index),
    Fault("LID of another", lambda f, p: f.write(f"{port(p)}/lid", f"0x{64 + number(p) + 16:x}\n"),
          "rdma.infiniband_addresses_are_unique", "the LID", lambda p: is_infiniband(p) and bool(p.gpus),
          nodes=("node1", "node3")),
    Fault("bond of two aggregators", aggregators, AT_ITS_BEST, "LACP aggregators", bonded),
    Fault("switch without LACP", replaced("proc/net/bonding/bond0", r"Partner Mac Address: \S+", NOBODY),
          AT_ITS_BEST, "no switch speaks LACP", on("rhel9-lacp-vlan")),
    Fault("bond of two speeds", speeds, AT_ITS_BEST, "links at 1000 Mbit/s", bonded),
    Fault("Ethernet instead of InfiniBand", ethernet, "rdma.ports_have_the_same_rate", "Ethernet on node3",
          is_infiniband),
    Fault("ARMED port", lambda f, p: f.write(f"{port(p)}/state", "3: ARMED\n"),
          "rdma.infiniband_ports_have_a_subnet_manager", "ARMED", is_infiniband),
    Fault("other subnet manager", lambda f, p: f.write(f"{port(p)}/sm_lid", "0x7b\n"),
          "rdma.ports_are_in_the_subnet_of_their_rail", "0x7b", is_infiniband),
    Fault("limited member", lambda f, p: [f.write(f"{port(p)}/pkeys/{row}", "0x0012\n" if not row else "0x0000\n")
                                          for row in range(len(rail(p).pkeys))],
          "rdma.partition_is_the_same_on_every_node", "0x0012", is_infiniband),
    Fault("iWARP", lambda f, p: f.write(f"sys/class/infiniband/{rail(p).name}/node_type", "4: RNIC\n"),
          "rdma.choice_of_ports_is_sound", "iWARP", of_vendor("0x8086")),
    Fault("no RDMA device", gone("sys/class/infiniband"), MATCHES, "its devices: none",
          lambda p: has_ports(p) and bool(p.environment.get("NCCL_IB_HCA")) and not p.user_id),
    Fault("other board", lambda f, p: f.write(f"sys/class/infiniband/{rail(p).name}/board_id", "DEL0000000033\n"),
          COMPANIONS, "DEL0000000033", lambda p: has_ports(p) and bool(p.hcas[0].board_id) and not p.user_id),
    Fault("retransmissions of Thor2", counter("to_retransmits"), COUNTED, "to_retransmits", of_vendor("0x14e4"), True),
    Fault("discards of Thor2", counter("rx_roce_discard_pkts"), COUNTED, "rx_roce_discard_pkts", of_vendor("0x14e4"),
          True),
    Fault("retries of Pollara", counter("req_tx_retry_excd_err"), COUNTED, "req_tx_retry_excd_err",
          of_vendor("0x1dd8"), True),
    Fault("time-outs of Pollara", counter("tx_rdma_ack_timeout"), COUNTED, "tx_rdma_ack_timeout",
          of_vendor("0x1dd8"), True),
    Fault("commands that EFA does not answer",
          lambda f, p: f.write(f"sys/class/infiniband/{rail(p).name}/hw_counters/no_completion_cmds", "3\n"), COUNTED,
          "no_completion_cmds", is_efa, True),
    Fault("peers that EFA lost", counter("unresponsive_remote_events"), COUNTED, "unresponsive_remote_events",
          is_efa, True),
    Fault("narrow slot of an adapter",
          lambda f, p: f.write(f"sys/{sysfs.folder_of(rail(p).pci)}/current_link_width", "8\n"),
          "rdma.choice_of_ports_is_sound", "PCIe x8", lambda p: has_ports(p) and not p.is_guest and bool(p.gpus)),
    Fault("other rdma-core", both(gone("usr/local/lib/libibverbs.so.1", "usr/local/lib/libibverbs.so.1.14.50.0")),
          COMPANIONS, "rdma-core", lambda p: bool(p.hcas) and p.has_rdma_core and bool(p.gpus)),
    Fault("hash policy of a bond", lambda f, p: f.sub(bond_file(p)[0], r"layer3\+4 \(1\)", "layer2 (0)"), SETTINGS,
          "layer2", bonded),
    Fault("switch without LACP", without_lacp, AT_ITS_BEST, "LACP", bonded),
    Fault("VLAN without an address", vlan_lost, "network.interface_variables_match_an_interface", "bond0.120",
          on("rhel9-lacp-vlan")),
    # NVIDIA
    Fault("other VBIOS", replaced(QUERY, r"<vbios_version>.*<", "<vbios_version>94.02.5C.00.02<"), GPU_SETTINGS,
          "VBIOS", is_nvidia),
    Fault("memory beyond repair", tag("unrepairable_memory", "No", "Yes"), BROKEN, "cannot be repaired",
          driver_from(575)),
    Fault("channel repair pending", tag("channel_repair_pending", "No", "Yes"), HELD_BACK, "repair of its memory",
          driver_from(575)),
    Fault("slow NVLinks", replaced(LINKS, r"Link 3: [\d.]+ GB/s", "Link 3: 12.5 GB/s"), GPU_SETTINGS,
          "speed of the slowest NVLinks", of(lambda p: p.gpus.nvlinks > 3 and p.gpus.count > 1)),
    Fault("GPU that answers no more",
          replaced(QUERY, r"<(gpu_util|memory_util|graphics_clock|sm_clock)>[^<]*<", r"<\1>Unknown Error<", 4),
          BROKEN, "its driver gets no answer", is_nvidia),
    Fault("fabric with an unknown error", tag("status", "Success", "Unknown Error"), BROKEN,
          "joined the NVLink fabric with an error", of(lambda p: p.gpus.has_fabric)),
    Fault("unhealthy fabric", both(tag("summary", "Healthy", "Unhealthy"), tag("route_unhealthy", "False", "True")),
          BROKEN, "unhealthy (route unhealthy: True)",
          of(lambda p: p.gpus.generation_of_driver >= 575 and p.gpus.has_fabric)),
    Fault("degraded fabric", both(tag("summary", "Healthy", "Limited Capacity"), tag("bandwidth", "Full", "Degraded")),
          HELD_BACK, "Limited Capacity (bandwidth: Degraded)",
          of(lambda p: p.gpus.generation_of_driver >= 575 and p.gpus.has_fabric)),
    Fault("pending page", tag("pending_retirement", "No", "Yes"), BROKEN, "retirement of a broken page", retires),
    Fault("worn pages", replaced(QUERY, r"(?s)(<double_bit_retirement>.*?<retired_count>)0", r"\g<1>62"), BROKEN,
          "62 pages retired", retires),
    Fault("rows used up", tag("remapped_row_unc", "0", "512"), BROKEN, "512 rows remapped",
          of(lambda p: p.gpus.has_ecc and not retires(p))),
    Fault("thermal slowdown by software",
          replaced(QUERY, r"(<clocks_\w+_reason_sw_thermal_slowdown>)Not Active", r"\1Active"), HELD_BACK, "thermal",
          is_nvidia),
    Fault("drain asked for", tag("drain_and_reset_recommended", "No", "Yes"), HELD_BACK, "drain",
          of(lambda p: p.gpus.has_ecc and p.gpus.generation_of_driver >= 550)),
    Fault("memory held from outside", filled, "gpu.no_other_program_uses_them", "held by programs",
          of(lambda p: p.gpus.memory_mib > 0)),
    Fault("corrupted InfoROM", inforom, HELD_BACK, "InfoROM", is_nvidia),
    Fault("persistence unknown", replaced(QUERY, r"<persistence_mode>\w+<", "<persistence_mode>[Unknown Error]<"),
          GPU_SETTINGS, "Unknown Error", is_nvidia),
    Fault("machine without its GPUs", without_gpus, COUNT, "0 on node3",
          on("wsl2", "gcp-t4", "vgpu-vm", "gh200", "aws-g6", "dgx-spark")),
    Fault("no licence of vGPU",
          replaced(QUERY, r"Licensed \(Expiry.*\)<", "Unlicensed (Unrestricted)<"),
          HELD_BACK, "licen", on("vgpu-vm")),
    # AMD
    Fault("RAS errors", ras, BROKEN, "4 memory errors", is_amd),
    Fault("partitioned AMD GPUs", split_amd, COUNT, "16 on node3", is_amd),
    Fault("narrow slot of an AMD GPU", cut_amd, HELD_BACK, "PCIe x8", is_amd),
    # node
    Fault("no contiguous memory", lambda f, p: f.write("proc/meminfo", f.path("proc/meminfo").read_text()
                                                      + "CmaTotal:              0 kB\nCmaFree:               0 kB\n"),
          AT_ITS_BEST, "CmaTotal is 0", on("dgx-spark")),
    Fault("quota of CPUs", file("sys/fs/cgroup/cpu.max", "200000 100000\n"), SETTINGS, "2 on node3",
          lambda p: p.group.count("\n") == 0),
    Fault("memory quota of cgroup v1",
          file("sys/fs/cgroup/memory/slurm/uid_0/job_7/step_0/task_0/memory.limit_in_bytes", "4294967296\n"), SETTINGS,
          "memory quota", on("v100-omni-path")),
    Fault("huge pages", replaced("proc/meminfo", "HugePages_Total: +0", "HugePages_Total:  20000"), SETTINGS,
          "huge pages"),
    Fault("swap", replaced("proc/meminfo", "SwapTotal: +0 kB", "SwapTotal:  8388608 kB"), SETTINGS, "swap"),
    Fault("few processes of a pod", file("sys/fs/cgroup/pids.max", "128\n"), "limits.processes_may_be_started",
          "128", on("sriov-pod", "nested-container")),
    Fault("nameless", both(answer(hostname="localhost.localdomain"), replaced("etc/hosts", r"^10\.77\.0\.3 .*\n", "")),
          "names.own_hostname_is_not_localhost", "localhost",
          lambda p: p.own_name == "" and p.nics[0].addresses[0].startswith("10.77.0.{n}")),
    Fault("own name is link-local",
          lambda f, p: f.write("etc/hosts", f"fe80::3 {f.answers()['hostname']}\n" + f.path("etc/hosts").read_text()),
          "names.own_hostname_is_no_link_local_address", "leads to fe80::3",
          lambda p: has_plain_hosts(p) and not p.domain),
    Fault("GPUs shared out", file("etc/ld.so.preload", "/usr/local/vgpu/libvgpu.so\n"),
          "environment.nothing_stands_before_cuda", "libvgpu.so", is_nvidia),
    Fault("vLLM beside a default route elsewhere", with_wheel("vllm", "0.12.0"),
          "network.serving_stacks_take_the_training_address", "vLLM takes the address of the default route",
          lambda p: place_of_training(p) != 0 and bool(p.gateway)),
    Fault("empty /etc/hosts", file("etc/hosts", ""), "names.peers_can_be_resolved", "any peer", on("kubernetes-pod")),
    Fault("no default route", answer(gateway=""), "network.default_routes_are_alike", "no default route",
          lambda p: bool(p.gateway)),
    Fault("other NCCL", lambda f, p: other_wheel(f"nvidia_nccl_cu{p.cuda_of_torch[:2]}", "2.19.3")(f, p), VERSIONS,
          "NCCL: ", is_nvidia),
    Fault("other NumPy", other_wheel("numpy", "1.24.4"), COMPANIONS, "numpy"),
    Fault("other architecture", answer(machine="riscv64"), COMPANIONS, "riscv64"),
    Fault("other traffic class", variables(NCCL_IB_TC="0"), AGREE, "NCCL_IB_TC",
          lambda p: "NCCL_IB_TC" in p.environment),
    Fault("other queue pairs", variables(NCCL_IB_QPS_PER_CONNECTION="1"), AGREE, "NCCL_IB_QPS",
          lambda p: "NCCL_IB_QPS_PER_CONNECTION" in p.environment),
    Fault("stubs of CUDA", variables(LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs:/opt/lib"),
          "environment.nothing_is_left_from_debugging", "stubs",
          lambda p: is_nvidia(p) and "LD_LIBRARY_PATH" not in p.environment),
    Fault("older driver library put first",
          both(variables(LD_LIBRARY_PATH="/usr/local/cuda/compat"),
               file("usr/local/cuda/compat/libcuda.so.1", b"\x7fELF")),
          COMPANIONS, "libcuda.so.1", lambda p: is_nvidia(p) and "LD_LIBRARY_PATH" not in p.environment),
    Fault("plugin of one node",
          both(variables(LD_LIBRARY_PATH="/opt/hpcx/nccl_rdma_sharp_plugin/lib"),
               file("opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so", b"\x7fELF")),
          COMPANIONS, "libnccl-net.so", lambda p: is_nvidia(p) and "LD_LIBRARY_PATH" not in p.environment),
    Fault("library older than the driver of an adapter",
          lambda f, p: f.write(f"{TWIN}/outputs/ibv_devinfo",
                               "libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1"
                               f" to 1) for device /sys/class/infiniband/{p.hcas[0].name}\nNo IB devices found\n"),
          "rdma.devices_can_be_opened", "kernel ABI", lambda p: is_roce(p) and p.has_rdma_core and not is_efa(p)),
    Fault("NVLS off", variables(NCCL_NVLS_ENABLE="0"), OTHERS, "NCCL_NVLS_ENABLE", is_nvidia),
    Fault("plugin switched off", variables(NCCL_NET_PLUGIN="none"), OTHERS, "NCCL_NET_PLUGIN",
          lambda p: "NCCL_NET_PLUGIN" in p.environment),
    Fault("plugin of ANP missing", gone("opt/amd-anp/build/librccl-anp.so"), "rdma.plugin_of_nccl_is_there",
          "librccl-anp.so", on("mi355x-pollara")),
    Fault("plugin for a newer libfabric",
          both(file("opt/aws-ofi-nccl/lib/libnccl-net.so",
                    b"\x7fELF\0FABRIC_1.0\0FABRIC_1.8\0/opt/cray/libfabric/1.22.0/lib64\0"),
               file("opt/cray/libfabric/1.22.0/lib64/libfabric.so.1", b"\x7fELF\0FABRIC_1.0\0FABRIC_1.7\0")),
          "rdma.plugin_of_nccl_is_there", "needs FABRIC_1.8", on("slingshot-a100")),
    Fault("plugin of a fabric missing", without_plugin, "rdma.plugin_of_nccl_is_there", "libnccl-net.so",
          lambda p: any("ccl-net.so" in name for name in p.files) and not needs_anp(p)),
    Fault("plugin of libfabric missing", gone("opt/aws-ofi-nccl/lib/libnccl-net.so"), "rdma.plugin_of_nccl_is_there",
          "libnccl-net.so", on("slingshot-a100")),
    Fault("peer memory under another name", gone("sys/kernel/mm/memory_peers"),
          "rdma.nccl_finds_the_module_of_gpu_memory", "does not know nvidia_peermem", on("p100-vpi")),
    Fault("topology file missing", gone("opt/microsoft/ndv5-topo.xml"), "environment.files_that_variables_name_exist",
          "ndv5-topo.xml", lambda p: "NCCL_TOPO_FILE" in p.environment),
    Fault("GPU lost to a guest", both(file(QUERY, "No devices were found\n"), file(f"{QUERY}.exit", "6")),
          "gpu.devices_are_readable", "No devices", on("gcp-t4", "vgpu-vm")),
    Fault("lane of an adapter's GPU", lambda f, p: f.write(f"{port(p)}/rate", "100 Gb/sec (1X NDR)\n"),
          "rdma.ports_have_the_same_rate", "on node3",
          lambda p: has_ports(p) and not rail(p).rate.startswith("100") and bool(p.gpus)),
    Fault("firmware unreadable", lambda f, p: f.write(f"sys/class/infiniband/{rail(p).name}/fw_ver", "0.0.0\n"),
          COMPANIONS, "0.0.0", lambda p: has_ports(p) and bool(p.gpus)),
    Fault("POWER8 among POWER9", replaced("proc/cpuinfo", "POWER9", "POWER8"), COMPANIONS, "POWER8", on("power9-v100")),
    Fault("older cores", replaced("proc/cpuinfo", r"CPU part\t: .*", "CPU part\t: 0xd08"), COMPANIONS, "processor",
          lambda p: "CPU part" in p.cpu_line),
)  # fmt: skip
