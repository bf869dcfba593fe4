"""Which NVLink fabric does a GPU belong to?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.gpus.status import GpuStatus
from preflight.facts.value import Missing


@pytest.mark.parametrize(
    ("cluster", "domain"),
    [
        ("c3a9b2f1-0000-4000-8000-000000000001", "c3a9b2f1-0000-4000-8000-000000000001"),
        ("00000000-0000-0000-0000-000000000000", ""),
        ("", ""),
        (Missing("the driver is too old", "absent"), ""),
    ],
)
def test_a_fabric_of_one_node_is_no_domain(cluster, domain):
    """Its identifier is all zeros, or is not reported."""
    assert GpuStatus(fabric_cluster=cluster).domain() == domain
