"""Is one operation timed, and a wrong element in what it delivers counted?"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from preflight.job.ranks.bench.groups import Place
from preflight.job.ranks.bench.operations import COLLECTIVES
from preflight.job.ranks.bench.trial import Trial


@pytest.fixture
def place(world):
    """The only rank."""
    return Place(rank=0, ranks=1, device=torch.device("cpu"), store=world.store)


@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_what_is_right_is_counted_as_right(place, name):
    """In each timed run, several at once too."""
    trial = Trial(COLLECTIVES[name], size_bytes=10_000, place=place, depth=2)
    assert trial.once() > 0
    assert trial.wrong == 0
    assert trial.bytes == 10_000


def test_each_wrong_element_is_counted(place):
    """Where the operation itself spoils three."""

    def spoilt(send, receive, place, is_async):
        work = COLLECTIVES["all_gather"].run(send, receive, place, is_async)
        receive[[5, 70, 900]] += 1
        return work

    trial = Trial(replace(COLLECTIVES["all_gather"], run=spoilt), size_bytes=10_000, place=place)
    trial.once()
    assert trial.wrong == 3
