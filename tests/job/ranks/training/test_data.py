"""Is each sample dealt to one rank, and is a shard that is another's noticed?"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.job.ranks.training.data import Data, check_samples, sample
from preflight.job.ranks.training.model import SHAPES
from preflight.job.ranks.training.place import Place
from preflight.job.ranks.training.settings import Settings


def dealt(rank: int, ranks: int, **settings) -> Data:
    place = Place(rank, ranks, device="cpu", import_seconds=0.0, first_here=rank, life=0)
    return Data(settings=Settings(**settings), place=place)


@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 99))
def test_every_sample_is_dealt_once(ranks, steps, seed):
    """Whatever the number of ranks."""
    data = dealt(0, ranks, steps=steps, seed=seed)
    everyones = [index for rank in range(ranks) for index in data.indices(rank)]
    assert sorted(everyones) == list(range(steps * SHAPES["tiny"].batch * ranks))


@given(st.integers(0, 10_000))
def test_each_token_follows_from_those_before(index):
    """A line through the vocabulary can be learnt."""
    shape = SHAPES["tiny"]
    tokens = sample(index, shape)
    steps = {(after - before) % shape.vocabulary for before, after in pairwise(tokens)}
    assert len(tokens) == shape.length + 1
    assert steps in ({1}, {2}, {3})


@pytest.mark.parametrize("wrong", [False, True])
def test_samples_that_are_not_the_ranks_own_are_told(data, wrong):
    """By the formula, without torch's sampler."""

    class Repeated(Data):
        def indices(self, rank: int) -> list[int]:
            return [0 for _ in super().indices(rank)]

    found = check_samples((Repeated if wrong else Data)(settings=replace(data.settings, steps=3), place=data.place))
    assert found["samples_right"] != wrong
    assert (found["samples_missing"] > 0) == wrong
