"""Does the reference training learn? The rank that spoils it must be told from the others."""

from __future__ import annotations

import math

import msgspec
import pytest

from preflight.facts.results import TrainedRank
from preflight.job.ranks import train

THREE_STEPS = {"steps": 3}
# Each option of the training, and how far rounding alone takes its first step from that of one process: bf16 rounds
# at 2^-8 where fp32 rounds at 2^-24.
ROUNDING = {"fp32": 1e-4, "bf16": 2e-2}
OPTIONS = {
    "plain": {},
    "fsdp": {"strategy": "fsdp"},
    "accumulate": {"accumulate": 4},
    "activations": {"checkpoint_activations": True},
    "bf16": {"precision": "bf16"},
    "all": {"precision": "bf16", "accumulate": 2, "checkpoint_activations": True},
    "all in shards": {"strategy": "fsdp", "precision": "bf16", "accumulate": 2, "checkpoint_activations": True},
}

# As a site customisation could: the model that DDP wraps gets a hook that spoils the gradient of one parameter.
SPOIL_BEFORE = """
import torch
from torch.nn import parallel
init = parallel.DistributedDataParallel.__init__
def __init__(self, module, *args, **kwargs):
    dict(module.named_parameters())["blocks.1.attended.weight"].register_hook(lambda gradient: gradient * {factor})
    init(self, module, *args, **kwargs)
parallel.DistributedDataParallel.__init__ = __init__
"""
SPOIL_AFTER = """
from torch.optim.optimizer import register_optimizer_step_pre_hook
def spoil(optimizer, args, kwargs):
    optimizer.param_groups[0]["params"][5].grad.mul_(1.5)
register_optimizer_step_pre_hook(spoil)
"""
BROKEN_ARITHMETIC = """
from torch.nn import functional
right = functional.gelu
functional.gelu = lambda x: right(x) * 1.1
"""
ANOTHERS_SHARD = """
from torch.utils import data
class Repeated(data.DistributedSampler):
    def __init__(self, *args, rank, **kwargs):
        super().__init__(*args, rank=0 if rank == 1 else rank, **kwargs)
data.DistributedSampler = Repeated
"""


@pytest.fixture(scope="module")
def healthy(ranks_by_variables):
    """Records by rank of a healthy training of two separate processes, with the settings it has by itself."""
    return ranks_by_variables("train", ranks=2, settings={})


