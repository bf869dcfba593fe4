"""Is an operation measured at a size that takes long enough and fits?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.job.ranks.bench.settings import MIB
from preflight.job.ranks.bench.sizes import automatic_bytes


@pytest.mark.parametrize(("gbit_per_s", "wanted_mib"), [(1, 16), (0.2, 4), (10, 128), (0.001, 1)])
def test_the_size_found_makes_an_operation_last_near_the_target(gbit_per_s, wanted_mib):
    """A 1 Gbit link gets 16 MiB, a hundredth of that never less than 1 MiB."""
    seconds = MIB / (gbit_per_s * 1e9 / 8)
    found = automatic_bytes(probe_bytes=MIB, probe_seconds=seconds, target_seconds=0.15, most_bytes=256 * MIB)
    assert found == wanted_mib * MIB


@given(st.floats(1e-6, 100), st.integers(MIB, 1 << 36))
def test_the_size_found_is_a_power_of_two_within_memory(seconds, most_bytes):
    """Whatever the probe says, the size is a power of two that fits."""
    found = automatic_bytes(probe_bytes=MIB, probe_seconds=seconds, target_seconds=0.15, most_bytes=most_bytes)
    assert found.bit_count() == 1
    assert MIB <= found <= most_bytes
