"""What are CPU nodes of other builds: an LACP bond with a VLAN over it, and a container with nothing but busybox?"""

from __future__ import annotations

from .hardware import LAB
from .platform import Nic, Platform

BOND = """\
Ethernet Channel Bonding Driver: v5.14.0-503.23.1.el9_5.x86_64

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
Transmit Hash Policy: layer3+4 (1)
MII Status: up
MII Polling Interval (ms): 100
Up Delay (ms): 0
Down Delay (ms): 0
Peer Notification Delay (ms): 0

802.3ad info
LACP active: on
LACP rate: fast
Min links: 0
Aggregator selection policy (ad_select): stable
System priority: 65535
System MAC address: 94:6d:ae:00:a1:10
Active Aggregator Info:
\tAggregator ID: 1
\tNumber of ports: 2
\tActor Key: 29
\tPartner Key: 32905
\tPartner Mac Address: 00:23:04:ee:be:0a
"""
MEMBER = """
Slave Interface: {name}
MII Status: up
Speed: 25000 Mbps
Duplex: full
Link Failure Count: 0
Permanent HW addr: 94:6d:ae:00:a1:1{number}
Slave queue ID: 0
Aggregator ID: 1
Actor Churn State: none
Partner Churn State: none
Actor Churned Count: 0
Partner Churned Count: 0
details actor lacp pdu:
    system priority: 65535
    system mac address: 94:6d:ae:00:a1:10
    port key: 29
    port priority: 255
    port number: {number}
    port state: 63
details partner lacp pdu:
    system priority: 32667
    system mac address: 00:23:04:ee:be:0a
    oper key: 32905
    port priority: 32768
    port number: 27{number}
    port state: 61
"""
VLAN = """\
bond0.120  VID: 120\t REORDER_HDR: 1  dev->priv_flags: 81021
         total frames received       183022
          total bytes received     41220011
      Broadcast/Multicast Rcvd          310

      total frames transmitted       190311
       total bytes transmitted     38110275
Device: bond0
INGRESS priority mappings: 0:0  1:0  2:0  3:0  4:0  5:0  6:0 7:0
 EGRESS priority mappings:
"""
PORTS = ("eno12399np0", "eno12409np1")
RHEL = Platform(
    name="rhel9-lacp-vlan",
    source="kernel: Documentation/networking/bonding.rst and drivers/net/bonding/bond_procfs.c of RHEL 9 (5.14), the"
    " vlanproc.c of 8021q; NetworkManager's bond0.120 over two ports of 25 Gbit/s; firewalld, tuned; management on tg3",
    nics=(
        Nic("eno8303", ("192.168.10.{n}/24",), 1000, 1500, "0000:04:00.0", driver="tg3"),
        *(Nic(name, (), 25000, 9000, f"0000:31:00.{port}", driver="ice") for port, name in enumerate(PORTS)),
        Nic("bond0", (), 50000, 9000, members=PORTS),
        Nic("bond0.120", (LAB,), 50000, 9000),
    ),
    environment={"GLOO_SOCKET_IFNAME": "bond0.120", "NCCL_SOCKET_IFNAME": "bond0.120"},
    files={
        "proc/net/bonding/bond0": BOND + "".join(MEMBER.format(name=name, number=i) for i, name in enumerate(PORTS, 1)),
        "proc/net/vlan/bond0.120": VLAN,
        "proc/net/vlan/config": "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n"
        "bond0.120      | 120  | bond0\n",
    },
    hostname="c{n}",
    domain="cpu.example.internal",
    kernel="5.14.0-503.23.1.el9_5.x86_64",
    cpu="AMD EPYC 9654 96-Core Processor",
    cpus=384,
    memory_gib=768,
    shared_memory_gib=384,
    processes=("systemd", "chronyd", "NetworkManager", "firewalld", "tuned", "irqbalance"),
    gateway="192.168.10.254",
    scaling_driver="acpi-cpufreq",
    boot="ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M rhgb quiet",
    iommu="DMA-FQ",
    nofile=262144,
    over_ssh=False,
)  # fmt: skip
BUSYBOX = Platform(
    name="busybox-container",
    source="Docker Engine: a swarm's overlay (eth0, MTU 1450) and docker_gwbridge (eth1), names of containers; the"
    " image of busybox has no ip, ss, ethtool, dmesg or lspci; Docker's --shm-size, --cpus, --memory, --pids-limit",
    nics=(Nic("eth0", (LAB,), 10000, 1450), Nic("eth1", ("172.18.1.{n}/16",), 10000, 1500)),
    hostname="3f9c1b2ad4e{n}",
    environment={"PATH": "/opt/nothing/bin", "HOSTNAME": "3f9c1b2ad4e{n}", "GLOO_SOCKET_IFNAME": "eth0"},
    kernel="6.6.63-0-lts",
    cpu="Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz",
    cpus=64,
    memory_gib=256,
    shared_memory_gib=8,
    cgroup={"memory.max": "137438953472", "cpu.max": "4800000 100000", "pids.max": "16384"},
    processes=("python3", "sh"),
    gateway="172.18.0.1",
    has_log=False,
    container=True,
    group="0::/",
    iommu="",
    memlock=8 << 20,
    over_ssh=False,
)  # fmt: skip
PLAIN = (RHEL, BUSYBOX)
