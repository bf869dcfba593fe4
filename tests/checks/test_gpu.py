"""Is the node with fewer, other or unreadable GPUs named?"""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from preflight.facts.subjects.gpu import Gpus, Links
from preflight.facts.subjects.gpus.engine import NOT_TOLD, Group
from preflight.facts.subjects.gpus.status import GpuStatus
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.judge.tables.gpus import broken, log, pcie_paths, readiness, slowed
from preflight.judge.tables.kernel import fragile
from preflight.judge.tables.kernel import log as kernel_log
from preflight.said.errors import FactMissing, NotApplicable
from preflight.testing import infiniband, roce
from preflight.testing.hardware import gpus, topology
from preflight.testing.healthy import in_one_domain
from tests.checks.gpu_samples import (
    FUNCTION,
    counted_at_the_end,
    ended,
    ended_with,
    imex,
    logged,
    over_pcie,
    refused,
    second,
    with_gpus,
    xid,
)
from tests.checks.samples import Broken, judge

HALVES = "gpu.none_is_broken", "gpu.none_is_held_back"


def row(check, words, **fields):
    """A row of a table of GPU faults, as GPU 0 of the second node shows it."""
    return Broken(check, second(**fields), ("node2",), f"GPU 0 (0000:00:00.0): {words}")


RESERVED = "gpu.none_is_reserved_for_others"


def group(**fields):
    """Two GPUs of a placement group."""
    known = {"name": "verl_pool", "id": "e300084fb5c605e5eb345008bd3508000000", "job": "08000000", "state": "CREATED"}
    return Group(**{**known, "gpus": 2.0, "is_own": False, **fields})


def reserved(*groups, taken=None):
    """A cluster where Ray reserved GPUs of the second node."""
    total = sum(one.gpus for one in groups) if taken is None else taken
    return roce().broken("node2", "engine", groups=groups, taken=total)


