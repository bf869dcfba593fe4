"""Which ranks does a job have where, and what does it take from the user's options and files?"""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from preflight.facts.cluster import Cluster
from preflight.job.options.options import Options
from preflight.job.start.placement import JobNodes
from preflight.judge.ledger.findings import Where
from preflight.launch.job import Start, Starting
from preflight.said.errors import NotMeasured
from preflight.testing import FakeRun, healthy, roce

NODES = ("node1", "node2")


def job_nodes(given: FakeRun, names: tuple[str, ...] = ("node1", "node2", "node3"), **options) -> JobNodes:
    """The nodes that answered so, of those asked for."""
    return JobNodes(given.cluster, names, Options(**options))


def test_nodes_with_gpus_get_a_rank_a_gpu():
    """In HOSTS order, rank 0 on the first."""
    nodes = job_nodes(roce(2), NODES)
    assert nodes.backend == "nccl"
    assert nodes.planned() == ("node1",) * 8 + ("node2",) * 8
    placed = nodes.placements()
    assert [placement.rank for placement in placed] == list(range(16))
    assert [placement.local_rank for placement in placed] == [*range(8), *range(8)]
    assert {placement.local_world_size for placement in placed} == {8}


def test_nodes_without_gpus_get_a_rank_each_and_one_node_two():
    """A world of one would prove nothing."""
    assert job_nodes(healthy()).planned() == ("node1", "node2", "node3")
    assert job_nodes(healthy(1), ("node1",)).planned() == ("node1", "node1")


def test_the_users_number_wins_over_slots_and_slots_over_gpus():
    """--ranks-per-node, then slots=, then what is there."""
    slots = tuple(dataclasses.replace(node, slots=4) for node in roce(2).cluster)
    for number, ranks in (("auto", 8), ("1", 2)):
        nodes = JobNodes(Cluster(slots), NODES, Options(ranks_per_node=number))
        assert len(nodes.planned()) == ranks


@pytest.mark.parametrize(("variable", "ranks"), [("0,1,2,3", 4), ("0,9", 1), ("all", 8)])
def test_nodes_get_a_rank_for_each_gpu_that_the_job_sees(variable, ranks):
    """Of eight GPUs CUDA shows those that the variable names."""
    given = roce(2).with_variables(CUDA_VISIBLE_DEVICES=variable)
    assert len(job_nodes(given, NODES).planned()) == 2 * ranks


def test_with_mig_a_process_sees_one_slice():
    """However many GPUs are cut into slices."""
    sliced = tuple(msgspec.structs.replace(gpu, mig_mode="Enabled") for gpu in roce(2).cluster.first.gpu.readable())
    given = roce(2).broken("node1", "gpu", devices=sliced)
    assert job_nodes(given, NODES).planned().count("node1") == 1


def test_more_ranks_than_visible_gpus_are_refused_with_the_reason():
    """Else each would end with `invalid device ordinal`."""
    given = roce(2).with_variables("node2", CUDA_VISIBLE_DEVICES="0,1,2,3")
    nodes = job_nodes(given, NODES, ranks_per_node="8")
    with pytest.raises(NotMeasured, match="8 ranks on node2, where CUDA shows a process 4 GPUs"):
        nodes.job("collectives", {}, seconds=60.0)


@pytest.mark.parametrize(("asked", "given", "used"), [("gloo", roce(), "gloo"), ("auto", healthy(), "gloo")])
def test_the_backend_is_the_users_or_what_fits(asked, given, used):
    """GPUs may be left idle on request."""
    assert job_nodes(given, backend=asked).backend == used


def test_a_job_runs_on_the_nodes_that_answered():
    """Rank 0 meets the others at its training address; the layers of the environment go with it."""
    given = healthy()
    given = given.unreached("node1", "no route")
    job = job_nodes(given, env=("A=1",)).job("train", {"steps": 1}, seconds=60.0)
    assert job.nodes == ("node2", "node3")
    assert job.master_address == "10.0.0.2"
    assert job.environment == (("--env", {"A": "1"}),)
    assert job.seconds == 60.0


def by_hand(*ranks: tuple[int, ...]) -> Starting:
    """Files that number their processes themselves."""
    return Starting(tuple(Start("env", Where("f.sh", 1), processes=len(own), ranks=own) for own in ranks))


def test_ranks_run_where_the_users_files_place_them():
    """As many as each file starts, by the numbers that it gives them."""
    nodes = job_nodes(healthy(2), NODES, starting=by_hand((0, 2), (1,)))
    assert nodes.planned() == ("node1", "node2", "node1")
    assert [place.local_rank for place in nodes.placements(nodes.options.starting)] == [0, 0, 1]
    free = Starting((Start("torchrun", Where("f.sh", 1), processes=2, rendezvous="c10d"),))
    nodes = job_nodes(healthy(2), NODES, starting=free)
    assert nodes.planned() == ()
    assert len(nodes.placements(free)) == 4


def test_files_of_another_number_of_nodes_place_nothing():
    """Rather than a job that waits for a node that nobody starts."""
    with pytest.raises(NotMeasured, match="the launch files start 2 nodes; the job would have 3"):
        job_nodes(healthy(), starting=by_hand((0,), (1,))).planned()


def test_the_jobs_own_meeting_place_is_looked_at_and_not_borrowed():
    """The user's MASTER_ADDR reaches the facts, and no rank of ours."""
    nodes = job_nodes(healthy(), launch_variables=(("MASTER_ADDR", "n9"), ("NCCL_DEBUG", "INFO")))
    assert nodes.options.layers == [("launch files", {"MASTER_ADDR": "n9", "NCCL_DEBUG": "INFO"})]
    assert nodes.job("train", {}, seconds=9.0).environment == (("launch files", {"NCCL_DEBUG": "INFO"}),)
