"""Which jobs does a run start, and which does it refuse before a rank is started?"""

import pytest

from preflight.job.options.options import Options
from preflight.job.start.outcome import Outcome, RankStory
from preflight.job.start.placement import JobNodes
from preflight.judge.ledger.findings import Where
from preflight.launch.job import Placement, Start, Starting
from preflight.reach.hosts import parse_hosts
from preflight.run import jobs
from preflight.run.stages import Stages
from preflight.said.errors import NotApplicable
from preflight.testing import healthy, roce


def crew(given, **options) -> JobNodes:
    """The nodes of a run with these options."""
    names = given.cluster.names
    return JobNodes(given.cluster, names, Options(hosts=parse_hosts(",".join(names)), **options))


def test_files_that_cannot_start_the_job_are_no_failure_of_the_nodes():
    """Slurm's; accelerate's DeepSpeed where no node has a GPU."""
    deepspeed = Starting((Start("accelerate", Where("f.sh", 3), needs_gpus=True),))
    for starting, why in ((Starting(refusal="f.sh:1: srun starts it"), "srun"), (deepspeed, "f.sh:3: without GPUs")):
        with pytest.raises(NotApplicable, match=why):
            jobs.training_job(crew(healthy(), starting=starting), Stages(300.0))
    assert jobs.not_started(crew(roce(2), starting=deepspeed)) == ""


def test_the_ranks_of_the_bench_have_no_more_time_than_the_run():
    """And as much as the sweep takes, where there is more."""
    short, long = (
        jobs.bench_job(crew(healthy()), Stages(limit), racks={}, earlier=()).seconds for limit in (60.0, 900.0)
    )
    assert 51.0 < short <= 52.0
    assert jobs.BENCH_SECONDS < long < 300.0


def test_the_search_for_what_is_slow_takes_longer_over_all_pairs_and_over_nccl():
    """Its limit is known before anything is started."""
    plain = jobs.search_seconds(crew(healthy()))
    assert jobs.search_seconds(crew(healthy(), full_mesh=True)) > plain
    assert jobs.search_seconds(crew(roce(3))) > plain


def test_what_ranks_printed_is_kept_by_stage_rank_and_node():
    """With NCCL's log and the flight recorder's beside it, and the commands that started them."""
    story = RankStory(Placement(3, "node2", 1, 2), log="Traceback", files={"trace": "{}"})
    outcome = Outcome((story,), "", (), 1.0, commands={"node2": "torchrun train.py"})
    assert jobs.logs_of({"bench": outcome}) == {
        "bench-launch-node2.log": "torchrun train.py",
        "bench-rank3-node2.log": "Traceback",
        "bench-rank3-node2-flight-recorder.log": "{}",
    }
