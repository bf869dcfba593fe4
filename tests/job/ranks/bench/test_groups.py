"""Is a rank of a group told from the same number among all?"""

from __future__ import annotations

import torch

from preflight.job.ranks.bench.groups import Place, largest, places


def place(**more) -> Place:
    return Place(rank=0, ranks=1, device=torch.device("cpu"), store=None, **more)


def test_a_rank_of_a_group_has_its_number_among_all():
    """Where all ranks are one group, the numbers are the same."""
    assert [place(members=(3, 5, 7)).world(rank) for rank in range(3)] == [3, 5, 7]
    assert place().world(4) == 4


def test_a_rank_waits_in_the_rounds_that_it_is_not_in():
    """Nobody makes a group for others."""
    assert places([[{"name": "others", "ranks": [1, 2]}]], place=place(), patience=None, records=None) == [None]


def test_the_largest_of_one_rank_is_its_own(world):
    """The collective is a real one."""
    assert largest([3.0, -1.0], place=place()) == [3.0, -1.0]
