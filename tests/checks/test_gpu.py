"""Is the node with fewer, other or unreadable GPUs named?"""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from preflight.errors import FactMissing, NotApplicable
from preflight.facts.subjects.ending import Ending, LinksEnd
from preflight.facts.subjects.gpu import Gpus, GpuStatus, LinkErrors, Links, PciFunction, Topology
from preflight.facts.subjects.kernel import LogEvent
from preflight.facts.value import Missing
from preflight.ledger.findings import Verdict
from preflight.tables import gpu_faults, kernel_faults
from preflight.testing import infiniband, roce
from preflight.testing.hardware import gpus, topology
from preflight.testing.healthy import in_one_domain
from tests.checks.samples import Broken, judge

HALVES = "gpu.none_is_broken", "gpu.none_is_held_back"
FUNCTION = PciFunction("pci0000:00/0000:00:01.0/0000:07:00.0", 0, 16, 16, 32.0, 32.0, "identity", ())


def second(**fields):
    """Four nodes; GPU 0 of the second has other values in its status."""
    first, *rest = gpus(8)
    return with_gpus(msgspec.structs.replace(first, status=msgspec.structs.replace(first.status, **fields)), *rest)


def with_gpus(*devices, **fields):
    """Four nodes, the second with these GPUs."""
    return roce().broken("node2", "gpu", devices=tuple(devices), **fields)


def over_pcie(**fields):
    """Four nodes; the second's GPUs have no NVLink, and these values in their PCI facts."""
    function = FUNCTION._replace(**fields)
    return with_gpus(*gpus(8, pci=function, name="NVIDIA L40S"), topology=Missing("none", "absent"))


def row(check, words, **fields):
    """A row of a table of GPU faults, as GPU 0 of the second node shows it."""
    return Broken(check, second(**fields), ("node2",), f"GPU 0: {words}")


def xid(code):
    """Four nodes; the second's log has this Xid, an hour ago."""
    return logged("xid", code, f"NVRM: Xid (PCI:0000:07:00): {code}, ...")


def logged(kind, code, text):
    """Four nodes; the second's log has this line, an hour ago."""
    return roce().broken("node2", "kernel", log=(LogEvent(kind, code, "0000:07:00", 3600.0, text),))


def ended(*, links=18, **counted):
    """Four nodes; the links of the first GPU of the second have counted this at the end of the run."""
    first = LinksEnd("GPU-0", LinkErrors(links, 3 * links, counted))
    _, *rest = roce().subjects["node2"]["ending"].nvlink_errors
    return roce().broken("node2", "ending", nvlink_errors=(first, *rest))


def ended_with(kind, code, text):
    """Four nodes; the second's log has this line at the end of the run, and had it not at the start."""
    return roce().broken("node2", "ending", log=(LogEvent(kind, code, "0000:07:00", 3.0, text),))


def imex(**fields):
    """A rack in which one node's IMEX is otherwise."""
    run = infiniband()
    held = run.facts("node2", "gpu", Gpus).imex
    return run.broken("node2", "gpu", imex=held._replace(**fields))


def counted_at_the_end(kind, count):
    """Four nodes; a GPU of the second has counted so many errors of PCIe at the end."""
    run = roce()
    first, *rest = run.facts("node2", "ending", Ending).gpus_counted
    errors = tuple((name, count if name.endswith(f" {kind}") else number) for name, number in first.errors)
    return run.broken("node2", "ending", gpus_counted=(first._replace(errors=errors), *rest))


