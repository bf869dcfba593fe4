"""Is the node named whose kernel grants too little, or saw something break?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.kernel import BondMember, LogEvent
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy, roce
from tests.checks.samples import Broken, judge

BEST = "kernel.node_is_at_its_best"
SAME = "kernel.settings_are_the_same_on_every_node"
GIB = 1 << 30


def event(kind, text, *, age_seconds=60.0, code=0):
    """A line of the kernel's log."""
    return LogEvent(kind, code, "0000:07:00.0", age_seconds, text)


def logged(*events):
    """Four nodes, the second with these lines in its kernel's log."""
    return roce().broken("node2", "kernel", log=tuple(events))


def kernel(run=None, **fields):
    """Other values in the kernel's facts of the second of four nodes."""
    return (run or roce()).broken("node2", "kernel", **fields)


BROKEN = (
    Broken(BEST, kernel(governors=("powersave",)), ("node2",), "powersave with acpi-cpufreq"),
    Broken(BEST, kernel(memory_available_bytes=GIB, swap_used_bytes=3 * GIB), ("node2",), "3.0 GiB are swapped out"),
    Broken(BEST, kernel(hugepages_bytes=200 * GIB), ("node2",), "200.0 of 256.0 GiB of memory are set aside"),
    Broken(BEST, kernel(cgroup_cpus=4.0), ("node2",), "4 CPUs may be used here for 8 GPUs"),
    Broken(BEST, kernel(cgroup_memory_bytes=16 * GIB), ("node2",), "a quota of 16.0 GiB of memory for 8 GPUs"),
    Broken(BEST, kernel(cgroup_oom_kills=2), ("node2",), "2 processes of this control group OOM-killed"),
    Broken(BEST, kernel(bonds={"bond0": {"eth0": True, "eth1": False}}), ("node2",), "eth1 of bond0 is down"),
    Broken(
        BEST,
        kernel(
            bonds={"bond0": {"eth0": True, "eth1": True}},
            bond_modes={"bond0": "IEEE 802.3ad Dynamic link aggregation"},
            bond_members=(BondMember("bond0", "eth0", 25000, 1), BondMember("bond0", "eth1", 25000, 2)),
        ),
        ("node2",),
        "eth0 and eth1 of bond0 are in different LACP aggregators",
    ),
    Broken(
        BEST,
        kernel(
            bonds={"bond0": {"eth0": True, "eth1": True}},
            bond_modes={"bond0": "IEEE 802.3ad Dynamic link aggregation"},
            bond_partners={"bond0": "00:00:00:00:00:00"},
        ),
        ("node2",),
        "no switch speaks LACP with bond0",
    ),
    Broken(BEST, kernel(memory_overcommit=2), ("node2",), "vm.overcommit_memory is 2"),
    Broken(BEST, kernel(connections_held=0.97), ("node2",), "keeps track of 97% of the connections that it may"),
    Broken(BEST, kernel(files_held=0.93), ("node2",), "93% of the files that this machine may have open"),
    Broken(BEST, roce().broken_interface("node2", duplex="half"), ("node2",), "eth0 at half duplex"),
    Broken(BEST, kernel(clock_source="acpi_pm"), ("node2",), "clock source acpi_pm"),
    Broken(SAME, kernel(cpus_allowed=32), ("node2",), "CPUs that may be used: 64 on node[1,3-4], 32 on node2"),
    Broken(SAME, kernel(governors=("schedutil",)), ("node2",), "schedutil on node2"),
    Broken(SAME, kernel(has_iommu=False), ("node2",), "IOMMU: on on node[1,3-4], off on node2"),
    Broken(SAME, kernel(swap_total_bytes=8 * GIB), ("node2",), "swap: off on node[1,3-4], on on node2"),
    Broken(SAME, kernel(transparent_hugepages="never"), ("node2",), "never on node2"),
    Broken(SAME, kernel(hugepages_bytes=8 * GIB), ("node2",), "huge pages: 0.0 GiB on node[1,3-4], 8.0 GiB on node2"),
    Broken(SAME, kernel(cgroup_memory_bytes=64 * GIB), ("node2",), "memory quota: none on node[1,3-4], 64.0 GiB"),
    Broken(
        SAME, kernel(boot_options=("intel_iommu=on",)), ("node2",), "iommu=pt on node[1,3-4], intel_iommu=on on node2"
    ),
    Broken(
        "kernel.memory_is_the_same_on_every_node",
        roce().broken("node2", "identity", memory_bytes=192 << 30),
        ("node2",),
        "192 GiB of memory, others have 256",
    ),
    Broken(
        "kernel.log_tells_of_nothing_broken",
        logged(event("oom", "Out of memory: Killed process 4242 (python)")),
        ("node2",),
        "1 line in the kernel's log, the last: Out of memory: Killed process 4242 (python)",
    ),
    Broken(
        "kernel.log_tells_of_nothing_broken",
        logged(event("pcie", "PCIe Bus Error: severity=Uncorrected (Fatal)")),
        ("node2",),
        "PCIe Bus Error",
    ),
    Broken(
        "kernel.log_tells_of_nothing_broken",
        logged(event("rdma", "mlx5_core 0000:07:00.0: Link down")),
        ("node2",),
        "mlx5_core 0000:07:00.0: Link down",
    ),
    Broken(
        "kernel.no_process_was_killed_during_the_run",
        healthy().broken("node2", "ending", oom_kills=1),
        ("node2",),
        "1 process OOM-killed during this run",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


@pytest.mark.parametrize("driver", ["intel_pstate", "amd-pstate-epp"])
def test_powersave_of_a_driver_that_scales_is_well(driver):
    """With these drivers powersave goes to full speed under load."""
    run = roce()
    for name in run.names:
        run = run.broken(name, "kernel", governors=("powersave",), scaling_driver=driver)
    assert {finding.verdict for finding in judge(BEST, run)} == {Verdict.PASS}


def test_what_happened_long_ago_is_not_judged():
    """A line of the kernel's log that is older than a day is history."""
    old = logged(event("oom", "Out of memory: Killed process 1 (x)", age_seconds=2 * 86400.0))
    assert {finding.verdict for finding in judge("kernel.log_tells_of_nothing_broken", old)} == {Verdict.PASS}


def test_a_log_for_root_only_is_not_permitted():
    """Where the log needs a privilege that we lack, the check is skipped with that reason, on that node alone."""
    run = kernel(log=Missing("the kernel's log is for root only", "denied"))
    verdicts = {finding.nodes: finding for finding in judge("kernel.log_tells_of_nothing_broken", run)}
    assert verdicts["node2",].verdict is Verdict.SKIP
    assert verdicts["node2",].message.startswith("not permitted")
    assert verdicts["node1", "node3", "node4"].verdict is Verdict.PASS


def test_a_node_that_does_not_tell_its_end_is_not_well():
    """Without the second look nothing is known of the time between."""
    run = healthy()
    run = run.without("node2", "ending", "timed out")
    findings = {f.nodes: f.verdict for f in judge("kernel.no_process_was_killed_during_the_run", run)}
    assert findings["node2",] is Verdict.ERROR


def test_a_kernel_that_differs_by_little_memory_is_well():
    """What the firmware keeps for itself differs from board to board."""
    run = roce()
    run = run.broken("node2", "identity", memory_bytes=int((1 << 38) * 0.98))
    findings = judge("kernel.memory_is_the_same_on_every_node", run)
    assert {finding.verdict for finding in findings} == {Verdict.PASS}
