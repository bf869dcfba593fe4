"""What befalls one of a node's several data interfaces that is neither the training interface nor an RDMA port?"""

from __future__ import annotations

from .faults import Fault, Plant, limit
from .folder import Folder
from .platform import Platform

ALIKE = "network.data_interfaces_are_alike"
RAILS = {"gcp-a3-mega": "eth5", "slingshot-a100": "hsn2", "lumi-g-mi250x": "hsn2", "alps-gh200": "hsn2"}
RAILS |= {"gcp-a3-mega-slurm": "enp134s0"}


def has_rails(platform: Platform) -> bool:
    """Whether the platform has several data interfaces of its own kind."""
    return platform.name in RAILS


def tells_rate(platform: Platform) -> bool:
    """Whether their driver tells it."""
    return RAILS.get(platform.name) == "hsn2"


def rail(**values: object) -> Plant:
    """One data interface is otherwise."""

    def plant(folder: Folder, platform: Platform) -> None:
        def change(answers: dict) -> None:  # type: ignore[type-arg]
            (one,) = (one for one in answers["interfaces"] if one["name"] == RAILS[platform.name])
            one.update(values)

        folder.kernel(change)

    return plant


def without(folder: Folder, platform: Platform) -> None:
    """The kernel has no such interface, as where its adapter was not found at the boot."""
    name = RAILS[platform.name]
    folder.kernel(
        lambda answers: answers.update(interfaces=[one for one in answers["interfaces"] if one["name"] != name])
    )


FAULTS = (
    Fault("data interface down", rail(is_up=False), ALIKE, "has no link; it is in use on node[1-2]", has_rails),
    Fault("data interface without address", rail(addresses=[]), ALIKE, "has no address; it is in use", has_rails),
    Fault("data interface absent", without, ALIKE, "is not there; it is in use on node[1-2]", has_rails),
    Fault("MTU of a data interface", rail(mtu=1500), ALIKE, "MTU 1500; on node[1-2] MTU", has_rails),
    Fault("half rate of a data interface", rail(speed_mbps=100000), ALIKE, "100000 Mbit/s; on node[1-2]", tells_rate),
    Fault(
        "little locked memory beside Slingshot",
        limit(memlock=65536),
        "limits.memlock_is_enough_for_rdma",
        "memlock: 65536 bytes",
        tells_rate,
    ),
)