def refused(status, *, topology_of=None, **fields):
    """Four nodes; GPU 0 of the second cannot reach GPU 1."""
    first, *rest = gpus(8, **fields)
    first = msgspec.structs.replace(first, peer_access=("X", status, *["OK"] * 6))
    return with_gpus(first, *rest, **({} if topology_of is None else {"topology": topology_of}))


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
        "GPU 0: link 3: Recovery Errors grew by 2",
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
    row(HALVES[1], "its vGPU licence says: Unlicensed (Restricted)", licence="Unlicensed (Restricted)"),
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
    Broken("gpu.nvlinks_are_up", with_gpus(*gpus(8, links=Links(0, 1))), ("node2",), "GPU 0: all NVLinks are inactive"),
    Broken(
        "gpu.nvlinks_are_up",
        with_gpus(*gpus(1, links=Links(17, 0)), *gpus(8)[1:]),
        ("node2",),
        "GPU 0: 17 NVLinks are active, 18 on others",
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
        "memory of GPU 0 is held by programs that cannot be seen from here",
    ),
    Broken(
        "gpu.no_other_program_uses_them",
        roce().broken("node2", "gpu", devices=gpus(8, processes=1)),
        ("node2",),
        "other programs use GPU 0, 1",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_a_missing_gpu_is_not_another_model():
    """A GPU that fell off the bus is told by the count alone."""
    run = roce().broken("node2", "gpu", devices=gpus(7))
    assert {f.verdict for f in judge("gpu.model_is_the_same_on_every_node", run)} == {Verdict.PASS}


def test_unreadable_gpus_are_not_counted_as_none():
    """Where nvidia-smi fails, the count of that node is not measured."""
    run = roce().broken("node2", "gpu", devices=Missing("timed out"))
    verdicts = {f.nodes: f.message for f in judge("gpu.count_is_the_same_on_every_node", run)}
    assert verdicts["node2",].startswith("blocked by gpu.devices_are_readable")


TABLES = (gpu_faults.BROKEN, gpu_faults.SLOWED, gpu_faults.DRIVER, gpu_faults.FABRIC, gpu_faults.LOG, gpu_faults.BUSY)


@pytest.mark.parametrize("fault", [*gpu_faults.BROKEN, *gpu_faults.SLOWED], ids=lambda fault: fault.name)
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


@pytest.mark.parametrize(
    "table", [*TABLES, kernel_faults.IOMMU, kernel_faults.ACS, kernel_faults.FRAGILE, kernel_faults.LOG]
)
def test_every_row_has_its_source(table):
    """Who a row is from can be looked up."""
    assert all(row.name and row.source for row in table)


@pytest.mark.parametrize(
    ("driver", "torch", "runs"),
    [("12.4", "12.9", True), ("12.4", "13.0", False), ("13.1", "12.9", True), ("10.1", "10.2", False)],
)
def test_a_driver_runs_all_of_its_major_version(driver, torch, runs):
    """Minor versions are compatible since CUDA 11; before, each needs a driver of its own."""
    assert gpu_faults.driver_runs(cuda_of_driver=driver, cuda_of_torch=torch) is runs


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


def test_lines_of_amds_driver_that_a_job_survives_are_a_warning():
    """Pages that are nearly used up, and a power controller that was slow to answer."""
    line = "amdgpu 0000:07:00.0: amdgpu: Saved bad pages 32 reaches threshold value 32"
    run = logged("wear", 0, line)
    for name in run.subjects:
        run = run.broken(name, "gpu", devices=gpus(8, name="AMD Instinct MI300X"))
    findings = {f.nodes: f for f in judge("gpu.kernel_log_tells_of_no_broken_gpu", run)}
    assert (findings["node2",].verdict, findings["node2",].message) == (Verdict.WARN, line)


@pytest.mark.parametrize("code", [63, 94])
def test_an_xid_of_wear_is_a_warning(code):
    """A job goes on after it, so the check that fails only warns."""
    findings = {f.nodes: f.verdict for f in judge("gpu.kernel_log_tells_of_no_broken_gpu", xid(code))}
    assert findings["node2",] is Verdict.WARN


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


@pytest.mark.parametrize("code", [13, 31, 43, 45])
def test_a_programs_own_xid_is_not_the_gpus(code):
    """Xids that a faulty program causes do not blame the node."""
    assert {f.verdict for f in judge("gpu.kernel_log_tells_of_no_broken_gpu", xid(code))} == {Verdict.PASS}


def test_acs_is_for_root_only():
    """Who may not read the bridges' configuration is told so, and not that all is well."""
    run = over_pcie(redirecting_bridges=Missing("for root only", "denied"))
    findings = {f.nodes: f for f in judge("gpu.acs_leaves_peer_to_peer_alone", run)}
    assert findings["node2",].verdict is Verdict.SKIP
    assert findings["node2",].message.startswith("not permitted")


def test_nvlink_makes_the_iommu_no_matter():
    """GPUs that are all joined by NVLink do not send through PCIe."""
    run = with_gpus(*gpus(8, pci=FUNCTION._replace(iommu="DMA")))
    assert {f.verdict for f in judge("gpu.iommu_leaves_peer_to_peer_alone", run)} == {Verdict.PASS}


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
    ("links", "words"), [(Links(3, 1), "GPU 0: 1 NVLinks are inactive"), (Links(0, 1), "GPU 0: all NVLinks are")]
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


def test_a_joined_fabric_needs_no_process():
    """From a container Fabric Manager cannot be seen; GPUs that have joined say enough."""
    run = infiniband().broken("node2", "gpu", fabric_manager=Missing("a container", "absent"))
    assert {f.verdict for f in judge("gpu.fabric_manager_runs_where_it_is_needed", run)} == {Verdict.PASS}


NVLINK_ERRORS, BROKE = "gpu.nvlinks_counted_no_errors_during_the_run", "gpu.none_broke_during_the_run"


def test_a_few_errors_that_nvlink_corrects_are_no_fault():
    """CRC errors are sent again; a hundred of them are told."""
    few, many = (ended(**{"link 4: CRC Errors": count}) for count in (99, 100))
    assert {finding.verdict for finding in judge(NVLINK_ERRORS, few)} == {Verdict.PASS}
    assert Verdict.WARN in {finding.verdict for finding in judge(NVLINK_ERRORS, many)}


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (roce().broken("node2", "ending", nvlink_errors=Missing("nvidia-smi did not finish")), "did not finish"),
        (roce().broken("node2", "ending", nvlink_errors=Missing("nvidia-smi not found", "absent")), "not found"),
        (roce().broken("node2", "ending", nvlink_errors=()), "does not list GPU 0 any more"),
        (ended(links=9), "lists 27 counters, and 54 at the start"),
        (with_gpus(*gpus(8, link_errors=Missing("cut short"))), "cut short"),
        (with_gpus(*gpus(8, link_errors=LinkErrors(9, 27, {}))), "lists 9 links of GPU 0, 18 are active"),
    ],
)
def test_nvlinks_that_are_not_counted_again_are_no_pass(run, words):
    """What is there must be counted at the start and at the end."""
    found = {f.nodes: f for f in judge(NVLINK_ERRORS, run)}
    assert found[("node2",)].verdict is Verdict.ERROR
    assert words in found[("node2",)].message


