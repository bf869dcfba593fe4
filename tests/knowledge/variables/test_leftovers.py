"""Is a variable that was left over from troubleshooting reported with what it does?"""

from __future__ import annotations

import pytest

from preflight.knowledge.variables import leftovers


def test_the_leftovers_of_a_search_for_faults_have_their_source():
    """Those that slow a job down most are among them."""
    assert all(row.source.startswith("https://") for row in leftovers.LEFTOVERS)
    assert {row.name for row in leftovers.LEFTOVERS} >= {"CUDA_LAUNCH_BLOCKING", "NCCL_P2P_DISABLE", "NCCL_DEBUG"}


@pytest.mark.parametrize("row", leftovers.LEFTOVERS, ids=lambda row: row.name)
def test_a_leftover_is_reported_with_what_it_does(row):
    """At the value of its example, and not at the one next to it."""
    words = leftovers.leftover(row.name, row.example, has_rdma=True)
    assert words == f"{row.name}={row.example}: {row.does}"
    assert leftovers.leftover(row.name, row.neighbour, has_rdma=True) == ""


def test_what_switches_rdma_off_does_nothing_without_it():
    """Nor what the vendor of a node's own adapters asks for."""
    assert leftovers.leftover("NCCL_IB_DISABLE", "1", has_rdma=False) == ""
    assert leftovers.leftover("NCCL_IB_USE_INLINE", "1", has_rdma=True, devices=("ionic_0",)) == ""
    assert leftovers.leftover("NCCL_IB_USE_INLINE", "1", has_rdma=True, devices=("mlx5_0",))


def test_a_tuning_within_reason_is_no_leftover():
    """Larger time-outs, a protocol left out."""
    for name, value in (("NCCL_IB_TIMEOUT", "22"), ("NCCL_PROTO", "^LL128"), ("NCCL_PROTO", "Simple")):
        assert leftovers.leftover(name, value, has_rdma=True) == ""
