"""What breaks in routes, devices, the packet filter and the settings of a machine?"""

from __future__ import annotations

from .faults import (
    Fault,
    Plant,
    answer,
    both,
    every,
    file,
    interface,
    limit,
    logged,
    replaced,
    training,
    variables,
)
from .folder import Folder
from .platform import Platform


def commands(*lines: str) -> Plant:
    """Somebody has typed these as root; X stands for the training interface."""

    def plant(folder: Folder, platform: Platform) -> None:
        name = training(platform).name.format(n=3)
        told = [line.replace(" X", f" {name}") for line in lines]
        folder.kernel(lambda answers: answers.update(commands=told))

    return plant


def is_plain(platform: Platform) -> bool:
    """Whether all nodes are in one IPv4 subnet of the lab, on the first interface."""
    return training(platform).addresses[:1] == ("10.77.0.{n}/24",) and bool(platform.nics[0].addresses)


def has_card(platform: Platform) -> bool:
    """Whether the peers' hardware addresses are known."""
    return is_plain(platform) and platform.name in ("25gbe", "100gbe", "ubuntu")


def static_entry(folder: Folder, platform: Platform) -> None:
    """`arp -s`, for a card that was replaced since."""
    head = "IP address       HW type     Flags       HW address            Mask     Device\n"
    name = training(platform).name
    folder.write(
        "proc/net/arp", f"{head}10.77.0.1        0x1         0x6         02:00:00:00:00:99     *        {name}\n"
    )


def runs_few(platform: Platform) -> bool:
    """Whether this machine's own mounts may be changed for it: the job's user is root."""
    return platform.user_id == 0


def second_interface(folder: Folder, _platform: Platform) -> None:
    """A further network, where no peer is."""
    nic = {"name": "eth9", "mtu": 9000, "speed_mbps": 0, "addresses": ["192.168.9.3/24"], "is_up": True}
    folder.kernel(lambda answers: answers["interfaces"].append(nic))
    folder.write("proc/net/dev", folder.path("proc/net/dev").read_text() + f"eth9: {' 0' * 16}\n")


ROUTES = "network.routes_to_peers_leave_by_the_training_interface"
AT_ITS_BEST = "kernel.node_is_at_its_best"
SETTINGS = "kernel.settings_are_the_same_on_every_node"
LOGGED = "kernel.log_tells_of_nothing_broken"
DEVICES = "limits.devices_of_every_program_are_there"
FILTER = "proc/sys/net/netfilter"


def full_table(folder: Folder, _platform: Platform) -> None:
    """The packet filter keeps track of as many connections as it may."""
    folder.write(f"{FILTER}/nf_conntrack_max", "65536\n")
    folder.write(f"{FILTER}/nf_conntrack_count", "65400\n")


def full_group(folder: Folder, _platform: Platform) -> None:
    """What an earlier job left has used up the processes of the control group."""
    folder.write("sys/fs/cgroup/pids.max", "32768\n")
    folder.write("sys/fs/cgroup/pids.current", "32700\n")


