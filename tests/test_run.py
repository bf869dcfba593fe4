"""Which ranks does a run place where, in which time, and what does it say when there is none left?"""

from __future__ import annotations

import dataclasses

import pytest

from preflight.errors import HostError, NotApplicable, NotMeasured, PreflightError
from preflight.facts.cluster import Cluster
from preflight.findings import Where
from preflight.hosts import parse_hosts
from preflight.launch.reference import Start, Starting
from preflight.options import Options
from preflight.run import Run
from preflight.sweep import Sweep
from tests.checks.cluster import FakeRun, ethernet, gpus, roce


def run_of(given: FakeRun, *, hosts: str = "node[1-3]", **options) -> Run:
    """A run as it stands when its nodes have answered so."""
    run = Run(Options(hosts=hosts, **options), parse_hosts(hosts))
    run.cluster = given.cluster
    return run


def test_nodes_with_gpus_get_a_rank_a_gpu():
    """In HOSTS order, rank 0 on the first."""
    run = run_of(roce(2), hosts="node[1-2]")
    assert run.backend == "nccl"
    assert run.planned() == ("node1",) * 8 + ("node2",) * 8
    placed = run.placements()
    assert [placement.rank for placement in placed] == list(range(16))
    assert [placement.local_rank for placement in placed] == [*range(8), *range(8)]
    assert {placement.local_world_size for placement in placed} == {8}


def test_nodes_without_gpus_get_a_rank_each_and_one_node_two():
    """A world of one would prove nothing."""
    assert run_of(ethernet()).planned() == ("node1", "node2", "node3")
    assert run_of(ethernet(1), hosts="node1").planned() == ("node1", "node1")


def test_the_users_number_wins_over_slots_and_slots_over_gpus():
    """--ranks-per-node, then slots=, then what is there."""
    nodes = tuple(dataclasses.replace(node, slots=4) for node in roce(2).cluster)
    run = run_of(roce(2), hosts="node[1-2]")
    run.cluster = Cluster(nodes)
    assert len(run.planned()) == 8
    run = run_of(roce(2), hosts="node[1-2]", ranks_per_node="1")
    run.cluster = Cluster(nodes)
    assert len(run.planned()) == 2


@pytest.mark.parametrize(("asked", "given", "used"), [("gloo", roce(), "gloo"), ("auto", ethernet(), "gloo")])
def test_the_backend_is_the_users_or_what_fits(asked, given, used):
    """GPUs may be left idle on request."""
    assert run_of(given, backend=asked).backend == used


def test_a_job_runs_on_the_nodes_that_answered():
    """Rank 0 meets the others at its training address; the layers of the environment go with it."""
    given = ethernet()
    given.failures = {"node1": "no route"}
    job = run_of(given, env=("A=1",)).job("train", {"steps": 1}, 60.0)
    assert job.nodes == ("node2", "node3")
    assert job.master_address == "10.0.0.2"
    assert job.environment == (("--env", {"A": "1"}),)
    assert 0 < job.seconds <= 60.0


def test_busy_gpus_are_left_alone_unless_forced():
    """Neither bandwidth nor training disturbs a program that is at work; Gloo needs no GPU."""
    given = roce(2).change("node2", "gpu", devices=(*gpus(3), *gpus(1, index=3, processes=1), *gpus(4, processes=0)))
    for stage in (run_of(given, hosts="node[1-2]").bench, run_of(given, hosts="node[1-2]").training):
        with pytest.raises(NotMeasured, match=r"other programs use GPU 3 of node2, .*--force"):
            stage()
    for more in ({"force": True}, {"backend": "gloo", "ranks_per_node": "1"}):
        assert run_of(given, hosts="node[1-2]", **more).job("train", {}, 60.0).world_size in (16, 2)


