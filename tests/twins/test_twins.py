"""Are healthy platforms of every kind left in peace, as their nodes' own files and programs describe them?"""

import pytest

from preflight.ledger.findings import Verdict
from tests.twins import node, platforms
from tests.twins.twin import Twin, notable

# A sample, each for something that no other has; `python -m tests.bench.twins` judges all of them.
SAMPLE = ("ubuntu", "dgx-h100", "hgx-h200-roce", "aws-p4d", "mi300x", "kubernetes-pod", "sriov-pod", "slingshot-a100")


@pytest.mark.parametrize("name", SAMPLE)
def test_a_healthy_platform_is_left_in_peace(name, tmp_path, lab_is_possible):
    """Every check that reads facts passes, or is skipped for a reason."""
    twin = Twin(node.make(platforms.BY_NAME[name], 3, tmp_path))
    findings = twin.judge(twin.documents())
    assert notable(findings) == []
    assert all(finding.message for finding in findings if finding.verdict is Verdict.SKIP)
    assert sum(finding.verdict is Verdict.PASS for finding in findings) > 40


def test_every_platform_names_its_source():
    """Nothing is made up: what a node looks like stands somewhere."""
    assert len(platforms.BY_NAME) == len(platforms.PLATFORMS) >= 16
    assert all(len(platform.source) > 30 for platform in platforms.PLATFORMS)
