"""Is a hang that a limit ended told from a job that simply needed more time?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from preflight.diagnose.found import Evidence
from preflight.diagnose.pace import Standstill, is_progress

LIMIT = "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2024-04-20T{}:00 DUE TO TIME LIMIT ***"
WATCHDOG = "[rank{0}]:[E] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=6) ran for 600027 milliseconds"
OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def steps(ranks=(0,), *, last=30, minutes=1):
    """Lines of progress, one for each rank and minute."""
    return [
        f"[rank{rank}]: 2024-04-20 {9 + n * minutes // 60:02}:{n * minutes % 60:02}:00,000 step: {n} loss: 2.1"
        for n in range(last)
        for rank in ranks
    ]


def names(lines):
    """The causes, the first one first."""
    return [finding.cause.name for finding in diagnose(lines).causes]


def test_a_training_that_stood_still_for_long_is_named_before_the_limit_that_ended_it():
    """With the step and the time since then."""
    found = diagnose([*steps(), LIMIT.format("12:13")]).causes
    assert [finding.cause.name for finding in found] == ["standstill", "time-limit"]
    assert "no line of progress in the last 164 minutes after step 29" in found[0].detail


def test_the_rank_that_had_come_less_far_is_named():
    """It is the one to look at."""
    lines = [*steps((0, 1, 2, 3), last=28), *steps((0, 1, 3))[28 * 3 :], LIMIT.format("12:13")]
    found = diagnose(lines).causes[0]
    assert found.ranks == (2,)
    assert "rank 2 had only come to step 27" in found.detail


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        (steps(), "09:31"),  # the last step was a minute before
        (steps(), "09:40"),  # a checkpoint may take that long
        (steps(), "11:29"),  # full hours: the program printed the time of another zone
        (steps(last=10, minutes=20), "12:50"),  # its steps take that long
        (steps(last=3), "12:13"),  # too few to know
        (["step 1 loss 2", "step 2 loss 2"] * 9, "12:13"),  # without times
    ],
)
def test_a_limit_alone_is_only_a_limit(lines, end):
    """Where the times of the lines do not show that the training had stood still."""
    assert names([*lines, LIMIT.format(end)]) == ["time-limit"]


def test_a_watchdog_that_spoke_before_the_limit_names_the_hang():
    """Ranks that it did not end waited on until the limit."""
    found = diagnose(["world_size: 3", WATCHDOG.format(0), WATCHDOG.format(2), LIMIT.format("12:13")]).causes
    assert [finding.cause.name for finding in found] == ["collective-timeout", "time-limit"]
    assert "rank 1 reported nothing" in found[0].detail


def test_a_watchdog_after_the_limit_only_followed_from_it():
    """Processes that are ended one after the other leave the others waiting."""
    assert names([LIMIT.format("12:13"), WATCHDOG.format(0)]) == ["time-limit"]


def test_a_failure_of_one_rank_comes_before_the_limit_that_ended_the_others():
    """Which hung without it."""
    assert names([*steps(), OOM, WATCHDOG.format(0), LIMIT.format("09:55")])[:2] == ["gpu-out-of-memory", "time-limit"]


def test_a_failure_that_the_training_survived_is_not_what_the_limit_ended():
    """It went on for many steps."""
    assert names([OOM, *steps(), LIMIT.format("09:31")]) == ["time-limit"]


def test_a_standstill_after_the_very_first_step_says_so():
    """Steps are counted from 0."""
    mark = Evidence("a.log", 1, "step: 0")
    assert Standstill(600.0, mark, step=0).words.endswith("minutes after step 0")
    assert Standstill(600.0, mark).words.endswith("10 minutes")


def test_requests_that_a_server_answers_are_its_progress():
    """An error before them was survived; a refused request is none."""
    error = "ERROR 05-12 02:47:14 [serving_chat.py:136] Error with model object='error' code=404"
    served = 'INFO:     127.0.0.1:{} - "POST /v1/chat/completions HTTP/1.1" {}'
    assert not diagnose([error, served.format(1, "200 OK")]).has_failed
    assert diagnose([error, served.format(1, "404 Not Found")]).has_failed


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        (b"step 17 loss 2.1", True),
        (b"{'step': 17}", True),
        (b"[ 17/100], eta: 3", True),
        (b"minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20", False),
        (b"minBytes 8 maxBytes 8589934592 step: 1048576(bytes) warmup iters: 5", False),
        (b"job step 17 was cancelled", False),
        (b"slurm_step_17", False),
    ],
)
def test_a_number_of_a_step_is_progress_and_a_step_of_sizes_is_none(line, is_one):
    """nccl-tests say by what they multiply the size of a message, or what they add to it."""
    assert is_progress([b"step", b"eta"], line) is is_one