def test_a_scope_that_leaves_nobody_a_peer_measures_nothing():
    """Before a rank is started."""
    with pytest.raises(NotMeasured, match="--scope intra: no node has two ranks"):
        run_of(ethernet(), sweep=Sweep(scope="intra")).bench()


def test_a_run_without_time_left_measures_nothing_more():
    """What is kept back is for ending the nodes and writing the report."""
    run = run_of(ethernet())
    run.deadline -= run.options.deadline_seconds
    for stage in (run.mesh, run.bench, run.training):
        with pytest.raises(NotMeasured, match="the deadline of 300 s was reached"):
            stage()


def test_a_stage_that_loses_a_node_is_not_measured_and_its_time_is_noted():
    """One host failing is data."""
    run = run_of(ethernet())

    def lose() -> None:
        raise HostError("node2", "went away")

    with pytest.raises(NotMeasured, match="node2: went away"):
        run._timed("bench", lose)
    assert run.stage_seconds["bench"] >= 0


def test_a_run_that_was_not_opened_has_no_sessions():
    """Closing it is nothing; asking it is a bug that shows."""
    run = run_of(ethernet())
    run.close()
    with pytest.raises(PreflightError, match="not opened"):
        _ = run.fleet


def test_what_is_left_out_gets_no_rank():
    """Later jobs run on the others, rank 0 on the first of them; it is noted once."""
    run = run_of(ethernet())
    run.leave_out({"node1"})
    run.leave_out({"node1"})
    assert run.planned() == ("node2", "node3")
    assert run.job("train", {}, 10.0).master_address == "10.0.0.2"
    assert run.notes == ["--prune: node1 left out; later jobs ran on node[2-3]"]


def by_hand(*ranks: tuple[int, ...]) -> Starting:
    """Files that number their processes themselves."""
    return Starting(tuple(Start("env", Where("f.sh", 1), processes=len(own), ranks=own) for own in ranks))


def test_ranks_run_where_the_users_files_place_them():
    """As many as each file starts, by the numbers that it gives them."""
    run = run_of(ethernet(2), hosts="node[1-2]", starting=by_hand((0, 2), (1,)))
    assert run.planned() == ("node1", "node2", "node1")
    assert [place.local_rank for place in run.placements(run.options.starting)] == [0, 0, 1]
    free = Starting((Start("torchrun", Where("f.sh", 1), processes=2, rendezvous="c10d"),))
    run = run_of(ethernet(2), hosts="node[1-2]", starting=free)
    assert run.planned() == ()
    assert len(run.placements(free)) == 4


def test_files_of_another_number_of_nodes_place_nothing():
    """Rather than a job that waits for a node that nobody starts."""
    with pytest.raises(NotMeasured, match="the launch files start 2 nodes; the job would have 3"):
        run_of(ethernet(), starting=by_hand((0,), (1,))).planned()


def test_files_that_cannot_start_the_job_are_no_failure_of_the_nodes():
    """Slurm's; accelerate's DeepSpeed where no node has a GPU."""
    deepspeed = Starting((Start("accelerate", Where("f.sh", 3), needs_gpus=True),))
    for starting, why in ((Starting(refusal="f.sh:1: srun starts it"), "srun"), (deepspeed, "f.sh:3: without GPUs")):
        with pytest.raises(NotApplicable, match=why):
            run_of(ethernet(), starting=starting).training()
    assert run_of(roce(2), hosts="node[1-2]", starting=deepspeed).not_started() == ""


def test_the_jobs_own_meeting_place_is_looked_at_and_not_borrowed():
    """The user's MASTER_ADDR reaches the facts, and no rank of ours."""
    run = run_of(ethernet(), launch_variables=(("MASTER_ADDR", "n9"), ("NCCL_DEBUG", "INFO")))
    assert run.options.layers == [("launch files", {"MASTER_ADDR": "n9", "NCCL_DEBUG": "INFO"})]
    assert run.job("train", {}, 9.0).environment == (("launch files", {"NCCL_DEBUG": "INFO"}),)