def test_an_xid_of_before_the_run_is_not_one_of_the_run():
    """The same line at the start and at the end is one event; a second one like it is another."""
    line = LogEvent("xid", 79, "0000:07:00", 3600.0, "NVRM: Xid (PCI:0000:07:00): 79, ...")
    run = roce().broken("node2", "kernel", log=(line,))
    once, twice = (run.broken("node2", "ending", log=(line,) * count) for count in (1, 2))
    assert {finding.verdict for finding in judge(BROKE, once)} == {Verdict.PASS}
    assert {f.nodes for f in judge(BROKE, twice) if f.verdict is Verdict.FAIL} == {("node2",)}


TELLS = "gpu.kernel_log_tells_of_no_broken_gpu"


def log_of(text, *, age_seconds, device, gpus_listed=8):
    """Four nodes; the second's driver lists so many GPUs, and its log has this line."""
    run = roce().broken("node2", "kernel", log=(LogEvent("driver", 0, device, age_seconds, text),))
    return run.broken("node2", "gpu", devices=run.facts("node2", "gpu", Gpus).devices[:gpus_listed])


@pytest.mark.parametrize(
    ("text", "age_seconds", "listed", "verdict"),
    [
        ("NVRM: GPU {}: RmInitAdapter failed! (0x62:0x40:2168)", 3600.0, 8, Verdict.PASS),
        ("NVRM: GPU {}: RmInitAdapter failed! (0x62:0x40:2168)", 3600.0, 7, Verdict.FAIL),
        ("NVRM: GPU {}: RmInitAdapter failed! (0x62:0x40:2168)", 1e6, 7, Verdict.FAIL),
        ("NVRM: GPU {} has fallen off the bus", 3600.0, 8, Verdict.FAIL),
        ("NVRM: GPU {} has fallen off the bus", 1e6, 8, Verdict.PASS),
        ("NVRM: GPU {} has fallen off the bus", 1e6, 7, Verdict.FAIL),
        ("amdgpu {}: amdgpu: GPU reset begin!", 3600.0, 8, Verdict.PASS),
    ],
)
def test_a_line_of_the_log_is_held_against_what_the_driver_lists_now(text, age_seconds, listed, verdict):
    """A GPU that it lists was taken; one that it does not list is lost, however long ago."""
    address = roce().facts("node2", "gpu", Gpus).devices[7].bus_id
    run = log_of(text.format(address), age_seconds=age_seconds, device=address, gpus_listed=listed)
    assert verdict in {f.verdict for f in judge(TELLS, run)}


