"""Does every rank see the values of all?"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from preflight.job.ranks.training import place as places


def test_a_rank_alone_sees_its_own_values(data):
    """Through a real exchange, in double precision."""
    assert places.from_every_rank([1 / 3, 2.0**60], place=data.place) == [[1 / 3, 2.0**60]]


@pytest.mark.parametrize(("seen", "is_right"), [((1, 0), True), ((2, 0), False), ((1, 1), False)])
def test_a_world_that_accelerate_sees_otherwise_is_an_error(data, monkeypatch, seen, is_right):
    """Its worlds of one would train in silence."""
    processes, index = seen
    accelerate = SimpleNamespace(
        PartialState=lambda cpu: SimpleNamespace(num_processes=processes, process_index=index, cpu=cpu)
    )
    monkeypatch.setitem(__import__("sys").modules, "accelerate", accelerate)
    if is_right:
        places.look_through_accelerate(data.place)
    else:
        with pytest.raises(RuntimeError, match=f"a world of {processes} and rank {index}; wanted 1 and 0"):
            places.look_through_accelerate(data.place)
