"""Is each name of a table known by which facts are judged, and no other one?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from preflight.facts.subjects.gpu import Gpus
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import FakeRun, infiniband, roce
from tests.checks.samples import judge

NOT_TOLD = Missing("older drivers have no summary", "absent")
KERNEL = "kernel.node_is_at_its_best"


def with_status(**fields: object) -> FakeRun:
    """What the driver tells of the first GPU of node2."""
    gpus = roce().facts("node2", "gpu", Gpus).devices
    assert isinstance(gpus, tuple)
    return roce().broken_gpu("node2", status=replace(gpus[0].status, **fields))


TABLES: dict[str, tuple[Callable[[str], FakeRun], str, str]] = {
    "gpu.none_is_held_back": (
        lambda word: with_status(slowdowns=(word,)),
        """
        hw_slowdown hw_thermal_slowdown hw_power_brake_slowdown sw_thermal_slowdown socket_thermal prochot vr_thermal
        hbm_thermal
        """,
        "gpu_idle sw_power_cap",
    ),
    "gpu.none_is_broken": (
        lambda word: with_status(fabric_health=NOT_TOLD, fabric_faults=(word.replace("_", " "),)),
        "route_unhealthy incorrect_configuration",
        "access_timeout_recovery",
    ),
    "rdma.ports_are_sound": (
        lambda word: infiniband().broken_rdma_port("node2", physical_state=word),
        "LinkErrorRecovery PortConfigurationTraining Polling Sleep",
        "LinkUp",
    ),
    KERNEL: (
        lambda word: roce().broken("node2", "kernel", clock_source=word),
        "hpet acpi_pm jiffies pit",
        "tsc kvm-clock arch_sys_counter hyperv_clocksource_tsc_page",
    ),
    f"{KERNEL}: frequency": (
        lambda word: roce().broken("node2", "kernel", governors=("powersave",), scaling_driver=word),
        "acpi-cpufreq cppc_cpufreq",
        "intel_pstate amd-pstate-epp",
    ),
}


def is_blamed(table: str, run: FakeRun) -> bool:
    """Does the check of a table blame node2?"""
    found = judge(table.partition(":")[0], run)
    return any(one.verdict in (Verdict.FAIL, Verdict.WARN) and "node2" in one.nodes for one in found)


@pytest.mark.parametrize(
    ("table", "word"), [(name, word) for name, (_, bad, _) in TABLES.items() for word in bad.split()]
)
def test_what_a_table_lists_is_blamed(table, word):
    """As the driver, the kernel or sysfs writes it."""
    assert is_blamed(table, TABLES[table][0](word))


@pytest.mark.parametrize(
    ("table", "word"), [(name, word) for name, (_, _, good) in TABLES.items() for word in good.split()]
)
def test_what_is_usual_is_not(table, word):
    """It is no fault, though it stands in the same place."""
    assert not is_blamed(table, TABLES[table][0](word))
