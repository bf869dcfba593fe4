"""Which result of the benchmark speaks for a collective, and what if there is none?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.results import Bench
from preflight.said.errors import NotMeasured
from preflight.testing import healthy

replace = msgspec.structs.replace


def test_the_result_of_a_collective_is_that_of_its_largest_size():
    """Small ones measure latency."""
    bench = healthy().bench()
    small = replace(bench.results[0], bytes=1024, busbw_gbytes_per_s=0.01)
    assert replace(bench, results=(small, bench.results[0])).result("all_reduce") == bench.results[0]


def test_a_collective_that_was_not_run_is_not_measured():
    """With the reason why the job ended, where it did."""
    bench = healthy().bench()
    with pytest.raises(NotMeasured, match="no all_gather was run"):
        bench.result("all_gather")
    empty: Bench = replace(bench, results=(), not_measured="rank 1 on node2 stopped")
    with pytest.raises(NotMeasured, match="rank 1 on node2 stopped"):
        empty.result("all_reduce")