ANOTHER_SEED = """
import json, os
settings = json.loads(os.environ["PREFLIGHT_SETTINGS"])
os.environ["PREFLIGHT_SETTINGS"] = json.dumps({**settings, "seed": 1})
"""
FORGETFUL = """
import torch
from torch.nn import functional
right, calls = functional.cross_entropy, []
def drifting(*words):
    calls.append(None)
    return right(*words) * (1 + len(calls) / 1000)
functional.cross_entropy = drifting
"""
NO_SYNC_LOSES = """
from torch.nn import parallel
init = parallel.DistributedDataParallel.no_sync
def no_sync(self):
    for parameter in self.parameters():
        parameter.register_hook(lambda gradient: gradient * 0.5)
    return init(self)
parallel.DistributedDataParallel.no_sync = no_sync
"""
SPOIL_MOMENTS = """
from torch.optim.optimizer import register_optimizer_step_post_hook
calls = []
def spoil(optimizer, args, kwargs):
    calls.append(None)
    if len(calls) == 3:  # after the last step: the parameters do not show it any more
        optimizer.state[optimizer.param_groups[0]["params"][5]]["exp_avg"].mul_(1.001)
register_optimizer_step_post_hook(spoil)
"""
UNLEARN = """
from torch.optim.optimizer import register_optimizer_step_pre_hook
calls = []
def climb(optimizer, args, kwargs):
    calls.append(None)
    for parameter in optimizer.param_groups[0]["params"] if len(calls) > 1 else ():
        parameter.grad.neg_()
register_optimizer_step_pre_hook(climb)
"""
STALE_STATE = """
from torch.distributed.checkpoint import state_dict
right = state_dict.set_state_dict
state_dict.set_state_dict = lambda model, *words, **named: None
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where checkpoints go."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def played(forked_scenarios, folder):
    """Every scenario of this file, played once."""
    kept = {"settings": {"checkpoint_dir": str(folder)}}
    lost = {"settings": {"checkpoint_dir": str(folder / "nowhere")}}
    before = SPOIL_BEFORE.format(factor=1.5)
    return forked_scenarios(
        "train",
        {
            "again": {"ranks": 2},
            "alone": {"ranks": 1, "settings": THREE_STEPS},
            "four": {"ranks": 4, "settings": THREE_STEPS},
            "before 2": {"ranks": 2, "settings": THREE_STEPS, "plants": {"1": before}},
            "before bf16": {"ranks": 2, "settings": {**THREE_STEPS, **OPTIONS["all"]}, "plants": {"1": before}},
            "before 3": {"ranks": 3, "settings": THREE_STEPS, "plants": {"0": before}},
            "after 2": {"ranks": 2, "settings": THREE_STEPS, "plants": {"0": SPOIL_AFTER}},
            "after 3": {"ranks": 3, "settings": THREE_STEPS, "plants": {"2": SPOIL_AFTER}},
            "after, no reference": {
                "ranks": 3,
                "settings": {**THREE_STEPS, "reference_world": 2},
                "plants": {"1": SPOIL_AFTER},
            },
            "arithmetic": {"ranks": 3, "settings": THREE_STEPS, "plants": {"1": BROKEN_ARITHMETIC}},
            "infinite": {
                "ranks": 3,
                "settings": THREE_STEPS,
                "plants": {"1": SPOIL_BEFORE.format(factor="float('nan')")},
            },
            "shard": {"ranks": 3, "settings": THREE_STEPS, "plants": {"1": ANOTHERS_SHARD}},
            "seed": {"ranks": 3, "settings": THREE_STEPS, "plants": {"1": ANOTHER_SEED}},
            "forgetful": {"ranks": 2, "settings": THREE_STEPS, "plants": {"1": FORGETFUL}},
            "no_sync": {"ranks": 2, "settings": THREE_STEPS, "plants": {"1": NO_SYNC_LOSES}},
            "checkpoint": {"ranks": 2, **kept},
            "sharded": {"ranks": 2, "settings": {**kept["settings"], "strategy": "fsdp"}},
            "stale": {"ranks": 2, **kept, "plants": {"1": STALE_STATE}},
            "unwritable": {"ranks": 2, **lost},
            "writer killed": {"ranks": 2, "settings": {**kept["settings"], "dying_rank": 0, "dying_step": 9}},
            "moments": {"ranks": 3, "settings": THREE_STEPS, "plants": {"1": SPOIL_MOMENTS}},
            "unlearning": {"ranks": 2, "plants": {"0": UNLEARN, "1": UNLEARN}},
            "killed": {"ranks": 2, "settings": {"drill": True, "dying_rank": 1, "dying_step": 2}},
        },
    )


@pytest.fixture(scope="module", params=[1, 2, 3, 4])
def optioned(request, forked_scenarios):
    """How many ranks, and every option played on them once."""
    settings = {name: {"steps": 1, **settings} for name, settings in OPTIONS.items()}
    scenarios = {name: {"ranks": request.param, "settings": settings[name]} for name in OPTIONS}
    return request.param, forked_scenarios("train", scenarios)


def trained(records):
    """The ranks of a run as the report holds them."""
    found = [record for record in records if record["record"] == "trained"]
    kept = [{key: value for key, value in record.items() if key not in ("record", "hostname")} for record in found]
    return [msgspec.convert({"node": "node1", **record}, TrainedRank) for record in kept]


def losses(records):
    (found,) = [record["losses"] for record in records if record["record"] == "losses"]
    return found


def test_importing_the_program_does_not_import_torch():
    """Judging fingerprints needs no torch: nothing at module level imports it."""
    assert not hasattr(train, "torch")


def test_the_loss_falls(healthy):
    """The generated data can be learnt: the loss falls by more than 1 from about the logarithm of the vocabulary."""
    curve = losses(healthy[0])
    assert len(curve) == 12
    assert curve[0] == pytest.approx(math.log(128), abs=0.5)
    assert curve[-1] < curve[0] - 1


def test_the_same_seed_gives_the_same_curve_again(healthy, played):
    """Nothing in the data, the model or the sharding is left to chance."""
    assert losses(played["again"]["records"]) == losses(healthy[0])


def test_each_rank_joins_and_ends(healthy):
    """Every rank says where it is and that it is done."""
    for records in healthy.values():
        stages = [record["stage"] for record in records if record["record"] == "stage"]
        assert stages == ["import", "rendezvous", "communicator", "first_step", "running", "checking", "done"]
        assert records[-1] == {"record": "done"}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_trains_as_one_process_does(optioned, option):
    """The first step of all ranks is the one that a single process takes on the whole batch, within rounding."""
    rounding = ROUNDING[OPTIONS[option].get("precision", "fp32")]
    ranks, played = optioned
    told = trained(played[option]["records"])
    assert [rank.rank for rank in told] == list(range(ranks))
    assert all(rank.parameters_error < rounding and rank.gradient_error < rounding for rank in told)
    assert all(rank.reference_agreed and rank.finite and rank.replay_error == 0 for rank in told)
    assert all(rank.accumulation_error < rounding for rank in told)
    assert len({rank.parameters_digest for rank in told}) == 1


@pytest.mark.parametrize("scenario", ["again", "alone", "four"])
def test_healthy_ranks_match_their_peers_and_a_single_process(played, scenario):
    """Errors are rounding, parameters are equal to the last bit, times are positive, shards are different."""
    ranks = trained(played[scenario]["records"])
    assert max(rank.gradient_error for rank in ranks) < 1e-4
    assert max(rank.parameters_error for rank in ranks) < 1e-4
    assert all(rank.reference_agreed and rank.finite for rank in ranks)
    assert len({rank.parameters_digest for rank in ranks}) == 1
    assert len({rank.samples_digest for rank in ranks}) == len(ranks)
    assert all(0 < rank.communication_seconds_median < rank.step_seconds_median for rank in ranks)
    assert all(rank.step_seconds_median <= rank.step_seconds_p95 for rank in ranks)


@pytest.mark.parametrize(("scenario", "culprit"), [("before 2", 1), ("before 3", 0), ("before bf16", 1)])
def test_a_gradient_spoilt_before_the_all_reduce_names_its_rank(played, scenario, culprit):
    """Every rank then holds the same parameters; the gradient that went in is wrong on one rank only."""
    ranks = trained(played[scenario]["records"])
    assert len({rank.parameters_digest for rank in ranks}) == 1
    assert [rank.rank for rank in ranks if rank.gradient_error > 0.1] == [culprit]
    assert all(rank.gradient_error < ROUNDING["bf16"] for rank in ranks if rank.rank != culprit)
    assert all(rank.reference_agreed for rank in ranks)


def test_moments_that_differ_show_in_the_optimizer_alone(played):
    """The parameters are still equal to the last bit."""
    ranks = trained(played["moments"]["records"])
    assert len({rank.parameters_digest for rank in ranks}) == 1
    assert ranks[0].optimizer_digest == ranks[2].optimizer_digest != ranks[1].optimizer_digest


def test_a_model_that_unlearns_shows_in_its_losses(played):
    """Every rank agrees with every other, and the first step was right."""
    ranks, curve = trained(played["unlearning"]["records"]), losses(played["unlearning"]["records"])
    assert max(rank.parameters_error for rank in ranks) < ROUNDING["fp32"]
    assert len({rank.parameters_digest for rank in ranks}) == 1
    assert curve[-1] > curve[0]


@pytest.mark.parametrize(("scenario", "culprit"), [("after 2", 0), ("after 3", 2), ("after, no reference", 1)])
def test_a_gradient_spoilt_after_the_all_reduce_names_its_rank(played, scenario, culprit):
    """What went in is right everywhere; the parameters of one rank leave those of the single process."""
    ranks = trained(played[scenario]["records"])
    assert all(rank.gradient_error < 1e-4 for rank in ranks)
    assert [rank.rank for rank in ranks if rank.parameters_error > 1e-2] == [culprit]
    assert all(rank.parameters_error < 1e-4 for rank in ranks if rank.rank != culprit)
    assert len({rank.parameters_digest for rank in ranks}) == 2


def test_a_rank_that_computes_wrongly_everywhere_is_named_by_its_peers(played):
    """Its plain copy is as wrong as its training: two peers outvote it, and it accuses no one."""
    ranks = trained(played["arithmetic"]["records"])
    assert [rank.rank for rank in ranks if rank.gradient_error > 1e-2] == [1]
    assert all(rank.gradient_error < 1e-4 for rank in ranks if rank.rank != 1)
    assert not any(rank.reference_agreed for rank in ranks)


def test_the_rank_where_numbers_first_stop_being_finite_is_named(played):
    """After one step all ranks are spoilt; only the one that began it is not finite, and every record is JSON."""
    ranks = trained(played["infinite"]["records"])
    assert [rank.rank for rank in ranks if not rank.finite] == [1]
    assert [rank.rank for rank in ranks if rank.gradient_error > 1e-2] == [1]
    assert len(losses(played["infinite"]["records"])) == 1


def test_a_shard_used_twice_shows(played):
    """The rank that took another's samples has that one's digest, and a gradient that is not of its own samples."""
    ranks = trained(played["shard"]["records"])
    assert ranks[0].samples_digest == ranks[1].samples_digest != ranks[2].samples_digest
    assert [rank.rank for rank in ranks if rank.gradient_error > 1e-2] == [1]


@pytest.mark.parametrize("scenario", ["again", "alone", "four"])
def test_what_is_computed_twice_is_the_same(played, scenario):
    """On a CPU the first steps repeat to the bit; two halves of a batch add up to the whole within rounding."""
    ranks = trained(played[scenario]["records"])
    assert {rank.replay_error for rank in ranks} == {0.0}
    assert max(rank.accumulation_error for rank in ranks) < 1e-4
    assert len({rank.optimizer_digest for rank in ranks}) == 1
    assert all(rank.samples_right and rank.samples_shared == 0 for rank in ranks)
    assert all(rank.memory_peak_bytes > 1 << 20 and rank.data_seconds_median > 0 for rank in ranks)


def test_a_shard_used_twice_is_told_by_its_rank(played):
    """The rank itself sees that its samples are not those that it should have; both see that they are shared."""
    ranks = trained(played["shard"]["records"])
    assert [rank.samples_right for rank in ranks] == [True, False, True]
    assert [rank.samples_shared for rank in ranks] == [12, 12, 0]
    (missing,) = [r["samples_missing"] for r in played["shard"]["records"] if r["record"] == "losses"]
    assert missing == 12


def test_a_seed_that_differs_is_told_by_its_rank(played):
    """The seed that most ranks have counts."""
    assert [rank.samples_right for rank in trained(played["seed"]["records"])] == [True, False, True]


def test_a_rank_that_does_not_repeat_itself_is_named(played):
    """Its losses change from one time to the next; those of its peer change with the gradients it is sent."""
    assert trained(played["forgetful"]["records"])[1].replay_error > 1e-3


def test_a_wrong_accumulation_shows(played):
    """Half of what one rank gathers is lost."""
    assert trained(played["no_sync"]["records"])[1].accumulation_error > 1e-2


@pytest.mark.parametrize("scenario", ["checkpoint", "sharded"])
def test_training_resumes_from_the_checkpoint_to_the_same_losses(played, folder, scenario):
    """Through DDP and in shards, to the bit; and the file is gone afterwards."""
    ranks = trained(played[scenario]["records"])
    assert [(rank.checkpoint_error, rank.resume_error) for rank in ranks] == [("", 0.0)] * 2
    assert list(folder.iterdir()) == []


def test_shards_train_to_the_same_losses_as_whole_copies(played):
    """Only the order of additions differs."""
    assert losses(played["sharded"]["records"]) == pytest.approx(losses(played["again"]["records"]), rel=1e-4)


def test_a_state_that_is_not_restored_shows(played):
    """The rank that goes on from the start has other losses."""
    assert trained(played["stale"]["records"])[1].resume_error > 1e-3


def test_a_writer_that_is_killed_leaves_no_checkpoint(played, folder):
    """Nobody was left to remove it; the file goes with the rank that wrote it."""
    assert played["writer killed"]["codes"] == [-9, 1]
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_by_rank_0_alone(played):
    """Nobody resumes, nobody hangs, and the ranks that only have nothing to read accuse no one."""
    first, second = trained(played["unwritable"]["records"])
    assert "FileNotFoundError" in first.checkpoint_error
    assert (second.checkpoint_error, second.resume_error) == ("", None)


def test_a_rank_kills_itself_where_the_drill_says(played):
    """The other one fails at its next exchange."""
    assert played["killed"]["codes"] == [1, -9]
