"""Is the node with other versions named, once for each cause?"""

from __future__ import annotations

import pytest

from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy, roce
from tests.checks.samples import Broken, device, judge

BROKEN = (
    Broken(
        "software.packages_meet_each_others_requirements",
        roce().broken("node2", "software", requirements={"torch": {"nccl": "==2.28.10"}}),
        ("node2",),
        "torch 2.13.0 requires nccl==2.28.10, installed is 2.28.9",
    ),
    Broken(
        "software.companions_are_the_same_on_every_node",
        device(roce(), "node2", 1, firmware="28.35"),
        ("node2",),
        "firmware of the RDMA adapters: MT_0838 28.39 on node[1,3-4], MT_0838 28.35, MT_0838 28.39 on node2",
    ),
    Broken(
        "software.torch_is_installed",
        healthy().broken("node2", "software", torch=Missing("not installed", "absent")),
        ("node2",),
        "torch is not installed for /usr/bin/python3",
    ),
    Broken(
        "software.torch_is_built_for_the_gpus",
        roce().broken(
            "node2", "software", torch_cuda=Missing("a build for the CPU", "absent"), torch_hip=Missing("no", "absent")
        ),
        ("node2",),
        "torch 2.13.0 is a build for the CPU, and the node has GPUs",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        healthy().broken("node3", "software", torch="2.6.0"),
        ("node3",),
        "torch: 2.13.0 on node[1-2], 2.6.0 on node3",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        healthy().broken("node3", "software", python="3.12.1"),
        ("node3",),
        "Python: 3.11 on node[1-2], 3.12 on node3",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        roce().broken("node3", "software", torch_cuda=Missing("CPU build", "absent")),
        ("node3",),
        "CUDA runtime of torch: 13.0 on node[1-2,4], none on node3",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        healthy().broken("node1", "software", torch_hip="7.0"),
        ("node1",),
        "ROCm of torch: none on node[2-3], 7.0 on node1",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        roce().broken("node3", "software", cudnn="9.1"),
        ("node3",),
        "cuDNN: 2.28.9 on node[1-2,4], 9.1 on node3",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        roce().broken("node3", "software", nccl="2.19.3"),
        ("node3",),
        "NCCL: 2.28.9 on node[1-2,4], 2.19.3 on node3",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        roce().broken("node3", "gpu", driver="470.1"),
        ("node3",),
        "GPU driver: 580.95 on node[1-2,4], 470.1 on node3",
    ),
    Broken(
        "software.companions_are_the_same_on_every_node",
        healthy().broken("node3", "software", packages={}),
        ("node3",),
        "accelerate: 1.12.0 on node[1-2], none on node3",
    ),
    Broken(
        "software.companions_are_the_same_on_every_node",
        healthy().broken("node3", "software", libc="glibc 2.28"),
        ("node3",),
        "C library: glibc 2.36 on node[1-2], glibc 2.28 on node3",
    ),
    Broken(
        "software.companions_are_the_same_on_every_node",
        roce().broken("node3", "machine", rdma_core="1.11.32.0", rdma_driver="5.8-3.0.7"),
        ("node3",),
        "rdma-core: 1.14.48.0 on node[1-2,4], 1.11.32.0 on node3; RDMA driver: none on node[1-2,4], 5.8-3.0.7 on node3",
    ),
    Broken(
        "software.companions_are_the_same_on_every_node",
        healthy().broken("node3", "machine", compilers={}),
        ("node3",),
        "compilers: c++ on node[1-2], none on node3",
    ),
    Broken(
        "software.environments_are_the_same_on_every_node",
        healthy().broken("node3", "software", packages={"torch": "2.13.0", "accelerate": "1.12.0", "tqdm": "4.1"}),
        ("node3",),
        "1 packages on node3 differ from node[1-2]: tqdm 4.1 (there none)",
    ),
    Broken(
        "software.environments_are_the_same_on_every_node",
        healthy(2).broken("node2", "software", packages={"torch": "2.13.0", "accelerate": "1.12.0", "tqdm": "4.1"}),
        ("node1", "node2"),
        "tqdm 4.1 (there none)",
    ),
    Broken(
        "software.no_versions_break_together",
        healthy().broken("node2", "software", packages={"torch": "2.13.0", "deepspeed": "0.14.0"}),
        ("node2",),
        "deepspeed 0.14.0 with torch 2.13.0: `import deepspeed` ends with ImportError",
    ),
    Broken(
        "software.no_versions_break_together",
        healthy().broken("node2", "software", nccl="2.26.5"),
        ("node2",),
        "nccl 2.26.5: jobs of several nodes may end",
    ),
    Broken(
        "software.ray_that_runs_is_the_one_installed",
        healthy().broken("node2", "software", packages={"ray": "2.44.1"}, ray_running={"/opt/lib": "2.43.0"}),
        ("node2",),
        "Ray 2.43.0 of /opt/lib runs, and the job's Python has 2.44.1",
    ),
    Broken(
        "software.companions_are_the_same_on_every_node",
        healthy().broken("node2", "software", put_first=("libcuda.so.1",)),
        ("node2",),
        "libraries put first by LD_LIBRARY_PATH: none on node[1,3], libcuda.so.1 on node2",
    ),
    Broken(
        "software.one_nccl_can_be_met",
        roce()
        .broken("node2", "software", nccl_copies={"/opt/nccl/lib/libnccl.so.2.16.2": "2.16.2"})
        .with_variables("node2", LD_LIBRARY_PATH="/usr/lib:/opt/nccl/lib"),
        ("node2",),
        "beside NCCL 2.28.9 of torch a rank may load /opt/nccl/lib/libnccl.so.2.16.2 (2.16.2)",
    ),
    Broken(
        "software.one_nccl_can_be_met",
        roce().broken("node2", "software", nccl_preloaded="/opt/libnccl.so.2"),
        ("node2",),
        "LD_PRELOAD puts /opt/libnccl.so.2 before",
    ),
    Broken(
        "software.one_nccl_can_be_met",
        roce().broken("node2", "software", packages={"nvidia-nccl-cu12": "2.27.5", "nvidia-nccl-cu13": "2.28.9"}),
        ("node2",),
        "nvidia-nccl-cu12 2.27.5 and nvidia-nccl-cu13 2.28.9 install the same file",
    ),
    Broken(
        "software.a_compiler_is_there_for_deepspeed",
        roce().broken("node2", "machine", compilers={"ninja": "/usr/bin/ninja"}),
        ("node2",),
        "PATH has none of c++, g++ and clang",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_two_odd_nodes_are_two_findings():
    """Each row that differs has a finding and a fix of its own."""
    run = healthy(5).broken("node2", "software", torch="2.6.0").broken("node3", "software", python="3.12.1")
    findings = judge("software.versions_are_the_same_on_every_node", run)
    failed = {finding.nodes: finding.fix for finding in findings if finding.verdict is Verdict.FAIL}
    assert set(failed) == {("node2",), ("node3",)}
    assert "pip install torch" in failed["node2",]
    assert "Python" in failed["node3",]


def test_two_odd_things_on_one_node_are_one_finding():
    """A node gets one verdict of a check, whose message tells all."""
    run = healthy().broken("node3", "software", torch="2.6.0", python="3.12.1")
    findings = judge("software.versions_are_the_same_on_every_node", run)
    (failed,) = [finding for finding in findings if finding.verdict is Verdict.FAIL]
    assert "torch: " in failed.message
    assert "Python: " in failed.message


def test_what_comes_with_another_torch_is_not_told_again():
    """CUDA, cuDNN and NCCL that differ because torch does are its consequence."""
    run = roce().broken("node3", "software", torch="2.6.0+cu124", torch_cuda="12.4", cudnn="9.1", nccl="2.21.5")
    findings = judge("software.versions_are_the_same_on_every_node", run)
    (failed,) = [finding for finding in findings if finding.verdict is Verdict.FAIL]
    assert failed.message == "torch: 2.13.0 on node[1-2,4], 2.6.0+cu124 on node3"


def test_a_node_without_torch_has_no_other_version_of_it():
    """Where torch is missing, the comparison of versions is blocked and not a second fail."""
    run = roce().broken("node3", "software", torch=Missing("not installed", "absent"))
    findings = judge("software.versions_are_the_same_on_every_node", run)
    verdicts = {finding.nodes: (finding.verdict, finding.message) for finding in findings}
    assert verdicts["node3",][0] is Verdict.ERROR
    assert verdicts["node3",][1].startswith("blocked by software.torch_is_installed")
    assert verdicts["node1", "node2", "node4"][0] is Verdict.PASS


def test_the_interpreter_that_has_torch_is_named():
    """On that node; nothing is to be installed there."""
    other = {"/opt/conda/bin/python3": "2.9.0"}
    run = healthy().broken("node2", "software", torch=Missing("not installed", "absent"), torch_elsewhere=other)
    (finding,) = (one for one in judge("software.torch_is_installed", run) if one.verdict is Verdict.FAIL)
    assert finding.message == "torch is not installed for /usr/bin/python3; /opt/conda/bin/python3 has torch 2.9.0"
    assert finding.fix.startswith("`--python=/opt/conda/bin/python3`")
    assert finding.commands == ()


def test_a_second_nccl_that_nobody_loads_is_no_fault():
    """Beside torch's own, distributions install one that no process of the job meets."""
    run = roce().broken("node2", "software", nccl_copies={"/usr/lib64/libnccl.so.2.16.2": "2.16.2"})
    assert {finding.verdict for finding in judge("software.one_nccl_can_be_met", run)} == {Verdict.PASS}
