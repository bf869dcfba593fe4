"""Is the node with fewer, other or unreadable GPUs named?"""

from __future__ import annotations

import pytest

from preflight.facts.values import Missing
from preflight.findings import Verdict
from tests.checks.cluster import Broken, gpus, judge, roce

BROKEN = (
    Broken(
        "gpu.devices_are_readable",
        roce().change("node2", "gpu", devices=Missing("Driver/library version mismatch")),
        ("node2",),
        "the GPUs cannot be read: Driver/library version mismatch",
    ),
    Broken(
        "gpu.count_is_the_same_on_every_node",
        roce().change("node2", "gpu", devices=gpus(7)),
        ("node2",),
        "number of GPUs: 8 on node[1,3-4], 7 on node2",
    ),
    Broken(
        "gpu.model_is_the_same_on_every_node",
        roce().change("node2", "gpu", devices=gpus(8, name="NVIDIA A100", memory_mib=81920)),
        ("node2",),
        "NVIDIA A100 81920 MiB on node2",
    ),
    Broken(
        "gpu.model_is_the_same_on_every_node",
        roce().change("node2", "gpu", devices=gpus(8, mig_mode="Enabled")),
        ("node2",),
        "in MIG mode on node2",
    ),
    Broken(
        "gpu.no_other_program_uses_them",
        roce().change("node2", "gpu", devices=gpus(8, processes=1)),
        ("node2",),
        "other programs use GPU 0, 1",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to mend it."""
    broken.assert_named()


def test_a_missing_gpu_is_not_another_model():
    """A GPU that fell off the bus is told by the count alone."""
    run = roce().change("node2", "gpu", devices=gpus(7))
    assert {f.verdict for f in judge("gpu.model_is_the_same_on_every_node", run)} == {Verdict.PASS}


def test_unreadable_gpus_are_not_counted_as_none():
    """Where nvidia-smi fails, the count of that node is not measured."""
    run = roce().change("node2", "gpu", devices=Missing("timed out"))
    verdicts = {f.nodes: f.message for f in judge("gpu.count_is_the_same_on_every_node", run)}
    assert verdicts["node2",].startswith("blocked by gpu.devices_are_readable")
