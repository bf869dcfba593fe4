"""Which call does the node agent answer itself, and where is that safe?

A process of its own costs a call a tenth of what all facts cost. On a node where nothing that they read can block, the
agent collects them itself, in steps between which it hears the controller; on any other they have a process.
"""

from __future__ import annotations

import os

from preflight.node.agent import programs, roots
from preflight.node.agent.missing import read_lines
from preflight.node.calls import collect
from preflight.node.subjects.environment import job_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Message = dict[str, Any]

# A driver that is stuck keeps whoever reads its files, and its program takes seconds.
OF_PROC = ("driver/nvidia",)
OF_SYSFS = ("class/kfd", "class/infiniband", "class/accel")
OF_DEV = ("dxg", "infiniband", "kfd", "nvidiactl")
PROGRAM = "nvidia-smi"  # the only one that is asked without a look for devices
# File systems that wait for no other machine and no other program; any other may.
LOCAL = (
    *("bpf", "binfmt_misc", "btrfs", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"),
    *("erofs", "ext2", "ext3", "ext4", "f2fs", "fusectl", "hugetlbfs", "iso9660", "mqueue", "nsfs", "overlay", "proc"),
    *("pstore", "ramfs", "rootfs", "securityfs", "selinuxfs", "squashfs", "sysfs", "tmpfs", "tracefs", "vfat", "xfs"),
    "zfs",
)
AUTOMATIC = "/proc/"  # systemd mounts what is below it when somebody looks


class OwnCall:
    """The facts under way in the agent's own process."""

    def __init__(self, number: int, arguments: dict[str, Any]) -> None:
        self.number = number
        self._arguments = arguments
        self._steps = collect.steps(arguments)
        self._has_collected = False
        self._order: Message = {}

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is left to do before the controller sends its order."""
        return self._has_collected and not self._order

    def take(self, order: Message) -> None:
        """What the controller sends into the call: the second round."""
        self._order = order

    def step(self) -> list[Message]:
        """Do the next step -> the messages that it gives; the last of a call has its result, or its error."""
        try:
            if self._has_collected:
                return [*self._told(collect.further(self._order, self._arguments)), {"call": self.number, "result": {}}]
            events = next(self._steps)
        except Exception as error:  # as in a process of its own
            return [{"call": self.number, "error": f"{type(error).__name__}: {error}"}]
        self._has_collected = collect.COLLECTED in events
        return self._told(events)

    def _told(self, events: list[Message]) -> list[Message]:
        return [{"call": self.number, "event": event} for event in events]


def may_block(arguments: Mapping[str, Any]) -> bool:
    """Whether a file system, a driver, or a program of one can keep a reader on this node waiting."""
    proc, sysfs, root = arguments["proc"], arguments["sysfs"], roots.root_of(arguments)
    if not has_local_files(f"{proc}/self/mounts"):  # first: what follows reads files of the user's home
        return True
    dev = arguments.get("dev", f"{root}/dev")
    devices = ((proc, OF_PROC), (sysfs, OF_SYSFS), (dev, OF_DEV))
    if any(os.path.exists(f"{root}/{name}") for root, names in devices for name in names):
        return True
    return bool(programs.find(PROGRAM, job_variables(arguments).get("PATH", ("", ""))[0], root))


def has_local_files(mounts: str) -> bool:
    """Whether every file system of a table of mounts is of this machine alone; not where the table cannot be read."""
    text = read_lines(mounts)
    rows = [line.split(" ") for line in text.splitlines()] if isinstance(text, str) else []
    return bool(rows) and all(row[2] in LOCAL or row[1].startswith(AUTOMATIC) for row in rows if len(row) > 2)
