"""Do the ranks' records become the section of the report, and nothing better than they said?"""

from __future__ import annotations

import asyncio
import dataclasses

import msgspec
import pytest

from preflight.job.measure import training
from preflight.job.options.options import Options
from preflight.job.start.outcome import Outcome, RankStory, conclude
from preflight.launch.job import Job, Placement
from preflight.said.errors import NotMeasured
from preflight.testing import healthy
from tests.job.measure.played import PlayedNode

PLACEMENTS = (Placement(0, "node1", 0, 1), Placement(1, "node2", 0, 1))
JOB = Job("train", training.settings("gloo", Options()), PLACEMENTS, "10.0.0.1", (), 60.0)
RANK = healthy().training().ranks[0]


def trained(rank: int) -> dict:
    fields = {name: getattr(RANK, name) for name in RANK.__struct_fields__ if name != "node"}
    return {"record": "trained", **fields, "rank": rank}


def outcome(failure: str = "", guilty: tuple[str, ...] = ()) -> Outcome:
    stories = tuple(RankStory(placement, records=[trained(placement.rank)]) for placement in PLACEMENTS)
    stories[0].records.append({"record": "losses", "losses": [5.5, 5.0, 4], "tokens_per_s": 900})
    return Outcome(stories, failure, guilty, 3.0)


def test_the_records_are_the_section():
    """Ranks with the nodes where we put them, losses as they fell."""
    section = training.summarise(JOB, outcome(), launcher="torchrun")
    assert (section.launcher, section.world_size, section.backend, section.steps) == ("torchrun", 2, "gloo", 3)
    assert section.losses == (5.5, 5.0, 4.0)
    assert [(rank.rank, rank.node) for rank in section.ranks] == [(0, "node1"), (1, "node2")]
    assert section.tokens_per_s == 900.0


def test_a_training_that_failed_has_no_ranks_but_who_is_guilty():
    """Half a result reads as none."""
    section = training.summarise(JOB, outcome("rank 1 on node2 stopped", ("node2",)), launcher="direct")
    assert (section.ranks, section.not_measured_nodes) == ((), ("node2",))
    with pytest.raises(NotMeasured, match="rank 1 on node2 stopped"):
        section.joined()


@pytest.mark.parametrize(("left_out", "words"), [("joined", "that it had joined"), ("trained", "what it trained")])
def test_a_rank_that_ends_well_and_keeps_a_record_back_leaves_the_training_not_measured(left_out, words):
    """The other ranks' figures are no half result; its node is named."""

    def said(rank: int) -> list[dict]:
        joined = {"record": "joined", "device": "cpu", "import_seconds": 1.0, "init_seconds": 1.0, "nccl": ""}
        losses = [{"record": "losses", "losses": [5.5, 5.0], "tokens_per_s": 900.0}] if rank == 0 else []
        records = [joined, trained(rank), *losses]
        return [one for one in records if rank == 0 or one["record"] != left_out]

    nodes = {name: PlayedNode({"collectives": said}) for name in ("node1", "node2")}
    options = Options(launcher="direct")
    section, _ = asyncio.run(training.run(nodes, JOB, options, algbw_gbytes_per_s=None))
    assert section.ranks == ()
    assert section.not_measured_nodes == ("node2",)
    assert f"rank 1 on node2 finished, but never said {words}" in section.not_measured


def test_scaling_is_against_each_node_by_itself():
    """Two nodes that each need half the time alone reach half of what they could; one node has no figure."""
    alone = {"alone_step_seconds_median": RANK.step_seconds_median / 2}
    ranks = [msgspec.structs.replace(RANK, rank=rank, node=f"node{rank}", **alone) for rank in (0, 1)]
    assert training.scaling_efficiency(tuple(ranks)) == pytest.approx(0.5)
    assert training.scaling_efficiency((RANK,)) is None


def test_where_the_job_stopped_is_told_with_its_cause():
    """Stage, ranks, last lines, cause and fix of the first rank to blame."""
    told = [RankStory(placement, stage="running", error="Timed out waiting") for placement in PLACEMENTS]
    told[1].error, told[1].exit, told[1].log = "", "-9", "step 3\n"
    failure = training.failure_of(conclude(JOB, dict(enumerate(told)), {}, 1.0))
    assert (failure.nodes, failure.ranks, failure.stage, failure.is_proven) == (("node2",), (1,), "running", True)
    assert failure.last_lines == ("step 3",)
    assert "killed" in failure.cause
    assert failure.fix


def test_a_rank_that_ends_for_no_known_reason_leads_to_its_log():
    """By the rank and its node."""
    fix = training.where_to_read(RankStory(PLACEMENTS[1]))
    assert fix.startswith("read logs/training-rank1-node2.log of this report")
    assert "`dmesg -T` on node2" in fix


def test_the_settings_are_those_that_were_asked_for():
    """The launcher's own strategy counts before the one that was given."""
    asked = Options(launcher="torchrun", strategy="fsdp", accumulate=3, precision="bf16", run_id="r7")
    found = training.settings("nccl", asked)
    assert found["backend"] == "nccl"
    assert (found["strategy"], found["accumulate"], found["precision"]) == ("fsdp", 3, "bf16")
    assert (found["checkpoint_name"], found["steps"], found["seed"]) == ("preflight-r7", training.STEPS, training.SEED)
    assert training.settings("nccl", dataclasses.replace(asked, launcher="deepspeed"))["strategy"] == "zero2"