REACH = "gpu.gpus_reach_each_others_memory"
BROKEN = (
    Broken(
        REACH,
        refused("NS"),
        ("node2",),
        "no peer access between GPUs that NVLink joins: GPU 0 and 1 (NS: not supported)",
    ),
    Broken(
        "gpu.nvlinks_counted_no_errors_during_the_run",
        ended(**{"link 3: Recovery Errors": 2, "link 4: CRC Errors": 12}),
        ("node2",),
        "GPU 0 (0000:00:00.0): link 3: Recovery Errors grew by 2",
    ),
    Broken(
        "gpu.none_broke_during_the_run",
        ended_with("xid", 79, "NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus."),
        ("node2",),
        "Xid 79 (GPU has fallen off the bus) of 0000:07:00",
    ),
    row(HALVES[0], "3 memory errors that could not be corrected", uncorrected_errors=3),
    row(HALVES[0], "a broken row of memory could not be remapped", has_remapping_failed=True),
    row(HALVES[0], "the remapping of a broken row of memory is pending", is_remapping_pending=True),
    row(HALVES[0], "the retirement of a broken page is pending", is_retirement_pending=True),
    row(HALVES[0], "its memory cannot be repaired", is_memory_beyond_repair=True),
    row(HALVES[0], "more SRAM errors than its vendor allows", is_sram_worn=True),
    row(HALVES[0], "the driver asks for a reset", needs_reset=True),
    row(HALVES[0], "61 pages retired", pages_retired=61),
    row(HALVES[0], "512 rows remapped", rows_remapped=512),
    row(HALVES[0], "the driver asks for: Reboot", recovery="Reboot"),
    row(HALVES[0], "it has not joined the NVLink fabric: In Progress", fabric_state="In Progress"),
    row(HALVES[0], "it joined the NVLink fabric with an error: Unknown", fabric_status="Unknown"),
    Broken(HALVES[0], with_gpus(*gpus(8, compute_mode="Prohibited")), ("node2",), "compute mode Prohibited"),
    row(HALVES[1], "thermal slowdown: its clock is reduced", slowdowns=("hw_thermal_slowdown", "sw_thermal_slowdown")),
    row(HALVES[1], "power brake: its clock is reduced", slowdowns=("hw_power_brake_slowdown",)),
    Broken(HALVES[1], with_gpus(*gpus(8, compute_mode="Exclusive_Process")), ("node2",), "mode Exclusive_Process"),
    row(HALVES[1], "ECC will be off after a reboot, and is on", has_ecc_pending=False),
    row(HALVES[1], "MIG will be Enabled after a reset, and is Disabled", mig_pending="Enabled"),
    row(HALVES[1], "the driver recommends to drain and reset it", is_drain_recommended=True),
    row(HALVES[1], "its vGPU license says: Unlicensed (Restricted)", licence="Unlicensed (Restricted)"),
    row(HALVES[1], "a repair of its memory is pending", is_repair_pending=True),
    row(HALVES[0], "its NVLink fabric is unhealthy", fabric_health="Unhealthy"),
    row(
        HALVES[0],
        "its NVLink fabric is unhealthy (route unhealthy: True)",
        fabric_health="Unhealthy",
        fabric_faults=("route unhealthy: True",),
    ),
    row(
        HALVES[0],
        "its NVLink fabric is unhealthy (incorrect configuration: Incorrect SystemGUID)",
        fabric_health=Missing("no summary", "absent"),
        fabric_faults=("incorrect configuration: Incorrect SystemGUID",),
    ),
    row(HALVES[1], "its NVLink fabric says: Limited Capacity", fabric_health="Limited Capacity"),
    row(
        HALVES[1],
        "its NVLink fabric says: bandwidth: Degraded",
        fabric_health=Missing("no summary", "absent"),
        fabric_faults=("bandwidth: Degraded",),
    ),
    row(HALVES[0], "its driver gets no answer: power_draw: GPU is lost", unanswered=("power_draw: GPU is lost",)),
    row(
        HALVES[0],
        "its driver gets no answer: total: Unknown Error, used: Unknown Error, free: Unknown Error and 1 more",
        unanswered=tuple(f"{name}: Unknown Error" for name in ("total", "used", "free", "power_draw")),
    ),
    row(HALVES[1], "a power limit of 500 W, where 700 W is its default", power_limit_watts=500.0),
    row(HALVES[1], "20000000 corrected memory errors", corrected_errors=20_000_000),
    row(HALVES[1], "2 banks of its memory have no spare row left", banks_without_spare_rows=2),
    row(HALVES[1], "3 banks of its memory have one spare row left", banks_with_one_spare_row=3),
    row(HALVES[1], "its InfoROM is corrupted", is_inforom_corrupted=True),
    row(HALVES[1], "its memory is too hot: its clock is reduced", slowdowns=("hbm_thermal", "ppt")),
    row(HALVES[1], "11 pages retired for errors", pages_retired=11),
    row(HALVES[1], "2 memory errors that are reported only when a program reads there", deferred_errors=2),
    row(HALVES[1], "85 °C before the job, and it slows down at 87", temperature_celsius=85.0),
    row(HALVES[1], "its memory is at 93 °C before the job, and slows down at 95", memory_celsius=93.0),
    row(HALVES[1], "clocks for applications are set to 1200 MHz, where 1980 is the default", clock_mhz=1200.0),
    row(HALVES[1], "performance level LOW: its clocks are held down", performance_level="LOW"),
    row(HALVES[1], "its xGMI links report MULTIPLE_ERRORS", link_fault="MULTIPLE_ERRORS"),
    row(HALVES[1], "PCIe generation 3 at work, where 5 is possible", pcie_generation=3),
    Broken(
        HALVES[1],
        with_gpus(*gpus(8, pci=FUNCTION._replace(width=8))),
        ("node2",),
        "GPU 0, 1, 2, 3, 4, 5, 6, 7: PCIe x8 in a slot for x16",
    ),
    Broken(
        "gpu.settings_are_the_same_on_every_node",
        second(power_limit_watts=500.0),
        ("node2",),
        "power limit: 700 W on node[1,3-4], 500 W, 700 W on node2",
    ),
    Broken(
        "gpu.settings_are_the_same_on_every_node",
        second(is_persistent=False),
        ("node2",),
        "persistence mode: on on node[1,3-4], off, on on node2",
    ),
    Broken("gpu.settings_are_the_same_on_every_node", second(has_ecc=False), ("node2",), "ECC: on on node[1,3-4]"),
    Broken(
        "gpu.settings_are_the_same_on_every_node",
        second(pcie_generation_max=4),
        ("node2",),
        "largest PCIe generation: 5 on node[1,3-4], 4, 5 on node2",
    ),
    Broken("gpu.settings_are_the_same_on_every_node", second(vbios="96.00.1"), ("node2",), "96.00.1, 96.00.A5.00.03"),
    Broken("gpu.settings_are_the_same_on_every_node", second(pcie_width=8), ("node2",), "8 lanes, 16 lanes on node2"),
    Broken("gpu.none_is_partitioned", with_gpus(*gpus(8, mig_mode="Enabled")), ("node2",), "MIG mode"),
    Broken(
        "gpu.driver_runs_the_cuda_of_torch",
        roce().broken("node2", "gpu", cuda_driver="12.4", driver="550.54"),
        ("node2",),
        "torch is built for CUDA 13.0; driver 550.54 runs CUDA 12.4 at most",
    ),
    Broken(
        "gpu.torch_has_code_for_them",
        roce().broken("node2", "software", torch_cuda="11.7"),
        ("node2",),
        "torch is built for CUDA 11.7; NVIDIA H200 needs CUDA >=11.8",
    ),
    Broken(
        "gpu.torch_has_code_for_them",
        with_gpus(*gpus(8, name="Tesla V100-SXM2-32GB")),
        ("node2",),
        "torch is built for CUDA 13.0; Tesla V100-SXM2-32GB needs CUDA <13",
    ),
    Broken(
        "gpu.fabric_manager_runs_where_it_is_needed",
        with_gpus(*gpus(8, status=GpuStatus()), fabric_manager=False),
        ("node2",),
        "4 NVSwitches, and nvidia-fabricmanager does not run",
    ),
    Broken("gpu.nvlinks_are_up", with_gpus(*gpus(8, links=Links(17, 1))), ("node2",), "1 NVLinks are inactive, 17"),
    Broken(
        "gpu.nvlinks_are_up",
        with_gpus(*gpus(8, links=Links(0, 1))),
        ("node2",),
        "GPU 0 (0000:00:00.0): all NVLinks are inactive",
    ),
    Broken(
        "gpu.nvlinks_are_up",
        with_gpus(*gpus(1, links=Links(17, 0)), *gpus(8)[1:]),
        ("node2",),
        "GPU 0 (0000:00:00.0): 17 NVLinks are active, 18 on others",
    ),
    Broken(
        "gpu.nvlinks_are_up",
        with_gpus(*gpus(8, links=Links(12, 0))),
        ("node2",),
        "active NVLinks of the GPUs: 18 on node[1,3-4], 12 on node2",
    ),
    Broken(
        "gpu.imex_joins_an_nvlink_domain",
        infiniband().broken("node2", "gpu", imex_channels=0),
        ("node2",),
        "there is no IMEX channel",
    ),
    Broken(
        "gpu.firmware_is_the_same_on_every_node",
        roce().broken("node2", "gpu", devices=gpus(8, status=GpuStatus(firmware=(("GSP", "none"),)))),
        ("node2",),
        "GPU firmware of GSP: 580.95 on node[1,3-4], none on node2",
    ),
    Broken(
        "gpu.none_counted_pcie_errors_during_the_run",
        counted_at_the_end("fatal", 1),
        ("node2",),
        "GPU at 0000:00:00.0: PCIe errors, fatal grew by 1",
    ),
    Broken("gpu.imex_joins_an_nvlink_domain", imex(is_running=False), ("node2",), "nvidia-imex does not run"),
    Broken("gpu.imex_joins_an_nvlink_domain", imex(state="DOWN"), ("node2",), "its IMEX is not ready: domain DOWN"),
    Broken(
        "gpu.imex_joins_an_nvlink_domain",
        imex(state="DEGRADED", not_ready=("10.0.0.2 WAITING_FOR_PEERS",)),
        ("node2",),
        "domain DEGRADED, 10.0.0.2 WAITING_FOR_PEERS",
    ),
    Broken(
        "gpu.imex_joins_an_nvlink_domain",
        imex(nodes=("10.0.0.1", "10.0.0.3")),
        ("node2",),
        "does not name the node itself; nodes_config.cfg of IMEX in the NVLink domain 9b2f7f6e",
    ),
    Broken(
        "gpu.an_nvlink_domain_is_of_one_clique",
        infiniband().broken("node2", "gpu", devices=in_one_domain(roce().facts("node2", "gpu", Gpus), clique="32765")),
        ("node2",),
        "32766 on node[1,3-4], 32765 on node2",
    ),
    Broken(
        "gpu.settings_are_the_same_on_every_node",
        roce().broken("node2", "gpu", devices=gpus(8, pci=FUNCTION)),
        ("node2",),
        "NUMA nodes of the GPUs: 0, 0, 0, 0, 1, 1, 1, 1 on node[1,3-4], 0, 0, 0, 0, 0, 0, 0, 0 on node2",
    ),
    Broken(
        "gpu.kernel_log_tells_of_no_broken_gpu",
        logged("sxid", 20034, "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"),
        ("node2",),
        "NVSwitch error (SXid) 20034, Fatal, Link 30 LTSSM Fault Up of 0000:07:00",
    ),
    Broken("gpu.kernel_log_tells_of_no_broken_gpu", xid(79), ("node2",), "Xid 79 (GPU has fallen off the bus) of 0000"),
    Broken(
        "gpu.adapters_are_as_near_on_every_node",
        roce().broken("node2", "gpu", topology=topology(8, nearest=(0, 0, 2, 3, 4, 5, 6, 7))),
        ("node2",),
        "mlx5_0 is nearest to GPU0 and GPU1",
    ),
    Broken(
        "gpu.adapters_are_as_near_on_every_node",
        roce().broken("node2", "gpu", topology=topology(8, nearest=(1, 0, 2, 3, 4, 5, 6, 7))),
        ("node2",),
        "GPU0 mlx5_1; GPU1 mlx5_0",
    ),
    Broken(
        "gpu.iommu_leaves_peer_to_peer_alone",
        over_pcie(iommu="DMA-FQ"),
        ("node2",),
        "the IOMMU translates what GPUs send each other over PCIe (the kernel was started with iommu=pt)",
    ),
    Broken(
        "gpu.acs_leaves_peer_to_peer_alone",
        over_pcie(redirecting_bridges=("0000:00:01.0",)),
        ("node2",),
        "ACS of 0000:00:01.0 redirects what devices send each other to the root complex",
    ),
    Broken(
        "gpu.devices_are_readable",
        roce().broken("node2", "gpu", devices=Missing("Driver/library version mismatch")),
        ("node2",),
        "the GPUs cannot be read: Driver/library version mismatch",
    ),
    Broken(
        "gpu.every_gpu_on_the_bus_is_listed",
        roce().broken("node2", "gpu", devices=gpus(7)),
        ("node2",),
        "8 GPUs on the PCI bus, and the driver lists 7: not 0000:07:00.0",
    ),
    Broken(
        "gpu.every_gpu_on_the_bus_is_listed",
        roce(1).broken("node1", "gpu", devices=gpus(7), on_bus=tuple(f"0000:{i:02x}:00.0" for i in range(7))),
        ("node1",),
        "7 GPUs, where a board with NVSwitches has 8",
    ),
    Broken(
        "gpu.every_gpu_on_the_bus_is_listed",
        roce().broken(roce().names, "gpu", devices=(), switches=0),
        roce().names,
        "8 GPUs on the PCI bus, and the driver lists none",
    ),
    Broken(
        "gpu.count_is_the_same_on_every_node",
        roce().broken("node2", "gpu", devices=gpus(4), on_bus=Missing("a container", "absent"), switches=0),
        ("node2",),
        "number of GPUs: 8 on node[1,3-4], 4 on node2",
    ),
    Broken(
        "gpu.count_is_the_same_on_every_node",
        roce().with_variables("node2", CUDA_VISIBLE_DEVICES="0,1"),
        ("node2",),
        "number of GPUs that the job sees: 8 on node[1,3-4], 2 on node2",
    ),
    Broken(
        "gpu.visible_devices_exist",
        roce().with_variables("node2", CUDA_VISIBLE_DEVICES="0,1,8"),
        ("node2",),
        "CUDA_VISIBLE_DEVICES=0,1,8: of 8 GPUs none is 8 (set by --env)",
    ),
    Broken(
        "gpu.model_is_the_same_on_every_node",
        roce().broken("node2", "gpu", devices=gpus(8, name="NVIDIA A100", memory_mib=81920)),
        ("node2",),
        "NVIDIA A100 81920 MiB on node2",
    ),
    Broken(
        "gpu.model_is_the_same_on_every_node",
        roce().broken("node2", "gpu", devices=gpus(8, mig_mode="Enabled")),
        ("node2",),
        "in MIG mode on node2",
    ),
    Broken(
        "gpu.no_other_program_uses_them",
        second(memory_used_mib=60_000),
        ("node2",),
        "memory of GPU 0 (0000:00:00.0) is held by programs that cannot be seen from here",
    ),
    Broken(
        "gpu.no_other_program_uses_them",
        roce().broken("node2", "gpu", devices=gpus(8, processes=1)),
        ("node2",),
        "other programs use GPU 0, 1",
    ),
    Broken(
        RESERVED,
        reserved(group(gpus=4.0), group(name="", gpus=2.5, state="RESCHEDULING")),
        ("node2",),
        "Ray reserved 6.5 of 8 GPUs: placement group verl_pool (e300084fb5c605e5eb345008bd3508000000, CREATED, "
        "job 08000000), e300084fb5c605e5eb345008bd3508000000 (RESCHEDULING, job 08000000)",
    ),
    Broken(
        RESERVED,
        reserved(group(is_own=True), taken=3.0),
        ("node2",),
        "Ray gave 1 of 8 GPUs to actors or tasks outside of placement groups",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_a_group_of_the_job_within_which_preflight_runs_is_no_fault():
    """As that of a job that gates itself."""
    assert {one.verdict for one in judge(RESERVED, reserved(group(is_own=True)))} == {Verdict.PASS}


def test_what_a_ray_does_not_tell_is_not_free():
    """Of an older one: it is said what is not known, and what is known is judged all the same."""
    unknown = Missing("this Ray does not say: AttributeError()", "absent")
    run = roce().broken(roce().names, "engine", taken=unknown)
    (found,) = judge(RESERVED, run)
    assert (found.verdict, "actors and tasks" in found.message) == (Verdict.PASS, True)
    warned = judge(RESERVED, run.broken("node2", "engine", groups=(group(),)))
    assert {one.nodes for one in warned if one.verdict is Verdict.WARN} == {("node2",)}
    (found,) = judge(RESERVED, run.broken(run.names, "engine", groups=unknown))
    assert found.verdict is Verdict.SKIP


def test_nodes_that_no_engine_led_to_are_not_asked():
    """Over ssh, or where Ray was told of no GPU; beside nodes of Ray too."""
    nobody = roce().without(roce().names, "engine", NOT_TOLD.missing, kind=NOT_TOLD.kind)
    (found,) = judge(RESERVED, nobody)
    assert (found.verdict, "no engine counts GPUs" in found.message) == (Verdict.SKIP, True)
    (found,) = judge(RESERVED, roce().broken(roce().names, "engine", gpus=0.0))
    assert found.verdict is Verdict.SKIP
    mixed = judge(RESERVED, roce().without("node1", "engine", NOT_TOLD.missing, kind=NOT_TOLD.kind))
    assert {name: one.verdict for one in mixed for name in one.nodes} == {
        **dict.fromkeys(roce().names, Verdict.PASS),
        "node1": Verdict.SKIP,
    }


def test_a_missing_gpu_is_not_another_model():
    """A GPU that fell off the bus is told by the count alone."""
    run = roce().broken("node2", "gpu", devices=gpus(7))
    assert {f.verdict for f in judge("gpu.model_is_the_same_on_every_node", run)} == {Verdict.PASS}


def test_unreadable_gpus_are_not_counted_as_none():
    """Where nvidia-smi fails, the count of that node is not measured."""
    run = roce().broken("node2", "gpu", devices=Missing("timed out"))
    verdicts = {f.nodes: f.message for f in judge("gpu.count_is_the_same_on_every_node", run)}
    assert verdicts["node2",].startswith("blocked by gpu.devices_are_readable")


TABLES = (broken.BROKEN, slowed.SLOWED, readiness.DRIVER, readiness.FABRIC, log.LOG, readiness.BUSY)


@pytest.mark.parametrize("fault", [*broken.BROKEN, *slowed.SLOWED], ids=lambda fault: fault.name)
def test_every_row_is_shown_broken(fault):
    """A row of the tables that no broken cluster shows is not merged."""
    devices = [gpu for broken in BROKEN if broken.name in HALVES for gpu in _second(broken)]
    assert any(fault.message(gpu) for gpu in devices if _tells(fault, gpu))


def _second(broken):
    devices = broken.run.subjects["node2"]["gpu"].devices
    return devices if isinstance(devices, tuple) else ()


def _tells(fault, gpu):
    try:
        fault.message(gpu)
    except (FactMissing, NotApplicable):
        return False
    return True


@pytest.mark.parametrize("table", [*TABLES, pcie_paths.IOMMU, pcie_paths.ACS, fragile.FRAGILE, kernel_log.LOG])
def test_every_row_has_its_source(table):
    """Who a row is from can be looked up."""
    assert all(row.name and row.source for row in table)


def test_a_cap_that_all_nodes_have_alike_is_told_of_all():
    """A power limit below the GPU's own default slows a job down as well where no node differs."""
    run = roce()
    first, *_ = gpus(1)
    capped = gpus(8, status=msgspec.structs.replace(first.status, power_limit_watts=500.0))
    for name in run.names:
        run = run.broken(name, "gpu", devices=capped)
    (warning,) = [one for one in judge("gpu.none_is_held_back", run) if one.verdict is Verdict.WARN]
    assert warning.nodes == tuple(run.names)
    assert "a power limit of 500 W, where 700 W is its default" in warning.message


def test_an_idle_gpu_lets_its_link_sleep():
    """A low PCIe generation says nothing while the GPU idles."""
    run = second(pcie_generation=1, performance_state="P8")
    assert {f.verdict for f in judge("gpu.none_is_held_back", run)} == {Verdict.PASS}


def test_what_no_gpu_tells_is_not_asked():
    """GPUs that tell nothing of themselves make the check not applicable, not green."""
    run = roce()
    for name in run.names:
        run = run.broken(name, "gpu", devices=gpus(8, status=GpuStatus(), compute_mode=Missing("none", "absent")))
    assert {f.verdict for f in judge("gpu.none_is_broken", run)} == {Verdict.SKIP}


def test_a_value_that_could_not_be_read_is_no_pass():
    """A figure that the driver answers with an error leaves the node unjudged."""
    findings = {f.nodes: f for f in judge("gpu.none_is_broken", second(uncorrected_errors=Missing("ERR!")))}
    assert findings["node2",].verdict is Verdict.ERROR
    assert findings["node1", "node3", "node4"].verdict is Verdict.PASS


def test_a_text_that_was_cut_short_is_not_measured():
    """An answer that did not come whole says nothing of the GPUs: error, here and on the checks that wait for it."""
    run = roce().broken("node2", "gpu", devices=Missing("nvidia-smi counts 8 GPUs and describes 1"))
    for name in ("gpu.devices_are_readable", "gpu.none_is_broken", "gpu.count_is_the_same_on_every_node"):
        assert {f.nodes: f.verdict for f in judge(name, run)}["node2",] is Verdict.ERROR


def test_one_figure_that_the_driver_cannot_read_is_no_fault():
    """Healthy GPUs of some drivers answer one question with an error."""
    status = msgspec.structs.replace(gpus(1)[0].status, unanswered=("addressing_mode: Unknown Error",))
    findings = judge("gpu.none_is_broken", with_gpus(*gpus(8, status=status)))
    assert {f.verdict for f in findings} == {Verdict.PASS}


@pytest.mark.parametrize("without", ["status", "one GPU"])
def test_what_one_node_does_not_report_is_no_pass_there(without):
    """Others of its model report it: that node is not measured, and no other is in doubt."""
    devices = gpus(8, status=GpuStatus()) if without == "status" else (*gpus(1, status=GpuStatus()), *gpus(8)[1:])
    for check in ("gpu.none_is_broken", "gpu.none_is_held_back", "gpu.settings_are_the_same_on_every_node"):
        findings = {f.nodes: f.verdict for f in judge(check, with_gpus(*devices))}
        assert findings["node2",] is Verdict.ERROR
        assert findings["node1", "node3", "node4"] is Verdict.PASS


def test_links_that_could_not_be_asked_for_are_no_pass():
    """nvidia-smi nvlink that fails is not a GPU without NVLink, on one node alone either."""
    run = roce(1).broken("node1", "gpu", devices=gpus(8, links=Missing("nvidia-smi nvlink -s timed out")))
    assert [f.verdict for f in judge("gpu.nvlinks_are_up", run)] == [Verdict.ERROR]


def test_a_driver_that_is_gone_is_a_warning_where_gloo_was_asked_for():
    """Such a job uses no GPU."""
    run = dataclasses.replace(roce().broken(roce().names, "gpu", devices=()), backend="gloo")
    assert {f.verdict for f in judge("gpu.every_gpu_on_the_bus_is_listed", run)} == {Verdict.WARN}


def test_a_card_without_its_bridge_has_inactive_links():
    """A PCIe card may have NVLinks that lead nowhere."""
    run = roce()
    for name in run.names:
        run = run.broken(name, "gpu", devices=gpus(8, name="NVIDIA H100 PCIe", links=Links(0, 12)), switches=0)
    assert {f.verdict for f in judge("gpu.nvlinks_are_up", run)} == {Verdict.PASS}


def bridged(*lacking, links):
    """Four workstations of two cards each that a bridge joins, some of which have other links."""
    run = roce()
    for name in run.names:
        held = links if name in lacking else Links(4, 0)
        cards = (*gpus(1, name="NVIDIA GeForce RTX 3090", links=held),
                 *gpus(2, name="NVIDIA GeForce RTX 3090", links=Links(4, 0))[1:])  # fmt: skip
        run = run.broken(name, "gpu", devices=cards, switches=0)
    return run


@pytest.mark.parametrize(
    ("links", "words"),
    [
        (Links(3, 1), "GPU 0 (0000:00:00.0): 1 NVLinks are inactive"),
        (Links(0, 1), "GPU 0 (0000:00:00.0): all NVLinks are"),
    ],
)
def test_cards_whose_equals_have_their_bridge_have_no_inactive_links(links, words):
    """Of a pair whose bridge is loose the GPU is named, and the node alone, be it one of two."""
    for run in (bridged("node2", links=links), bridged("node2", "node4", links=links)):
        found = [one for one in judge("gpu.nvlinks_are_up", run) if one.verdict is Verdict.FAIL]
        assert {name for one in found for name in one.nodes} <= {"node2", "node4"}
        assert all(words in one.message for one in found)
        assert found


def test_the_one_node_with_a_bridge_makes_no_fault_of_the_others():
    """Most have cards without: the number of links differs, and that is what is said."""
    run = bridged("node1", "node2", "node3", links=Links(0, 4))
    assert not any("inactive" in one.message for one in judge("gpu.nvlinks_are_up", run))


def test_imex_of_nodes_that_are_no_part_of_the_job_is_a_warning():
    """The domain misses a tray that the job does not use."""
    (found,) = warned("gpu.imex_joins_an_nvlink_domain", imex(state="DEGRADED", not_ready=("10.9.9.9 UNAVAILABLE",)))
    assert found.nodes == ("node2",)
    assert "is DEGRADED: 10.9.9.9 UNAVAILABLE" in found.message


def test_imex_that_no_job_uses_is_a_warning():
    """With NCCL_MNNVL_ENABLE=0 ranks start, and go by the network."""
    off = imex(is_running=False).with_variables(NCCL_MNNVL_ENABLE="0")
    assert [one.nodes for one in warned("gpu.imex_joins_an_nvlink_domain", off)] == [("node2",)]


@pytest.mark.parametrize("field", ["is_running", "nodes", "state", "not_ready"])
@pytest.mark.parametrize("kind", ["absent", "denied", "failed"])
def test_imex_that_one_node_does_not_tell_of_is_no_pass_there(field, kind):
    """And no fault of the others, which tell."""
    found = judge("gpu.imex_joins_an_nvlink_domain", imex(**{field: Missing("it does not say", kind)}))
    verdicts = {name: one.verdict for one in found for name in one.nodes}
    assert verdicts == {**dict.fromkeys(imex().names, Verdict.PASS), "node2": Verdict.ERROR}


def warned(name, run):
    """The warnings of a check, which fails nobody."""
    found = judge(name, run)
    assert Verdict.FAIL not in {one.verdict for one in found}
    return [one for one in found if one.verdict is Verdict.WARN]
