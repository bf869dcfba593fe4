"""Tests of preflight.node.subjects.kernel."""

import os

import msgspec
import pytest

from preflight.facts.subjects.kernel import BondMember, Kernel
from preflight.facts.value import Missing
from preflight.knowledge import sysctls
from preflight.node.subjects import kernel
from preflight.said.errors import FactMissing


def write(root, **files):
    """Files below a root; `__` in a name stands for a slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return os.fspath(root)


def collected(tmp_path):
    arguments = {"proc": os.fspath(tmp_path), "sysfs": os.fspath(tmp_path), "kmsg": os.fspath(tmp_path / "kmsg")}
    arguments["sysctls"] = sysctls.NAMES
    return msgspec.convert(kernel.collect(arguments), type=Kernel, strict=True)


def test_an_empty_machine_tells_why_it_lacks_each_fact(tmp_path):
    """Nothing is taken for 0 or for well."""
    facts = collected(tmp_path)
    for value in (facts.modules, facts.boot_options, facts.governors, facts.cpus_allowed, facts.log):
        assert isinstance(value, Missing)
    assert facts.has_iommu is False


def test_modules_and_options_that_matter_are_told(tmp_path):
    """The rest of both files stays on the node."""
    write(
        tmp_path,
        modules="nvidia_peermem 16384 0 - Live 0x0\next4 1 0 - Live 0x0\nmlx5_ib 1 0 - Live 0x0\n",
        cmdline="BOOT_IMAGE=/vmlinuz root=UUID=secret intel_iommu=on pci=noacs quiet\n",
        driver__nvidia__version="NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95\n",
    )
    facts = collected(tmp_path)
    assert (facts.modules, facts.boot_options) == (("nvidia_peermem", "mlx5_ib"), ("intel_iommu=on", "pci=noacs"))
    assert facts.is_driver_open is True


def test_memory_is_told_in_bytes(tmp_path):
    """What is swapped out is the difference of two lines, huge pages are a product."""
    write(
        tmp_path,
        meminfo="MemAvailable: 1024 kB\nCmaTotal: 0 kB\nSwapTotal: 200 kB\nSwapFree: 150 kB\nHugePages_Total: 3\n"
        "Hugepagesize: 2048 kB\n",
        vmstat="nr_free_pages 1\noom_kill 4\n",
    )
    facts = collected(tmp_path)
    assert (facts.memory_available_bytes, facts.swap_used_bytes) == (1 << 20, 50 << 10)
    assert (facts.hugepages_bytes, facts.oom_kills) == (3 * 2048 << 10, 4)
    assert facts.cma_bytes == 0


def test_the_tightest_quota_of_all_groups_above_counts(tmp_path):
    """A group may grant more than the one it is in."""
    write(
        tmp_path,
        self__cgroup="0::/a/b\n",
        fs__cgroup__a__cpu__max="unused",
    )
    base = tmp_path / "fs/cgroup/a"
    (base / "b").mkdir()
    (base / "cpu.max").write_text("200000 100000\n")
    (base / "b/cpu.max").write_text("max 100000\n")
    (base / "memory.max").write_text("8589934592\n")
    (base / "b/memory.max").write_text("max\n")
    (base / "pids.max").write_text("4096\n")
    (base / "b/pids.max").write_text("1024\n")
    (base / "b/memory.events").write_text("low 0\noom_kill 3\n")
    facts = collected(tmp_path)
    assert (facts.cgroup_cpus, facts.cgroup_memory_bytes, facts.cgroup_oom_kills) == (2.0, 8 << 30, 3)
    assert (facts.cgroup_processes, facts.processes("unlimited"), facts.processes(512)) == (1024, 1024, 512)


def test_the_share_of_processes_is_that_of_the_fullest_group(tmp_path):
    """Only a group with a quota counts; where none has one there is no share."""
    write(tmp_path, self__cgroup="0::/a/b\n", fs__cgroup__a__pids__max="unused")
    base = tmp_path / "fs/cgroup/a"
    (base / "b").mkdir()
    assert collected(tmp_path).cgroup_processes_held.kind == "absent"
    for folder, most, now in ((base, "4096", "1024"), (base / "b", "max", "4000")):
        (folder / "pids.max").write_text(f"{most}\n")
        (folder / "pids.current").write_text(f"{now}\n")
    assert collected(tmp_path).cgroup_processes_held == 0.25
    (base / "pids.current").write_text("many\n")
    assert collected(tmp_path).cgroup_processes_held.kind == "failed"


def test_the_older_groups_are_read_too(tmp_path):
    """Version 1 has a folder for each controller, and a large figure for no quota."""
    base = tmp_path / "fs/cgroup"
    write(tmp_path, self__cgroup="4:memory:/job\n3:cpu,cpuacct:/job\n")
    for folder in ("memory/job", "cpu,cpuacct/job"):
        (base / folder).mkdir(parents=True)
    (base / "memory/job/memory.limit_in_bytes").write_text("9223372036854771712\n")
    (base / "cpu,cpuacct/job/cpu.cfs_quota_us").write_text("150000\n")
    (base / "cpu,cpuacct/job/cpu.cfs_period_us").write_text("100000\n")
    facts = collected(tmp_path)
    assert facts.cgroup_cpus == 1.5
    assert isinstance(facts.cgroup_memory_bytes, Missing)


@pytest.mark.parametrize(
    ("name", "text", "fact"),
    [
        ("cpu.max", "200000 1000", "cgroup_cpus"),
        ("cpu.max", "200000\n", "cgroup_cpus"),
        ("memory.max", "17179", "cgroup_memory_bytes"),
        ("memory.high", "", "cgroup_memory_bytes"),
        ("pids.max", "40", "cgroup_processes"),
        ("pids.max", "many\n", "cgroup_processes"),
    ],
)
def test_a_quota_that_cannot_be_read_is_not_none(tmp_path, name, text, fact):
    """It may be the tightest: neither "no quota", nor the quota of a group above it, nor half of a figure."""
    write(tmp_path, self__cgroup="0::/a\n")
    folder = tmp_path / "fs/cgroup"
    (folder / "a").mkdir(parents=True)
    for place, words in (
        (folder / name, "400000 100000\n" if name == "cpu.max" else "8589934592\n"),
        (folder / "a" / name, text),
    ):
        place.write_text(words)
    assert getattr(collected(tmp_path), fact).kind == "failed"


def test_a_node_that_hides_which_group_it_is_in_has_no_known_quota(tmp_path):
    """Without /proc/self/cgroup a machine with control groups may hold us to anything; one without them cannot."""
    assert collected(tmp_path).cgroup_memory_bytes == Missing("no quota", "absent")
    write(tmp_path, fs__cgroup__memory="")
    facts = collected(tmp_path)
    for fact in (facts.cgroup_cpus, facts.cgroup_memory_bytes, facts.cgroup_processes):
        assert (fact.kind, "self/cgroup" in fact.missing) == ("failed", True)
    with pytest.raises(FactMissing):
        facts.cpus()


def test_a_setting_that_was_cut_short_is_not_one_that_the_kernel_lacks(tmp_path):
    """What is not there is left out; what cannot be read is said."""
    write(tmp_path, sys__net__core__rmem_max="2129", sys__net__core__somaxconn="4096\n")
    found = collected(tmp_path).network_settings
    assert found["net.core.somaxconn"] == "4096"
    assert found["net.core.rmem_max"].kind == "failed"
    assert set(found) == {"net.core.somaxconn", "net.core.rmem_max"}


def test_settings_of_memory_and_ranks_are_told(tmp_path):
    """By their names; a kernel without Yama has no such setting."""
    write(tmp_path, sys__vm__zone_reclaim_mode="1\n", sys__vm__swappiness="60\n")
    assert collected(tmp_path).settings == {"vm.zone_reclaim_mode": "1", "vm.swappiness": "60"}


def test_the_most_processes_of_a_machine_must_be_readable(tmp_path):
    """A machine's own limit that cannot be read may be lower than the user's."""
    write(tmp_path, sys__kernel__pid_max="41943", sys__kernel__threads_max="16512444\n")
    (tmp_path / "sys/kernel/threads_max").rename(tmp_path / "sys/kernel/threads-max")
    with pytest.raises(FactMissing):
        collected(tmp_path).processes("unlimited")


def test_governors_are_told_once_each(tmp_path):
    """Hundreds of CPUs have one or two of them."""
    for number, governor in enumerate(("performance", "powersave", "performance")):
        folder = tmp_path / f"devices/system/cpu/cpufreq/policy{number}"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{governor}\n")
        (folder / "scaling_driver").write_text("acpi-cpufreq\n")
    facts = collected(tmp_path)
    assert (facts.governors, facts.scaling_driver) == (("performance", "powersave"), "acpi-cpufreq")


def test_members_of_bonds_are_told_with_their_state(tmp_path):
    """The bond's own state, which stands before its members', is not one of theirs."""
    write(
        tmp_path,
        net__bonding__bond0="Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nMII Status: up\n"
        "802.3ad info\nActive Aggregator Info:\n\tPartner Mac Address: 00:23:04:ee:be:0a\n\n"
        "Slave Interface: eth0\nMII Status: up\nSpeed: 25000 Mbps\nLink Failure Count: 3\nAggregator ID: 1\n"
        "details actor lacp pdu:\n    port state: 61\n    Aggregator ID: 7\n\n"
        "Slave Interface: eth1\nMII Status: down\nSpeed: Unknown\n",
    )
    facts = collected(tmp_path)
    assert facts.bonds == {"bond0": {"eth0": True, "eth1": False}}
    assert facts.bond_modes == {"bond0": "IEEE 802.3ad Dynamic link aggregation"}
    assert facts.bond_partners == {"bond0": "00:23:04:ee:be:0a"}
    absent = Missing("not reported", "absent")
    assert facts.bond_members == (
        BondMember("bond0", "eth0", 25000, 1, 3),
        BondMember("bond0", "eth1", absent, absent, absent),
    )


@pytest.mark.parametrize("text", ["", "MII Status: up\n", "Bonding Mode: load balancing (xor)\nMII Sta"])
def test_a_bond_whose_file_tells_nothing_is_unread(tmp_path, text):
    """It is not one whose members are all well: whoever asks for bonds has no answer."""
    write(tmp_path, net__bonding__bond0=text)
    facts = collected(tmp_path)
    assert (facts.bonds, set(facts.bonds_unread)) == ({}, {"bond0"})
    with pytest.raises(FactMissing):
        facts.needs_bonds()


@pytest.mark.parametrize(("text", "told"), [("always [madvise] never", "madvise"), ("[never]", "never")])
def test_the_choice_in_brackets_is_told(text, told):
    """The kernel lists all and marks one."""
    assert kernel.chosen(text) == told
    assert kernel.chosen("nothing chosen")["kind"] == "failed"


def test_broken_packets_are_counted_for_each_interface(tmp_path):
    """Received and sent together, without what was merely dropped."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net/dev").write_text(
        "Inter-|   Receive                            |  Transmit\n"
        " face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier x\n"
        "    lo: 10 1 0 0 0 0 0 0 10 1 0 0 0 0 0 0\n"
        "  eth0: 10 1 5 9 0 5 0 0 10 1 2 7 0 0 2 0\n"
    )
    assert kernel.link_errors(str(tmp_path), lambda: [(2, "eth0")]) == {"link_errors": {"lo": 0, "eth0": 7}}
    lost = kernel.link_errors(str(tmp_path), lambda: [(2, "eth0"), (3, "eth1")])
    assert (lost["link_errors"], "eth1" in lost["link_errors_unread"]["missing"]) == ({}, True)
    lost = kernel.link_errors(str(tmp_path / "nowhere"), list)
    assert (lost["link_errors"], lost["link_errors_unread"]["kind"]) == ({}, "absent")


@pytest.mark.parametrize("text", [None, "", "MemTotal: 16 kB\n"])
def test_memory_that_is_not_told_was_not_measured(tmp_path, text):
    """Without /proc/meminfo, or with half of it, a node is not one that has memory enough."""
    if text is not None:
        (tmp_path / "meminfo").write_text(text)
    assert kernel.memory(str(tmp_path))["memory_available_bytes"]["kind"] == "failed"


def test_why_there_are_no_drivers_is_said_in_words(tmp_path):
    """An error of the system about a file that nobody named says nothing."""
    facts = collected(tmp_path)
    assert facts.modules == Missing(f"this kernel has no {tmp_path}/modules to list its drivers", "absent")
    assert facts.is_driver_open == Missing("the NVIDIA driver is not loaded", "absent")
