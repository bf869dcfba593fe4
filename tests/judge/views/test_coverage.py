"""Which nodes took part in a job whose result is judged?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.results import Mesh, RankReport, Training
from preflight.judge.views.coverage import SHIFTS, without_part
from preflight.testing import healthy

NAMES = ("node1", "node2", "node3")


def test_a_node_that_the_job_was_not_started_on_took_no_part():
    """In the order of HOSTS; a job that names its nodes says it all."""
    mesh = Mesh(edges=2, ok=2, failed=(), node_names=("node3", "node1"))
    assert without_part(mesh, NAMES) == ("node2",)
    assert without_part(mesh, ("node1", "node3")) == ()


@pytest.mark.parametrize(("edges", "count", "missing"), [(6, 3, False), (2, 3, True), (40 * SHIFTS, 40, False)])
def test_an_older_mesh_tells_it_by_its_connections(edges, count, missing):
    """All pairs of a small cluster, 16 for each node of a large one; with fewer it is not known who took part."""
    names = tuple(f"node{number}" for number in range(count))
    mesh = Mesh(edges=edges, ok=edges, failed=())
    assert without_part(mesh, names) == (names if missing else ())


def test_an_older_job_tells_it_by_its_ranks():
    """A node without a rank took no part, unless the job failed: then its ranks tell nothing."""
    bench = healthy().bench()
    ranks = tuple(
        RankReport(rank=rank, node=node, device="cpu", import_seconds=1.0, init_seconds=0.1)
        for rank, node in enumerate(("node1", "node3"))
    )
    older = msgspec.structs.replace(bench, node_names=(), ranks=ranks)
    assert without_part(older, NAMES) == ("node2",)
    failed = Training(launcher="direct", world_size=2, losses=(), ranks=(), not_measured="rank 1 was OOM-killed")
    assert without_part(failed, NAMES) == ()
