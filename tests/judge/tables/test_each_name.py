"""Is each name of a table known by which facts are judged, and no other one?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from preflight.facts.subjects.ending import Ending, PortEnd
from preflight.facts.subjects.gpu import Gpus
from preflight.facts.subjects.kernel import LogEvent
from preflight.facts.subjects.software import Software
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


def counted(word: str) -> FakeRun:
    """One counter of the first port of node2 goes from 5 to 7 while preflight runs."""
    run = roce().broken_rdma_port("node2", counters={word: 5})
    ports = run.facts("node2", "ending", Ending).ports
    return run.broken("node2", "ending", ports={**ports, "mlx5_0:1": PortEnd("ACTIVE", {word: 7})})


def refused(run: FakeRun, word: str) -> FakeRun:
    """A module that the kernel of node2 has refused, and that is not loaded."""
    line = f"{word}: disagrees about version of symbol ib_register_device"
    return run.broken("node2", "kernel", log=(LogEvent("module", 0, word, 60.0, line),), modules=("ext4",))


LOG = "kernel.log_tells_of_nothing_broken"
NO_GPUS = Missing("nvidia-smi printed no XML: No devices were found")


def installed(word: str) -> FakeRun:
    """A package that the other nodes do not have."""
    held = roce().facts("node2", "software", Software).packages
    return roce().broken("node2", "software", packages={**held, word: "9.9"})


def queued(word: str) -> FakeRun:
    """The qdisc of an interface of node2, where the others have mq."""
    run = roce()
    for name in run.names:
        run = run.broken_interface(name, queue=word if name == "node2" else "mq")
    return run


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
    "rdma.no_errors_were_counted_during_the_run": (
        counted,
        """
        symbol_error link_error_recovery port_rcv_errors port_rcv_remote_physical_errors local_link_integrity_errors
        excessive_buffer_overrun_errors port_xmit_constraint_errors port_rcv_constraint_errors port_xmit_discards
        local_ack_timeout_err packet_seq_err rnr_nak_retry_err req_cqe_error resp_cqe_error rx_icrc_encapsulated
        out_of_buffer to_retransmits seq_err_naks_rcvd max_retry_exceeded unrecoverable_err oos_drop_count
        rx_roce_error_pkts rx_roce_discard_pkts tx_roce_errors rx_out_of_buffer rx_out_of_sequence
        req_tx_retry_excd_err req_rx_rnr_retry_err tx_rdma_ack_timeout resp_rx_outof_buf resp_rx_outof_seq
        rx_rdma_mtu_discard_pkts retrans_timeout_events unresponsive_remote_events impaired_remote_conn_events
        no_completion_cmds
        """,
        "port_xmit_wait port_xmit_data np_cnp_sent rp_cnp_handled roce_slow_restart out_of_sequence",
    ),
    "software.environments_are_the_same_on_every_node": (
        installed,
        "einops",
        "pip setuptools wheel virtualenv uv distribute conda mamba",
    ),
    "kernel.settings_are_the_same_on_every_node": (
        queued,
        "tbf netem htb hfsc cbq cake plug",
        "fq_codel fq pfifo_fast noqueue",
    ),
    f"{LOG}: adapters": (
        lambda word: refused(roce().broken("node2", "rdma", devices=(), without_driver=()), word),
        "ib_core ib_uverbs mlx5_core mlx5_ib mlx4_ib bnxt_re irdma efa hfi1 ionic_rdma",
        "snd_hda_intel vboxdrv",
    ),
    f"{LOG}: GPUs": (
        lambda word: refused(roce().broken("node2", "gpu", devices=NO_GPUS), word),
        "nvidia amdgpu amdkcl amdttm amd_sched amddrm_ttm_helper amddrm_buddy amdxcp",
        "snd_hda_intel vboxdrv",
    ),
    f"{LOG}: memory of GPUs": (
        lambda word: refused(roce().broken("node2", "kernel", is_driver_open=False), word),
        "nvidia_peermem nv_peer_mem efa_nv_peermem",
        "snd_hda_intel vboxdrv",
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
