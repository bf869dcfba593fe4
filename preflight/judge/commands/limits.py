"""Which commands raise limits, give room, and remove what was left behind?"""

from __future__ import annotations

import shlex

from preflight.facts.value import Missing
from preflight.judge.commands.words import Case, Remedy, Row, as_file, as_root, into_file
from preflight.said.errors import FactMissing

FILE = "/etc/security/limits.d/90-preflight.conf"
SLURMD = "/etc/systemd/system/slurmd.service.d"
RESTART = ("systemctl", "restart", "slurmd")  # steps that run go on
PORTS_FILE = "/etc/sysctl.d/90-preflight-ports.conf"
PORTS = "32768 60999"  # the kernel's default
GIB = 1 << 30


def _limit(item: str, value: str) -> Row:
    def row(case: Case) -> Remedy:
        if case.node.identity.context == "slurm":  # whose tasks have the limits of slurmd, and no login
            unit = f"Limit{item.upper()}={value.replace('unlimited', 'infinity')}"
            written = as_file(case.node, f"{SLURMD}/90-preflight-{item}.conf", "[Service]", unit)
            restarted = f"{as_root(case.node, 'systemctl', 'daemon-reload')} && {as_root(case.node, *RESTART)}"
            return Remedy(f"{as_root(case.node, 'mkdir', '-p', SLURMD)} && {written} && {restarted}")
        # To pam_limits * is everybody but root.
        whom = ("*", "root") if case.node.identity.user_id == 0 else ("*",)
        lines = [f"{one} {kind} {item} {value}" for one in whom for kind in ("soft", "hard")]
        return Remedy(into_file(case.node, FILE, *lines), "# then log in again")

    return row


def _shared_memory(case: Case) -> Remedy:
    node = case.node
    if node.identity.context == "container":
        raise FactMissing("/dev/shm", "its size is set where the container starts")
    size = f"{max(node.identity.memory_bytes // 2 // GIB, 1)}g"
    now = as_root(node, "mount", "-o", f"remount,size={size}", "/dev/shm")
    return Remedy(now, into_file(node, "/etc/fstab", f"tmpfs /dev/shm tmpfs defaults,size={size} 0 0"))


def _leftovers(case: Case) -> Remedy:
    if not case.node.limits.leftovers:
        raise FactMissing("leftovers", "there are none")
    return Remedy(shlex.join(["rm", "-r", "--", *case.node.limits.leftovers]))


DEVICES = {"/dev/null": "3", "/dev/zero": "5", "/dev/urandom": "9"}  # and the number of the character device 1


def _devices(case: Case) -> Remedy:
    told = case.node.limits.device_faults
    broken = [] if isinstance(told, Missing) else [path for path in DEVICES if any(path in text for text in told)]
    if not broken:
        raise FactMissing("devices", "all are there")
    steps = [
        step
        for path in broken
        for step in (
            as_root(case.node, "rm", "-f", path),
            as_root(case.node, "mknod", "-m", "666", path, "c", "1", DEVICES[path]),
        )
    ]
    return Remedy(" && ".join(steps))


def _ports(case: Case) -> Remedy:
    """A wider range; only their owner knows which connections are too many."""
    low, high = case.node.network.ephemeral_ports
    if high - low >= 28231:
        raise FactMissing("ephemeral ports", "the range is as wide as the kernel's own")
    setting = "net.ipv4.ip_local_port_range"
    lasting = as_file(case.node, PORTS_FILE, f"{setting} = {PORTS}")
    return Remedy(as_root(case.node, "sysctl", "-w", f"{setting}={PORTS}"), lasting)


ROWS: dict[str, Row] = {
    "limits.memlock_is_enough_for_rdma": _limit("memlock", "unlimited"),
    "limits.enough_files_may_be_open": _limit("nofile", "65536"),
    "limits.processes_may_be_started": _limit("nproc", "unlimited"),
    "limits.shared_memory_is_enough": _shared_memory,
    "limits.devices_of_every_program_are_there": _devices,
    "limits.nothing_is_left_behind": _leftovers,
    "ports.ephemeral_ports_are_enough": _ports,
}
