"""Does each operation move what its name says, and is its busbw that of nccl-tests?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.job.ranks.bench.operations import COLLECTIVES


@given(st.integers(2, 5000))
def test_bus_factors_are_those_of_nccl_tests(ranks):
    """The factor of each operation is nccl-tests'."""
    assert {name: row.bus_factor(ranks) for name, row in COLLECTIVES.items()} == {
        "all_reduce": pytest.approx(2 * (ranks - 1) / ranks),
        "broadcast": 1,
        "sendrecv": 1,
        "reduce": 1,
        "all_gather": pytest.approx((ranks - 1) / ranks),
        "reduce_scatter": pytest.approx((ranks - 1) / ranks),
        "all_to_all": pytest.approx((ranks - 1) / ranks),
        "gather": pytest.approx((ranks - 1) / ranks),
        "scatter": pytest.approx((ranks - 1) / ranks),
    }


@given(st.integers(1, 12))
def test_what_is_received_is_what_was_sent(ranks):
    """For each operation every pattern received was sent by some rank, and none is received twice over."""
    for row in COLLECTIVES.values():
        sent = {keys for rank in range(ranks) for keys in row.sends(rank, ranks)}
        received = [key for rank in range(ranks) for keys in row.receives(rank, ranks) for key in keys]
        assert {(key,) for key in received} <= sent
