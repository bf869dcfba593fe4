"""What follows from a kernel's facts?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.kernel import BondMember, LogEvent
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing
from preflight.testing import healthy, roce

KERNEL = roce(1).subjects["node1"]["kernel"]


def changed(**fields):
    """The kernel of a healthy node with other values."""
    return msgspec.structs.replace(KERNEL, **fields)


@pytest.mark.parametrize(
    ("modules", "is_open", "release", "way"),
    [
        (("nvidia", "nvidia_peermem"), False, "4.18.0-477.el8", "nvidia_peermem"),
        (("nvidia",), True, "5.15.0-91-generic", "dma-buf"),
        (("nvidia",), True, "5.4.0-91-generic", "none"),
        (("nvidia",), False, "6.8.0", "none"),
        (("amdgpu",), False, "6.8.0", "amdgpu"),
    ],
)
def test_the_way_of_adapters_to_gpus(modules, is_open, release, way):
    """A module for it, or NVIDIA's open driver on a kernel that shares memory by dma-buf."""
    assert changed(modules=modules, is_driver_open=is_open).gpudirect(release) == way


def test_the_way_is_not_guessed():
    """Where the kernel's modules cannot be listed, nothing is said."""
    with pytest.raises(FactMissing):
        changed(modules=Missing("refused", "denied")).gpudirect("6.8.0")


def test_a_quota_bounds_the_cpus():
    """A container may run on all CPUs, and for a share of the time only."""
    assert KERNEL.cpus() == 64
    assert changed(cgroup_cpus=2.5).cpus() == 2.5


def test_events_are_of_one_kind_and_recent():
    """Older ones, and those of other kinds, are left out."""
    log = tuple(LogEvent(kind, 0, "", age, "x") for kind, age in (("oom", 10.0), ("oom", 90.0), ("pcie", 10.0)))
    assert changed(log=log).events("oom", within_seconds=60.0) == log[:1]
    with pytest.raises(FactMissing):
        changed(log=Missing("root only", "denied")).events("oom", within_seconds=60.0)


@pytest.mark.parametrize(
    ("modes", "rate"),
    [
        ({"bond0": "IEEE 802.3ad Dynamic link aggregation"}, 50000),
        ({"bond0": "fault-tolerance (active-backup)"}, 25000),
        ({}, 50000),  # its file names no mode
    ],
)
def test_a_bond_carries_what_its_members_do(modes, rate):
    """Together, or one of them where the others only stand by; a mode that is not told breaks nothing."""
    members = (BondMember("bond0", "eth1", 25000, 1), BondMember("bond0", "eth2", 25000, 1))
    run = healthy(1).broken(
        "node1", "kernel", bonds={"bond0": {"eth1": True, "eth2": True}}, bond_modes=modes, bond_members=members
    )
    assert run.cluster["node1"].kernel.bond_rate_mbps("bond0") == rate
