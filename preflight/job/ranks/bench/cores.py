"""On which cores does a rank copy to its GPU, and when is it its turn?"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from preflight.job.ranks.rank.board import bus_id_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

PCI_DEVICES = "/sys/bus/pci/devices"


@contextmanager
def a_turn() -> Iterator[None]:
    """Hold what only one rank of a node can hold: a lock on the folder that all of them have."""
    folder = os.open(os.environ.get("TMPDIR", "/tmp"), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextmanager
def cores_near(device: torch.device) -> Iterator[None]:
    """Run on the cores of the GPU's NUMA node, where the kernel tells them and we may use them."""
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, (cores_by(device) & before) or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cores_by(device: torch.device) -> set[int]:
    """The cores of the GPU's NUMA node; nothing where neither torch nor the kernel tells them."""
    with suppress(OSError, AttributeError, ValueError):
        domain, bus, slot = bus_id_of(device)
        bus_id = f"{domain:04x}:{bus:02x}:{slot:02x}.0"
        with open(f"{PCI_DEVICES}/{bus_id}/local_cpulist", encoding="ascii") as file:
            return cores_of(file.read())
    return set()


def cores_of(text: str) -> set[int]:
    """0-3,8 -> the cores 0, 1, 2, 3 and 8; ValueError for what is no such list."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
