"""Is the node with other versions named, once for each cause?"""

from __future__ import annotations

import pytest

from preflight.facts.values import Missing
from preflight.findings import Verdict
from tests.checks.cluster import Broken, ethernet, judge, roce

BROKEN = (
    Broken(
        "software.torch_is_installed",
        ethernet().change("node2", "software", torch=Missing("not installed", "absent")),
        ("node2",),
        "torch is not installed for /usr/bin/python3",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        ethernet().change("node3", "software", torch="2.6.0"),
        ("node3",),
        "torch: 2.13.0 on node[1-2], 2.6.0 on node3",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        ethernet().change("node3", "software", python="3.12.1"),
        ("node3",),
        "Python: 3.11 on node[1-2], 3.12 on node3",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        roce().change("node3", "software", torch_cuda=Missing("CPU build", "absent")),
        ("node3",),
        "CUDA runtime of torch: 13.0 on node[1-2,4], none on node3",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        ethernet().change("node1", "software", torch_hip="7.0"),
        ("node1",),
        "ROCm of torch: none on node[2-3], 7.0 on node1",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        roce().change("node3", "software", cudnn="9.1"),
        ("node3",),
        "cuDNN: 2.28.9 on node[1-2,4], 9.1 on node3",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        roce().change("node3", "software", nccl="2.19.3"),
        ("node3",),
        "NCCL: 2.28.9 on node[1-2,4], 2.19.3 on node3",
    ),
    Broken(
        "software.versions_are_the_same_on_every_node",
        roce().change("node3", "gpu", driver="470.1"),
        ("node3",),
        "GPU driver: 580.95 on node[1-2,4], 470.1 on node3",
    ),
    Broken(
        "software.companions_are_the_same_on_every_node",
        ethernet().change("node3", "software", packages={}),
        ("node3",),
        "accelerate: 1.12.0 on node[1-2], none on node3",
    ),
    Broken(
        "software.companions_are_the_same_on_every_node",
        ethernet().change("node3", "software", libc="glibc 2.28"),
        ("node3",),
        "C library: glibc 2.36 on node[1-2], glibc 2.28 on node3",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to mend it."""
    broken.assert_named()


def test_two_odd_nodes_are_two_findings():
    """Each row that differs has a finding and a fix of its own."""
    run = ethernet(5).change("node2", "software", torch="2.6.0").change("node3", "software", python="3.12.1")
    findings = judge("software.versions_are_the_same_on_every_node", run)
    failed = {finding.nodes: finding.fix for finding in findings if finding.verdict is Verdict.FAIL}
    assert set(failed) == {("node2",), ("node3",)}
    assert "pip install torch" in failed["node2",]
    assert "Python" in failed["node3",]


def test_two_odd_things_on_one_node_are_one_finding():
    """A node gets one verdict of a check, whose message tells all."""
    run = ethernet().change("node3", "software", torch="2.6.0", python="3.12.1")
    findings = judge("software.versions_are_the_same_on_every_node", run)
    (failed,) = [finding for finding in findings if finding.verdict is Verdict.FAIL]
    assert "torch: " in failed.message
    assert "Python: " in failed.message


def test_what_comes_with_another_torch_is_not_told_again():
    """CUDA, cuDNN and NCCL that differ because torch does are its consequence."""
    run = roce().change("node3", "software", torch="2.6.0+cu124", torch_cuda="12.4", cudnn="9.1", nccl="2.21.5")
    findings = judge("software.versions_are_the_same_on_every_node", run)
    (failed,) = [finding for finding in findings if finding.verdict is Verdict.FAIL]
    assert failed.message == "torch: 2.13.0 on node[1-2,4], 2.6.0+cu124 on node3"


def test_a_node_without_torch_has_no_other_version_of_it():
    """Where torch is missing, the comparison of versions is blocked and not a second fail."""
    run = roce().change("node3", "software", torch=Missing("not installed", "absent"))
    findings = judge("software.versions_are_the_same_on_every_node", run)
    verdicts = {finding.nodes: (finding.verdict, finding.message) for finding in findings}
    assert verdicts["node3",][0] is Verdict.ERROR
    assert verdicts["node3",][1].startswith("blocked by software.torch_is_installed")
    assert verdicts["node1", "node2", "node4"][0] is Verdict.PASS
