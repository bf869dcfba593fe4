"""What breaks beside GPUs and RDMA: network, names, variables, limits, software, kernel?"""

from __future__ import annotations

from . import sysfs
from .faults import Fault, answer, both, file, gone, interface, limit, logged, replaced, training, variables
from .folder import TWIN, Folder
from .platform import Platform


def chooses(platform: Platform) -> bool:
    """Whether a variable says which interface NCCL takes, and leaves it no other."""
    wanted = platform.environment.get("NCCL_SOCKET_IFNAME", "").lstrip("=")
    return bool(wanted) and sum(nic.name.startswith(wanted) and bool(nic.addresses) for nic in platform.nics) < 2


def has_rate(platform: Platform) -> bool:
    """Whether the training interface is a real one that reports its rate."""
    return bool(training(platform).speed_mbps and training(platform).pci)


def is_plain(platform: Platform) -> bool:
    """Whether the training network is one IPv4 subnet."""
    return training(platform).addresses[0].endswith("{n}/24")


def uses_gloo(platform: Platform) -> bool:
    """Whether the job runs on CPUs, with Gloo's own choice of interface."""
    return platform.gpus is None and "GLOO_SOCKET_IFNAME" not in platform.environment


def logs(platform: Platform) -> bool:
    """Whether the kernel's log may be read."""
    return platform.has_log


