"""Does a wrong element show, and is a sum of patterns exact?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.job.ranks.bench.operations import COLLECTIVES
from preflight.job.ranks.bench.pattern import EXACT, PERIOD, levels_of, pattern, periods_of_tile, tile
from preflight.job.ranks.bench.settings import MIB


def test_patterns_of_neighbours_differ_everywhere():
    """Data of another rank, or moved by a power of two, matches in no element."""
    for index in range(PERIOD):
        assert pattern(index, 0) != pattern(index, 1)
        assert all(pattern(index, 0) != pattern(index + (1 << bit), 0) for bit in range(30))


@given(st.sampled_from(sorted(EXACT)), st.integers(1, 512))
def test_sums_of_patterns_are_exact_in_every_type(dtype, ranks):
    """The largest sum is one that the type holds, or the type is refused for so many ranks."""
    try:
        levels = levels_of(dtype, ranks=ranks)
    except ValueError:
        assert ranks > EXACT[dtype]
    else:
        assert ranks * (levels - 1) <= EXACT[dtype]
        assert max(pattern(index, 0, levels) for index in range(PERIOD)) == levels - 1


@pytest.mark.parametrize("ranks", [2, 16, 128, 1024])
@pytest.mark.parametrize("operation", ["all_to_all", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("size_bytes", [MIB, 4096 * MIB])
def test_tiles_fit_a_gpu_of_40_gb_at_any_number_of_ranks(ranks, operation, size_bytes):
    """A GiB at most, and none longer than what it is compared with."""
    row = COLLECTIVES[operation]
    tiles = len({*row.sends(1, ranks), *row.receives(1, ranks)})
    segment = size_bytes // 4 // ranks
    periods = periods_of_tile(tiles, segment=segment, itemsize=4, device="cuda")
    assert tiles * periods * PERIOD * 4 <= 1 << 30
    assert periods * PERIOD < segment + PERIOD
    assert periods >= 1


def test_a_tile_is_the_sum_of_the_patterns_of_its_keys():
    """What a rank sends is no buffer of one value: a segment in another's place would not show."""
    import torch

    found = tile((3, 5), device=torch.device("cpu"), levels=PERIOD).tolist()
    assert found == [pattern(index, 3) + pattern(index, 5) for index in range(PERIOD)]
