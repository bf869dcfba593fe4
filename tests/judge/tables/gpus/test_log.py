"""Which lines of the kernel's log blame a GPU, which warn, and which are a program's own?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.gpu import Gpus
from preflight.facts.subjects.kernel import LogEvent
from preflight.judge.ledger.findings import Verdict
from preflight.testing import roce
from preflight.testing.hardware import gpus
from tests.checks.gpu_samples import logged, xid
from tests.checks.samples import judge

TELLS, BROKE = "gpu.kernel_log_tells_of_no_broken_gpu", "gpu.none_broke_during_the_run"


def test_lines_of_amds_driver_that_a_job_survives_are_a_warning():
    """Pages that are nearly used up, and a power controller that was slow to answer."""
    line = "amdgpu 0000:07:00.0: amdgpu: Saved bad pages 32 reaches threshold value 32"
    run = logged("wear", 0, line)
    for name in run.subjects:
        run = run.broken(name, "gpu", devices=gpus(8, name="AMD Instinct MI300X"))
    findings = {f.nodes: f for f in judge(TELLS, run)}
    assert (findings["node2",].verdict, findings["node2",].message) == (Verdict.WARN, line)


@pytest.mark.parametrize("code", [63, 94])
def test_an_xid_of_wear_is_a_warning(code):
    """A job goes on after it, so the check that fails only warns."""
    findings = {f.nodes: f.verdict for f in judge(TELLS, xid(code))}
    assert findings["node2",] is Verdict.WARN


@pytest.mark.parametrize("code", [13, 31, 43, 45])
def test_a_programs_own_xid_is_not_the_gpus(code):
    """Xids that a faulty program causes do not blame the node."""
    assert {f.verdict for f in judge(TELLS, xid(code))} == {Verdict.PASS}


def test_an_xid_of_before_the_run_is_not_one_of_the_run():
    """The same line at the start and at the end is one event; a second one like it is another."""
    line = LogEvent("xid", 79, "0000:07:00", 3600.0, "NVRM: Xid (PCI:0000:07:00): 79, ...")
    run = roce().broken("node2", "kernel", log=(line,))
    once, twice = (run.broken("node2", "ending", log=(line,) * count) for count in (1, 2))
    assert {finding.verdict for finding in judge(BROKE, once)} == {Verdict.PASS}
    assert {f.nodes for f in judge(BROKE, twice) if f.verdict is Verdict.FAIL} == {("node2",)}


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