LINES = (
    ("cgroup: fork rejected by pids controller in /user.slice/user-1000.slice/session-1.scope", "fork rejected"),
    ("VFS: file-max limit 100000 reached", "file-max limit"),
    ("watchdog: Watchdog detected hard LOCKUP on cpu 12", "hard LOCKUP"),
    ("rcu: rcu_preempt kthread starved for 5251 jiffies! g1 f0x0 RCU_GP_WAIT_FQS(5)", "starved"),
    ("CIFS: VFS: \\\\filer has not responded in 180 seconds. Reconnecting...", "not responded"),
    ("Buffer I/O error on dev dm-0, logical block 0, async page read", "Buffer I/O error"),
    ("Aborting journal on device nvme0n1p2-8.", "Aborting journal"),
    ("sd 2:0:0:0: rejecting I/O to offline device", "offline device"),
    ("device-mapper: multipath: 253:3: Failing path 8:16.", "Failing path"),
    ("SQUASHFS error: Unable to read data cache entry [3fb2a1]", "SQUASHFS"),
    ("BUG: Bad page state in process python  pfn:1a2b3", "Bad page"),
    ("BUG: kernel NULL pointer dereference, address: 0000000000000008", "NULL pointer"),
    ("list_del corruption. prev->next should be ffff8881, but was 0000", "corruption"),
    ("PID 4242 killed due to inadequate hugepage pool", "hugepage pool"),
    ("NFS: server nas1 error: fileid changed", "fileid changed"),
    ("device-mapper: thin: 253:4: switching pool to out-of-data-space (queue IO) mode", "out-of-data-space"),
    ("ata1.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen", "frozen"),
    ("vmxnet3 0000:0b:00.0 ens192: tx hang", "tx hang"),
    ("ice 0000:31:00.0: 1 Tx Malicious Driver Detection events 5 PF.", "Malicious"),
    ("ena 0000:00:05.0 ens5: Potential MSIX issue on Tx side Queue = 3. Reset the device", "MSIX"),
)
FAULTS = (
    Fault("blackhole of a peer", commands("ip route add blackhole 10.77.0.1/32"), ROUTES, "a blackhole", is_plain),
    Fault("rule against a peer", commands("ip rule add to 10.77.0.1 prohibit"), ROUTES, "prohibits it", is_plain),
    Fault(
        "rule to a table without a route",
        commands("ip route add unreachable default table 100", "ip rule add from 10.77.0.3 to 10.77.0.0/24 lookup 100"),
        ROUTES,
        "every peer do not leave: an unreachable route",
        is_plain,
    ),
    Fault(
        "peer behind loopback",
        commands("ip route add 10.77.0.1/32 dev lo"),
        ROUTES,
        "packets to node1 leave by",
        is_plain,
    ),
    Fault(
        "small MTU of a route", commands("ip route add 10.77.0.1/32 dev X mtu 1300"), ROUTES, "cut to 1300", is_plain
    ),
    Fault(
        "MTU of a route above its interface's",
        commands("ip route add 10.77.0.1/32 dev X mtu 9900"),
        ROUTES,
        "packets to node1 may have 9900 bytes",
        is_plain,
    ),
    Fault(
        "rule that sends an address another way",
        both(
            second_interface,
            commands("ip rule add from 10.77.0.3 lookup 100", "ip route add 10.77.0.0/24 dev eth9 table 100"),
        ),
        ROUTES,
        "leave by eth9",
        is_plain,
    ),
    Fault("plain file in place of /dev/null", file("dev/null", "noise\n"), DEVICES, "/dev/null is no device", every),
    Fault(
        "shaped",
        commands("tc qdisc add dev X root tbf rate 1gbit burst 256k latency 50ms"),
        SETTINGS,
        "interfaces: none on node[1-2], tbf on node3",
        is_plain,
    ),
    Fault("few processes left", full_group, AT_ITS_BEST, "100% of the processes", lambda p: p.group.count("\n") == 0),
    Fault(
        "loopback without its address",
        commands("ip addr del 127.0.0.1/8 dev lo"),
        "names.localhost_is_the_node_itself",
        "lo has no 127.0.0.1",
        is_plain,
    ),
    Fault(
        "mask of another subnet",
        interface(addresses=["10.77.0.3/25"]),
        "network.training_addresses_share_a_subnet",
        "10.77.0.0/25, where its peers have 10.77.0.0/24",
        is_plain,
    ),
    Fault("limit of data", limit(data=1 << 30), "limits.nothing_else_is_limited", "ulimit -d", every),
    Fault("small stack", limit(stack=256 << 10), "limits.nothing_else_is_limited", "256 KiB (ulimit -s)", every),
    Fault("options of debugging", replaced("proc/cmdline", "$", " slub_debug=FZP"), SETTINGS, "slub_debug=FZP", every),
    Fault("FIPS of one", replaced("proc/cmdline", "$", " fips=1"), SETTINGS, "fips=1", every),
    Fault(
        "lost library of LD_PRELOAD",
        variables(LD_PRELOAD="/usr/lib/libtcmalloc.so.4"),
        "environment.files_that_variables_name_exist",
        "libtcmalloc.so.4: No such file",
        every,
    ),
    Fault(
        "shared memory that is read-only",
        answer(mounts=["mount -o remount,ro /dev/shm"]),
        "limits.shared_memory_is_enough",
        "may not be written",
        runs_few,
    ),
    Fault(
        "shared memory that an ended job fills",
        answer(
            mounts=["mount -o remount,size=8m /dev/shm", "dd if=/dev/zero of=/dev/shm/torch_4711_1_0 bs=1M count=7"]
        ),
        "limits.shared_memory_is_enough",
        "torch_4711_1_0 of user 0: 7 MiB",
        runs_few,
    ),
    Fault("tracked connections", full_table, AT_ITS_BEST, "100% of the connections", every),
    Fault("SELinux of one", file("sys/fs/selinux/enforce", "1"), SETTINGS, "SELinux: ", every),
    Fault("few mappings", file("proc/sys/vm/max_map_count", "2048\n"), SETTINGS, "vm.max_map_count", every),
    Fault("no IPv6", file("proc/sys/net/ipv6/conf/all/disable_ipv6", "1\n"), SETTINGS, "disable_ipv6", every),
    Fault("static neighbour", static_entry, "network.peers_are_taken_for_their_own_cards", "static entry", has_card),
    Fault("no containers of users", file("proc/sys/user/max_user_namespaces", "0\n"), SETTINGS, "containers of", every),
    *(
        Fault(f"line of the log: {words}", logged(line), LOGGED, words, lambda platform: platform.has_log)
        for line, words in LINES
    ),
)
