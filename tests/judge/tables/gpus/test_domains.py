"""Tests of judge/tables/gpus/domains.py; what each fault of IMEX makes of a check is in tests/checks/test_gpu.py."""

import pytest

from preflight.judge.tables.gpus import domains
from preflight.said.errors import NotApplicable
from preflight.testing import infiniband, roce


def test_only_a_domain_of_several_nodes_is_asked_about():
    """GPUs whose fabric ends with their node need no IMEX."""
    with pytest.raises(NotApplicable, match="no NVLink domain spans"):
        domains.judge_imex(roce().cluster)
    assert domains.judge_imex(infiniband().cluster) == []


@pytest.mark.parametrize(
    ("variables", "goes"), [({}, True), ({"NCCL_MNNVL_ENABLE": "0"}, False), ({"NCCL_CUMEM_ENABLE": "0"}, False)]
)
def test_a_job_may_leave_the_domain_alone(variables, goes):
    """NCCL then never makes a handle that IMEX has to pass on."""
    node = infiniband().with_variables(**variables).cluster["node1"]
    assert domains.goes_by_the_domain(node) is goes
