"""Which settings of sysctl decide how a job runs, so that all its nodes should have the same?"""

from __future__ import annotations

from dataclasses import dataclass

NET = "https://docs.kernel.org/admin-guide/sysctl/net.html"
IP = "https://docs.kernel.org/networking/ip-sysctl.html"
VM = "https://docs.kernel.org/admin-guide/sysctl/vm.html"
YAMA = "https://docs.kernel.org/admin-guide/LSM/Yama.html"
APPARMOR = "https://gitlab.com/apparmor/apparmor/-/wikis/unprivileged_userns_restriction"
ANSWERS = "whether a node with several interfaces answers on the right one"
SPEED = "how fast TCP can be"
OPTIONS = "how TCP gets over lost packets and long ways"


@dataclass(frozen=True)
class Sysctl:
    """A setting and what it decides. ``neighbour`` is a usual value, ``example`` one that a single node may have."""

    name: str
    decides: str
    example: str
    neighbour: str
    source: str


SYSCTLS = (
    Sysctl("net.core.rmem_max", SPEED, "212992", "67108864", NET),
    Sysctl("net.core.wmem_max", SPEED, "212992", "67108864", NET),
    Sysctl("net.core.netdev_max_backlog", "how many packets wait for a CPU", "1000", "250000", NET),
    Sysctl("net.core.somaxconn", "how many ranks may wait to be taken in by rank 0", "128", "4096", NET),
    Sysctl("net.core.default_qdisc", "the order in which packets leave", "pfifo_fast", "fq", NET),
    Sysctl("net.ipv4.tcp_rmem", SPEED, "4096 131072 212992", "4096 87380 67108864", IP),
    Sysctl("net.ipv4.tcp_wmem", SPEED, "4096 16384 212992", "4096 65536 67108864", IP),
    Sysctl("net.ipv4.tcp_congestion_control", SPEED, "reno", "cubic", IP),
    Sysctl("net.ipv4.tcp_mtu_probing", "whether large packets that a path drops are sent smaller", "1", "0", IP),
    Sysctl("net.ipv4.conf.all.rp_filter", ANSWERS, "1", "2", IP),
    Sysctl("net.ipv4.conf.all.arp_ignore", ANSWERS, "0", "1", IP),
    Sysctl("net.ipv4.conf.all.arp_announce", ANSWERS, "0", "2", IP),
    Sysctl("net.ipv4.tcp_sack", OPTIONS, "0", "1", IP),
    Sysctl("net.ipv4.tcp_window_scaling", OPTIONS, "0", "1", IP),
    Sysctl("net.ipv4.tcp_timestamps", OPTIONS, "0", "1", IP),
    Sysctl("net.ipv6.conf.all.disable_ipv6", "whether a node has IPv6", "1", "0", IP),
    Sysctl("vm.zone_reclaim_mode", "whether a full NUMA node is reclaimed instead of using another", "1", "0", VM),
    Sysctl("vm.swappiness", "whether pages of ranks are swapped out", "100", "60", VM),
    Sysctl("vm.max_map_count", "how many files and pieces of memory a process may map", "1024", "65530", VM),
    Sysctl("kernel.yama.ptrace_scope", "whether ranks of a user read each other's memory", "1", "0", YAMA),
    Sysctl("kernel.apparmor_restrict_unprivileged_userns", "whether a user may start containers", "1", "0", APPARMOR),
)
NAMES = tuple(row.name for row in SYSCTLS)
