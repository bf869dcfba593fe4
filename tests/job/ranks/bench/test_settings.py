"""Can the ranks be asked for what the benchmark sends?"""

from __future__ import annotations

import pytest

from preflight.job.ranks.bench.settings import PIPELINED, Settings


@pytest.mark.parametrize(("mode", "depth"), [("blocking", 1), ("pipelined", PIPELINED)])
def test_several_operations_are_on_their_way_only_where_asked_for(mode, depth):
    """In the other mode the latency of each is in its time."""
    assert Settings(mode=mode).depth == depth


def test_a_mistyped_setting_is_refused():
    """With its name."""
    with pytest.raises(TypeError, match="'size'"):
        Settings(size=1)
