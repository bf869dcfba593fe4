"""Which modules that a kernel has refused are missed, and what does its log say of GPUs that are not listed?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.kernel import LogEvent
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.node.sources.kernel import events
from preflight.testing import healthy, infiniband, roce
from tests.checks.samples import judge

LOG = "kernel.log_tells_of_nothing_broken"
GPU_LOG = "gpu.kernel_log_tells_of_no_broken_gpu"
MAGIC = "nvidia: version magic '6.8.0-45-generic SMP ' should be '6.8.0-47-generic SMP '"
SYMBOL = "disagrees about version of symbol ib_register_device"
UNREADABLE = Missing("nvidia-smi printed no XML: No devices were found")
OTHERS = ("ib_core", "mlx5_core")


def with_log(run, *lines, loaded=OTHERS, days=0.0, **kernel):
    """The same with these lines in the log of node2, and these modules."""
    records = [f"3,1,{number},-;{line}" for number, line in enumerate(lines)]
    found = events.parse(records, now_s=60.0 + days * 86400)
    return run.broken("node2", "kernel", log=tuple(LogEvent(**each) for each in found), modules=loaded, **kernel)


def said(run, check=LOG):
    """What is said, by verdict and nodes."""
    found = judge(check, run)
    return {
        (finding.verdict, finding.nodes): finding.message for finding in found if finding.verdict is not Verdict.PASS
    }


def without_rdma(run):
    """node2 has no RDMA device."""
    return run.broken("node2", "rdma", devices=(), without_driver=())


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (roce().broken("node2", "gpu", devices=UNREADABLE), MAGIC),
        (roce().broken("node2", "gpu", devices=UNREADABLE), "Loading of module with unavailable key is rejected"),
        (roce().broken("node2", "gpu", devices=UNREADABLE), "amdttm: Unknown symbol drm_x (err -22)"),
        (without_rdma(infiniband()), f"mlx5_ib: {SYMBOL}"),
    ],
)
def test_a_driver_that_the_kernel_refused_is_named_however_long_ago(run, line):
    """It is still not loaded: the node has no GPU, or no adapter, for it."""
    ((verdict, names), message), *_ = said(with_log(run, line, days=10.0)).items()
    assert (verdict, names) == (Verdict.WARN, ("node2",))
    assert message == f"the kernel has refused a driver: {line}"


def test_peermem_is_missed_where_nothing_else_reaches_the_memory_of_the_gpus():
    """NVIDIA's open modules share it by dma-buf."""
    line = f"nvidia_peermem: {SYMBOL}"
    assert said(with_log(roce(), line, loaded=(*OTHERS, "nvidia"), is_driver_open=False))
    assert not said(with_log(roce(), line, loaded=(*OTHERS, "nvidia"), is_driver_open=True))


@pytest.mark.parametrize(
    ("run", "line", "loaded"),
    [
        (roce(), MAGIC, (*OTHERS, "nvidia")),  # it was loaded since
        (roce(), "Loading of module with unavailable key is rejected", (*OTHERS, "nvidia")),
        (roce(), f"irdma: {SYMBOL}", (*OTHERS, "nvidia")),  # of a network card beside the fabric's
        (roce(), f"mlx5_vdpa: {SYMBOL}", (*OTHERS, "nvidia")),
        (roce(), f"ksmbd: {SYMBOL}", (*OTHERS, "nvidia")),
        (without_rdma(healthy()), f"mlx5_ib: {SYMBOL}", OTHERS),  # a node without GPUs, which trains over TCP
    ],
)
def test_modules_that_a_job_does_not_need_may_be_refused(run, line, loaded):
    """A machine has drivers of more than a job uses."""
    assert not said(with_log(run, line, loaded=loaded))


def test_without_the_module_of_cuda_no_program_can_start():
    """nvidia-smi lists the GPUs all the same."""
    line = "nvidia_uvm: Unknown symbol nvUvmInterface (err -2)"
    ((key, message),) = said(with_log(roce(), line, loaded=(*OTHERS, "nvidia")), GPU_LOG).items()
    assert key == (Verdict.FAIL, ("node2",))
    assert "CUDA cannot start" in message
    assert not said(with_log(roce(), line, loaded=(*OTHERS, "nvidia", "nvidia_uvm")), GPU_LOG)


def test_of_gpus_that_cannot_be_read_the_log_tells_the_cause():
    """Rather than that the driver gave up, which is what came of it."""
    cause = "NVRM: The NVIDIA GPU 0000:13:00.0 (PCI ID: 10de:2901) requires use of the NVIDIA open kernel modules."
    probe = "nvidia: probe of 0000:13:00.0 failed with error -1"
    run = roce().broken("node2", "gpu", devices=UNREADABLE)
    assert said(with_log(run, cause, probe)) == {(Verdict.WARN, ("node2",)): cause}
    assert said(with_log(run, probe)) == {(Verdict.WARN, ("node2",)): probe}


def test_what_the_screens_driver_reports_is_not_why_nvidias_gpus_cannot_be_read():
    """amdgpu drives the display of many servers."""
    run = roce().broken("node2", "gpu", devices=UNREADABLE)
    assert not said(with_log(run, "amdgpu 0000:c1:00.0: amdgpu: Fatal error during GPU init"))


def test_gpus_that_are_listed_need_no_cause():
    """What the log says of them is another check's matter."""
    assert not said(with_log(roce(), "NVRM: GPU 0000:13:00.0: RmInitAdapter failed!", loaded=(*OTHERS, "nvidia")))
