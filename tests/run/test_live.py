"""What does a run start on which nodes, in which time, and what does it say when there is none left?"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from preflight.job.options.options import Options
from preflight.reach.hosts import parse_hosts
from preflight.run.live import MESH_SECONDS, Run
from preflight.run.source import Measurements
from preflight.said.errors import NotMeasured, PreflightError
from preflight.testing import FakeRun, healthy, roce
from preflight.testing.hardware import gpus


def run_of(given: FakeRun, *, hosts: str = "node[1-3]", **options) -> Run:
    """A run as it stands when its nodes have answered so."""
    run = Run(Options(hosts=parse_hosts(hosts), **options))
    run.cluster = given.cluster
    return run


def test_busy_gpus_are_left_alone_unless_forced():
    """Neither bandwidth nor training disturbs a program that is at work; Gloo needs no GPU."""
    given = roce(2).broken("node2", "gpu", devices=(*gpus(3), *gpus(1, index=3, processes=1), *gpus(4, processes=0)))
    for stage in (run_of(given, hosts="node[1-2]").bench, run_of(given, hosts="node[1-2]").training):
        with pytest.raises(NotMeasured, match=r"other programs use GPU 3 of node2, .*--force"):
            stage()
    for more in ({"force": True}, {"backend": "gloo", "ranks_per_node": "1"}):
        assert run_of(given, hosts="node[1-2]", **more).crew.job("train", {}, seconds=60.0).world_size in (12, 2)


def test_a_scope_that_leaves_nobody_a_peer_measures_nothing():
    """Before a rank is started."""
    with pytest.raises(NotMeasured, match="--scope intra: no node has two ranks"):
        run_of(healthy(), bench_scope="intra").bench()


def test_a_run_without_time_left_measures_nothing_more():
    """What is kept back is for ending the nodes and writing the report."""
    run = run_of(healthy())
    run.stages.begun -= run.options.deadline_seconds
    for stage in (run.mesh, run.bench, run.training):
        with pytest.raises(NotMeasured, match="the deadline of 300 s was reached"):
            stage()


def test_a_stage_that_has_no_time_leaves_nothing_that_nobody_awaits(recwarn):
    """Python would complain of it on the screen."""
    run = run_of(healthy())
    run._fleet = SimpleNamespace(sessions={}, waiting=tuple)
    run.stages.begun -= run.options.deadline_seconds
    with pytest.raises(NotMeasured, match="the deadline"):
        run.end()
    assert [str(warning.message) for warning in recwarn] == []


def test_a_run_that_was_not_opened_has_no_sessions():
    """Closing it is nothing; asking it is a bug that shows."""
    run = run_of(healthy())
    run.close()
    with pytest.raises(PreflightError, match="not opened"):
        _ = run.fleet


def test_what_is_left_out_gets_no_rank():
    """Later jobs run on the others, rank 0 on the first of them; it is noted once."""
    run = run_of(healthy())
    run.leave_out({"node1"})
    run.leave_out({"node1"})
    assert run.planned() == ("node2", "node3")
    assert run.crew.job("train", {}, seconds=10.0).master_address == "10.0.0.2"
    assert run.notes == ["--prune: node1 left out; later jobs ran on node[2-3]"]


def test_what_the_whole_mesh_of_many_nodes_takes_is_said_first():
    """And refused where the deadline leaves less; of few nodes there is nothing to say."""
    run = run_of(healthy(), deadline=300.0)
    assert run._all_pairs_seconds(128) == MESH_SECONDS
    assert run.notes == []
    assert run._all_pairs_seconds(1000) > MESH_SECONDS
    assert run.notes == ["connections between all 999000 pairs of 1000 nodes: about 23 s"]
    with pytest.raises(NotMeasured, match="give a longer --deadline"):
        run_of(healthy(), deadline=20.0)._all_pairs_seconds(1000)


def test_a_run_holds_what_the_report_needs_before_anything_was_measured():
    """Every host as it was written, none reached; asking for measurements starts no job."""
    run = Run(Options(hosts=parse_hosts("ada@node[1-2]")))
    assert run.measured() == Measurements()
    assert {name: (info.host, info.reached) for name, info in run.node_infos().items()} == {
        "node1": ("ada@node1", False),
        "node2": ("ada@node2", False),
    }
    assert 0 <= run.seconds < 60


@pytest.mark.parametrize("written", ["ada@node1:2222", "node1", "local"])
def test_a_host_is_reported_as_it_was_addressed(written):
    """User and port included, for whoever wants to log in."""
    (info,) = Run(Options(hosts=parse_hosts(written))).node_infos().values()
    assert info.host == {"local": "127.0.0.1"}.get(written, written)
