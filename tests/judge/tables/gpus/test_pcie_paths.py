"""Who may read ACS, and when do IOMMUs matter?"""

from __future__ import annotations

from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing.hardware import gpus
from tests.checks.gpu_samples import FUNCTION, over_pcie, with_gpus
from tests.checks.samples import judge


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