def by_pcie():
    """The matrix of eight GPUs without NVLink."""
    rows = topology(8).rows
    plain = [
        msgspec.structs.replace(row, relations=tuple(r.replace("NV18", "NODE") for r in row.relations)) for row in rows
    ]
    return Topology(tuple(plain), topology(8).adapters)


def test_without_nvlink_only_a_node_unlike_its_equals_is_told():
    """A card that has no peer access has none on all nodes; where one node differs it is a warning."""
    (found,) = (f for f in judge(REACH, refused("CNS", topology_of=by_pcie())) if f.verdict is not Verdict.PASS)
    assert (found.verdict, found.nodes) == (Verdict.WARN, ("node2",))
    assert "between all on node[1,3-4], not between GPU 0 and 1 (CNS: the chipset refuses) on node2" in found.message
    alike = roce()
    closed = gpus(8, name="NVIDIA GeForce RTX 4090", peer_access=("CNS",) * 8)
    for name in alike.names:
        alike = alike.broken(name, "gpu", devices=closed, topology=by_pcie())
    assert {finding.verdict for finding in judge(REACH, alike)} == {Verdict.PASS}


@pytest.mark.parametrize(
    ("variables", "verdicts"),
    [
        ({"NCCL_P2P_DISABLE": "1"}, {Verdict.SKIP}),
        ({"NCCL_P2P_LEVEL": "LOC"}, {Verdict.SKIP}),
        ({"NCCL_IGNORE_DISABLED_P2P": "1"}, {Verdict.PASS, Verdict.WARN}),
        ({"NCCL_P2P_LEVEL": "NVL"}, {Verdict.PASS, Verdict.FAIL}),
    ],
)
def test_what_nccl_is_told_not_to_use_is_not_asked(variables, verdicts):
    """Where its variables switch peer access off, or let it be missing, a job starts."""
    assert {finding.verdict for finding in judge(REACH, refused("NS").with_variables(**variables))} == verdicts


def test_a_matrix_that_was_not_read_is_no_pass():
    """The node is an error, its peers are judged."""
    run = with_gpus(*gpus(8, peer_access=Missing("nvidia-smi topo -p2p w was cut short at GPU4")))
    found = {f.nodes: f.verdict for f in judge(REACH, run)}
    assert found[("node2",)] is Verdict.ERROR


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


@pytest.mark.parametrize(("count", "verdict"), [(99, Verdict.PASS), (100, Verdict.WARN)])
def test_hundreds_of_corrected_errors_are_a_warning(count, verdict):
    """Each is sent again; a few come and go."""
    found = judge("gpu.none_counted_pcie_errors_during_the_run", counted_at_the_end("corrected", count))
    assert {one.verdict for one in found if "node2" in one.nodes} == {verdict}


@pytest.mark.parametrize("end", [Missing("Permission denied", "denied"), ()])
def test_pcie_errors_that_are_not_counted_again_are_no_pass(end):
    """A GPU that left the bus, or a file that is closed now."""
    found = judge("gpu.none_counted_pcie_errors_during_the_run", roce().broken("node2", "ending", gpus_counted=end))
    verdicts = {name: one.verdict for one in found for name in one.nodes}
    assert verdicts == {**dict.fromkeys(roce().names, Verdict.PASS), "node2": Verdict.ERROR}
