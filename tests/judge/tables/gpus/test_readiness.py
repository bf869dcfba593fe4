"""Which driver runs which torch, and when does a fabric need its manager?"""

from __future__ import annotations

import pytest

from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.judge.tables.gpus import readiness
from preflight.said.errors import FactMissing
from preflight.testing import infiniband
from tests.checks.samples import judge


@pytest.mark.parametrize(
    ("driver", "torch", "runs"),
    [("12.4", "12.9", True), ("12.4", "13.0", False), ("13.1", "12.9", True), ("10.1", "10.2", False)],
)
def test_a_driver_runs_all_of_its_major_version(driver, torch, runs):
    """Minor versions are compatible since CUDA 11; before, each needs a driver of its own."""
    assert readiness.driver_runs(cuda_of_driver=driver, cuda_of_torch=torch) is runs


@pytest.mark.parametrize("version", ["", "N/A", "12.x"])
def test_what_is_no_version_is_not_known(version):
    """It is no failure of the check: other nodes are judged."""
    with pytest.raises(FactMissing, match="version of CUDA"):
        readiness.driver_runs(cuda_of_driver=version, cuda_of_torch="12.4")
    run = infiniband().broken("node2", "gpu", cuda_driver=version)
    found = {one.verdict: one.nodes for one in judge("gpu.driver_runs_the_cuda_of_torch", run)}
    assert found[Verdict.ERROR] == ("node2",)


def test_a_joined_fabric_needs_no_process():
    """From a container Fabric Manager cannot be seen; GPUs that have joined say enough."""
    run = infiniband().broken("node2", "gpu", fabric_manager=Missing("a container", "absent"))
    assert {f.verdict for f in judge("gpu.fabric_manager_runs_where_it_is_needed", run)} == {Verdict.PASS}
