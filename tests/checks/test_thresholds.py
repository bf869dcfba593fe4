"""Does each check of nodes speak from the figure on that is listed, and not of the one before it?"""

from __future__ import annotations

from itertools import groupby

import pytest

from tests import planted
from tests.checks import thresholds
from tests.checks.thresholds import Edge

EDGES = {
    key: list(edges) for key, edges in groupby(sorted(thresholds.listed(), key=str), lambda one: (one.base, one.check))
}


@pytest.mark.parametrize("key", EDGES, ids=" ".join)
def test_a_check_speaks_from_its_edge_on(key):
    """`python -m tests.checks.thresholds` finds the edges; whoever moves a limit sees there which one it was."""
    edges: list[Edge] = EDGES[key]
    healthy = planted.cluster_of(key[0], thresholds.size_of(edges[0].subject))
    held = [(one.subject, one.field, value) for one in edges for value in (one.well, one.bad)]
    heard = [
        found
        for first in range(0, len(held), planted.NODES - 2)
        for found in thresholds.spoken(healthy, key[1], held[first : first + planted.NODES - 2])
    ]
    assert heard == [False, True] * len(edges), list(map(str, edges))
