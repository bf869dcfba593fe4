"""Is a node that took no part in a job told from one that was measured?"""

from __future__ import annotations

import itertools

import msgspec
import pytest

from preflight.judge.coverage import SHIFTS, without_part
from preflight.results import Mesh
from preflight.testing import healthy

NAMES = ("node1", "node2", "node3")
replace = msgspec.structs.replace


def mesh(edges: int, *names: str) -> Mesh:
    """A mesh in which so many connections were tried, all of which worked."""
    return Mesh(edges=edges, ok=edges, failed=(), node_names=names)


def test_a_job_that_names_its_nodes_is_believed():
    """In the order of those that are asked about; who was not asked about is not told."""
    assert without_part(mesh(2, "node2", "node1"), NAMES) == ("node3",)
    assert without_part(mesh(6, *NAMES), NAMES) == ()
    assert without_part(mesh(6, *NAMES, "node4"), NAMES) == ()
    for measured in (healthy().bench(), healthy().training()):
        assert without_part(replace(measured, node_names=("node3",)), NAMES) == ("node1", "node2")


@pytest.mark.parametrize(
    ("count", "edges", "is_whole"),
    [
        (3, 6, True),
        (3, 5, False),
        (3, 0, False),
        (1, 0, True),
        (40, 40 * SHIFTS, True),
        (40, 40 * SHIFTS - 1, False),
    ],
)
def test_a_mesh_of_an_earlier_version_tells_by_its_connections(count, edges, is_whole):
    """Each node tries all others, or so many of a large mesh; with fewer it is not known who took part."""
    names = tuple(f"node{number}" for number in range(count))
    assert without_part(mesh(edges), names) == (() if is_whole else names)


def test_a_job_of_an_earlier_version_tells_by_its_ranks():
    """A node without a rank took no part."""
    for measured in (healthy().bench(), healthy().training()):
        old = replace(measured, node_names=(), ranks=tuple(rank for rank in measured.ranks if rank.node != "node2"))
        assert measured.ranks
        assert without_part(old, NAMES) == ("node2",)


def test_a_job_that_failed_tells_nothing_by_its_ranks():
    """Its checks give no pass in any case: nobody is said to have been left out."""
    for measured in (healthy().bench(), healthy().training()):
        one = tuple(itertools.islice(measured.ranks, 1))
        for old in (
            replace(measured, node_names=(), ranks=one, not_measured="NCCL error"),
            replace(measured, node_names=(), ranks=()),
        ):
            assert without_part(old, NAMES) == ()