def half_rate(folder: Folder, platform: Platform) -> None:
    """The port came up at half of its rate, or less."""
    interface(speed_mbps=max(training(platform).speed_mbps // 2, 100))(folder, platform)


def other_subnet(folder: Folder, platform: Platform) -> None:
    """The interface has an address of another network."""
    interface(addresses=["10.99.0.3/24", "10.77.0.3/24"])(folder, platform)


def stale_peer(folder: Folder, platform: Platform) -> None:
    """/etc/hosts gives a peer an address that it had once."""
    name = platform.hostname.format(n=1)
    folder.sub("etc/hosts", rf"^\S+ {name}$", f"10.77.0.99 {name}")


def namesake(folder: Folder, platform: Platform) -> None:
    """The node was cloned, its name too."""
    name, own = (platform.hostname.format(n=n) for n in (2, 3))
    folder.kernel(lambda answers: answers.update(hostname=name))
    folder.sub("etc/hosts", rf" {name}(\.\S+)?$", " node9")
    folder.sub("etc/hosts", rf" {own}(\.\S+)?( {own})?$", rf" {name}\1 {name}")


def software(pattern: str, replacement: str, where: str) -> object:
    """A file of the job's packages says something else."""

    def plant(folder: Folder, platform: Platform) -> None:
        (found,) = folder.path(f"{TWIN}/env").glob(f"lib/*/site-packages/{where}")
        folder.sub(str(found.relative_to(folder.root)), pattern, replacement)

    return plant


def without_torch(folder: Folder, _: Platform) -> None:
    """torch was never installed for this interpreter."""
    (site,) = folder.path(f"{TWIN}/env/lib").glob("*/site-packages")
    for found in (site / "torch", *site.glob("torch-*")):
        folder.remove(str(found.relative_to(folder.root)))


def less_memory(folder: Folder, platform: Platform) -> None:
    """A module of memory is lost."""
    answer(memory_bytes=platform.memory_gib << 29)(folder, platform)
    folder.sub("proc/meminfo", r"^MemTotal:.*$", f"MemTotal: {platform.memory_gib << 19} kB")


def lost_module(folder: Folder, platform: Platform) -> None:
    """One of 32 modules of memory is lost."""
    left = platform.memory_gib - max(platform.memory_gib // 32, 8)
    answer(memory_bytes=left << 30)(folder, platform)
    folder.sub("proc/meminfo", r"^MemTotal:.*$", f"MemTotal: {left << 20} kB")


def bridge_of_a_peer(folder: Folder, platform: Platform) -> None:
    """A bridge of containers lies in the training network, with the address of node1."""
    address = training(platform).addresses[0].partition("/")[0].format(n=1)
    bridge = {"name": "br-1f2e", "mtu": 1500, "speed_mbps": 0, "addresses": [f"{address}/16"], "is_up": True}
    folder.kernel(lambda answers: answers["interfaces"].append(bridge))
    folder.write("proc/net/dev", folder.path("proc/net/dev").read_text() + f"br-1f2e: {' 0' * 16}\n")


def mac_of_first() -> str:
    """The hardware address that node1 has on eno1."""
    return ":".join(f"{byte:02x}" for byte in sysfs.mac(1, "eno1")) + "\n"


def sets_clock(platform: Platform) -> bool:
    """Whether the CPUs' frequency is the kernel's to choose."""
    return bool(platform.governor)


def is_intel(platform: Platform) -> bool:
    """Whether intel_pstate chooses it."""
    return sets_clock(platform) and platform.scaling_driver == "intel_pstate"


EXISTS = "network.training_interface_exists"
CPU = "sys/devices/system/cpu"
CLOCK = "sys/devices/system/clocksource/clocksource0"
PROCESSES = "limits.processes_may_be_started"
# What the BIOS, the kernel's start or sysctl chose otherwise: file, text, words, fits.
CHOICES = (
    ("SMT off", f"{CPU}/smt/active", "0\n", "SMT", lambda p: not p.is_guest),
    ("turbo off", f"{CPU}/intel_pstate/no_turbo", "1\n", "boost of the CPUs: ", is_intel),
    ("boost off", f"{CPU}/cpufreq/boost", "0\n", "boost of the CPUs: ", lambda p: sets_clock(p) and not is_intel(p)),
    ("clock held down", f"{CPU}/cpufreq/policy0/scaling_max_freq", "800000\n", "21% of the highest", sets_clock),
    ("NUMA balancing", "proc/sys/kernel/numa_balancing", "1\n", "NUMA balancing: ", lambda _p: True),
    ("overcommitment of all", "proc/sys/vm/overcommit_memory", "1\n", "overcommitment of memory", lambda _p: True),
    ("memory of its own zone", "proc/sys/vm/zone_reclaim_mode", "1\n", "vm.zone_reclaim_mode: ", lambda _p: True),
    ("closed memory of ranks", "proc/sys/kernel/yama/ptrace_scope", "3\n", "ptrace_scope: ", lambda _p: True),
    ("buffers of TCP", "proc/sys/net/ipv4/tcp_rmem", "4096\t4096\t65536\n", "net.ipv4.tcp_rmem", lambda _p: True),
    ("congestion control", "proc/sys/net/ipv4/tcp_congestion_control", "reno\n", "reno on node3", lambda _p: True),
    ("strict reverse path", "proc/sys/net/ipv4/conf/all/rp_filter", "1\n", "rp_filter", lambda _p: True),
)  # fmt: skip
AT_ITS_BEST = "kernel.node_is_at_its_best"
SETTINGS = "kernel.settings_are_the_same_on_every_node"
COMPANIONS = "software.companions_are_the_same_on_every_node"
VERSIONS = "software.versions_are_the_same_on_every_node"
IFNAME = "network.interface_variables_match_an_interface"
FAULTS = (
    Fault(
        "no localhost",
        replaced("etc/hosts", r"^127\.0\.0\.1 localhost\n::1 localhost .*\n", ""),
        "names.localhost_is_the_node_itself",
        "does not resolve",
    ),
    Fault(
        "localhost of another machine",
        replaced("etc/hosts", r"^127\.0\.0\.1 localhost", "10.77.0.99 localhost"),
        "names.localhost_is_the_node_itself",
        "10.77.0.99",
    ),
    Fault("mtu", interface(mtu=1400), "network.mtu_is_the_same_on_every_node", "1400 on node3"),
    Fault("half rate", half_rate, "network.training_interfaces_have_the_same_rate", "Mbit/s on node3", has_rate),
    Fault("wrong subnet", other_subnet, "network.training_addresses_share_a_subnet", "10.99.0.0/24 on node3", is_plain),
    Fault("interface down", interface(is_up=False), IFNAME, "", chooses),
    Fault("wrong NCCL_SOCKET_IFNAME", variables(NCCL_SOCKET_IFNAME="eth99"), IFNAME, "NCCL_SOCKET_IFNAME=eth99"),
    Fault("wrong GLOO_SOCKET_IFNAME", variables(GLOO_SOCKET_IFNAME="eth99"), IFNAME, "GLOO_SOCKET_IFNAME=eth99"),
    Fault(
        "127.0.1.1",
        replaced("etc/hosts", r"^10\.77\.0\.3 ", "127.0.1.1 "),
        "names.own_hostname_is_not_loopback",
        "resolves to 127.0.1.1",
        lambda p: uses_gloo(p) and is_plain(p),
    ),
    Fault("stale line in /etc/hosts", stale_peer, "names.peers_are_taken_for_themselves", "10.77.0.99", is_plain),
    Fault("cloned name", namesake, "names.hostnames_are_unique", "call themselves", nodes=("node2", "node3")),
    Fault(
        "misspelt variable", variables(NCCL_IB_HCAS="mlx5"), "environment.variables_exist", "did you mean NCCL_IB_HCA"
    ),
    Fault("impossible value", variables(NCCL_IB_DISABLE="true"), "environment.values_are_possible", "NCCL_IB_DISABLE"),
    Fault("other algorithm", variables(NCCL_ALGO="Tree"), "environment.variables_of_all_ranks_agree", "NCCL_ALGO"),
    Fault("left from debugging", variables(NCCL_DEBUG="TRACE"), "environment.nothing_is_left_from_debugging", "TRACE"),
    Fault(
        "fixed address of communicators",
        variables(NCCL_COMM_ID="10.77.0.1:29600"),
        "environment.nothing_is_left_from_debugging",
        "NCCL_COMM_ID=10.77.0.1:29600",
    ),
    Fault("P2P off", variables(NCCL_P2P_DISABLE="1"), "environment.nothing_is_left_from_debugging", "NVLink lies idle"),
    Fault(
        "narrow port range",
        file("proc/sys/net/ipv4/ip_local_port_range", "60000\t60999\n"),
        "ports.ephemeral_ports_are_enough",
        "60000-60999",
    ),
    *(
        Fault(f"limit of {name}", limit(**{name: value}), "limits.nothing_else_is_limited", words)
        for name, value, words in (("as", 16 << 30, "ulimit -v"), ("fsize", 1 << 30, "-f"), ("cpu", 3600, "3600 s"))
    ),
    Fault(
        "hardware address of another",
        file("sys/class/net/eno1/address", mac_of_first()),
        "network.hardware_addresses_are_unique",
        "several machines",
        lambda p: training(p).name == "eno1",
        nodes=("node1", "node3"),
    ),
    Fault(
        "no answer of DHCP",
        interface(addresses=["169.254.77.3/16"]),
        lambda p: EXISTS if uses_gloo(p) else IFNAME,
        "",
        lambda p: is_plain(p) and (chooses(p) or (uses_gloo(p) and len(p.nics) == 1)),
    ),
    Fault("few files", limit(nofile=1024), "limits.enough_files_may_be_open", "1024"),
    Fault("few processes", limit(nproc=1024), "limits.processes_may_be_started", "1024"),
    Fault("small /dev/shm", answer(shared_memory_bytes=32 << 20), "limits.shared_memory_is_enough", "MiB are free"),
    Fault(
        "other torch",
        software(r"(?s).*", "__version__ = '2.5.1+cpu'\ncuda = None\nhip = None\n", "torch/version.py"),
        VERSIONS,
        "torch: ",
        lambda p: p.gpus is None,
    ),
    Fault(
        "CPU build of torch",
        software(r"(?s).*", "__version__ = '2.7.1+cpu'\ncuda = None\nhip = None\n", "torch/version.py"),
        VERSIONS,
        "torch: ",
        lambda p: p.gpus is not None,
    ),
    Fault("no torch", without_torch, "software.torch_is_installed", "torch is not installed"),
    Fault(
        "other kernel",
        both(answer(release="5.4.0-200-generic"), file("proc/sys/kernel/osrelease", "5.4.0-200-generic\n")),
        COMPANIONS,
        "kernel: ",
    ),
    Fault(
        "other processor",
        replaced("proc/cpuinfo", r"(model name|CPU part|cpu)\t+:.*", r"\1\t: Intel(R) Xeon(R) Gold 6230"),
        COMPANIONS,
        "processor: ",
    ),
    Fault(
        "powersave",
        both(
            file("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
            file("sys/devices/system/cpu/cpufreq/policy0/scaling_driver", "acpi-cpufreq\n"),
        ),
        AT_ITS_BEST,
        "CPU governor powersave",
        sets_clock,
    ),
    Fault(
        "little memory free",
        replaced("proc/meminfo", "^MemAvailable:.*", "MemAvailable:   1048576 kB"),
        AT_ITS_BEST,
        "of memory are available",
    ),
    Fault(
        "transparent huge pages",
        file("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
        SETTINGS,
        "transparent huge pages",
    ),
    Fault(
        "fewer CPUs",
        lambda folder, platform: answer(cpus=platform.cpus // 2)(folder, platform),
        SETTINGS,
        "CPUs that may be used",
    ),
    Fault(
        "other boot options",
        replaced("proc/cmdline", "iommu=pt", "intel_iommu=on"),
        SETTINGS,
        "boot options",
        lambda p: "iommu=pt" in p.boot,
    ),
    Fault(
        "hidden instructions",
        replaced("proc/cpuinfo", r" (avx2|sve)\b", ""),
        SETTINGS,
        "vector instructions of the CPUs: ",
        lambda p: p.machine != "ppc64le",
    ),
    Fault(
        "offloads off",
        interface(offloads=False),
        SETTINGS,
        "offloads of the training interface: tso gso gro on node[1-2], none on node3",
        lambda p: bool(training(p).speed_mbps),
    ),
    Fault(
        "threads held to one CPU",
        variables(GOMP_CPU_AFFINITY="0"),
        "environment.other_variables_are_the_same_on_every_node",
        "GOMP_CPU_AFFINITY: not set on node[1-2]",
    ),
    Fault(
        "bridge with a peer's address",
        bridge_of_a_peer,
        "network.training_addresses_are_unique",
        "br-1f2e here has ",
        is_plain,
    ),
    Fault(
        "reserved ports",
        file("proc/sys/net/ipv4/ip_local_reserved_ports", "30000-60000\n"),
        "ports.ephemeral_ports_are_enough",
        "beside the 27233 of net.ipv4.ip_local_reserved_ports",
    ),
    *(Fault(name, file(path, text), SETTINGS, words, fits) for name, path, text, words, fits in CHOICES),
    Fault("overcommitment", file("proc/sys/vm/overcommit_memory", "2\n"), AT_ITS_BEST, "vm.overcommit_memory is 2"),
    Fault("slow clock", file(f"{CLOCK}/current_clocksource", "hpet\n"), AT_ITS_BEST, "clock source hpet"),
    Fault("few processes of the machine", file("proc/sys/kernel/pid_max", "2048\n"), PROCESSES, "2048"),
    Fault("mitigations of one", replaced("proc/cmdline", r"$", " mitigations=off"), SETTINGS, "mitigations=off"),
    Fault("brake of memory", file("sys/fs/cgroup/memory.high", "4294967296\n"), SETTINGS, "memory quota"),
    Fault(
        "a module of memory",
        lost_module,
        "kernel.memory_is_the_same_on_every_node",
        "GiB of memory, others have",
        lambda p: p.memory_gib >= 256,
    ),
    Fault("less memory", less_memory, "kernel.memory_is_the_same_on_every_node", "GiB of memory, others have"),
    Fault("memory quota", file("sys/fs/cgroup/memory.max", "4294967296\n"), SETTINGS, "memory quota"),
    Fault(
        "OOM kill",
        logged("Out of memory: Killed process 4711 (python) total-vm:1kB"),
        "kernel.log_tells_of_nothing_broken",
        "Killed process 4711",
        logs,
    ),
    Fault(
        "PCIe error",
        logged("pcieport 0000:10:01.0: AER: Uncorrectable (Fatal) error message received"),
        "kernel.log_tells_of_nothing_broken",
        "Uncorrectable",
        logs,
    ),
    Fault(
        "OOM kill during the run",
        replaced("proc/vmstat", "oom_kill 0", "oom_kill 2"),
        "kernel.no_process_was_killed_during_the_run",
        "2 processes OOM-killed",
        during=True,
    ),
    Fault(
        "errors of the interface during the run",
        lambda folder, platform: folder.sub(
            "proc/net/dev", rf"({training(platform).name.format(n=3)}: 1000 10) 0", r"\1 77"
        ),
        "network.no_interface_counted_errors_during_the_run",
        "77 rx/tx errors",
        during=True,
    ),
    Fault(
        "no time service",
        gone("proc/301"),
        "clock.a_time_service_runs_where_the_peers_have_one",
        "no time service",
        lambda p: p.processes[1:2] in (("chronyd",), ("systemd-timesyncd",)),
    ),
)
