"""What became of the job is said first, and decides the exit code."""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from preflight.diagnose.ends.end import By, End
from preflight.diagnose.ends.stages import Stage
from preflight.report.formats.diagnosis import diagnosis_document, diagnosis_text
from tests.diagnose.healthy import OOM, TRACE, steps

WELL = "Training completed."
INTERRUPTED = (*TRACE, "    loss.backward()", "KeyboardInterrupt")
STARTED = "n1:4711:4790 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>"
LIMIT = "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2030-01-02T05:00:00 DUE TO TIME LIMIT ***"
PREEMPTED = "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2030-01-02T05:00:00 DUE TO PREEMPTION ***"


@pytest.mark.parametrize(
    ("lines", "end", "by", "code"),
    [
        ([*steps("torch"), WELL], End.ENDED_WELL, By.NOBODY, 0),
        (
            [*steps("verl"), "(main_task pid=7) Final validation metrics: {'test_score': 0.5}"],
            End.ENDED_WELL,
            By.NOBODY,
            0,
        ),
        ([*steps("torch"), OOM], End.FAILED, By.NOBODY, 1),
        ([*steps("torch"), LIMIT], End.STOPPED, By.TIME_LIMIT, 1),
        ([*steps("torch"), PREEMPTED], End.STOPPED, By.PREEMPTION, 1),
        ([*steps("torch"), "saved checkpoint to /ckpt/12", *INTERRUPTED], End.STOPPED, By.USER, 0),
        ([*steps("torch"), *TRACE, "SystemError: unheard of"], End.FAILED, By.NOBODY, 1),
        (steps("torch"), End.RUNNING, By.NOBODY, 3),
        ([STARTED], End.JUST_STOPS, By.NOBODY, 3),
        (["all is well with the weather"], End.NOTHING, By.NOBODY, 3),
    ],
)
def test_the_end_of_a_job_decides_the_code(lines, end, by, code):
    """0 where it ended well or was left in order, 1 where it failed or was ended, 3 where its log does not tell."""
    outcome = diagnose(lines).outcome
    assert (outcome.end, outcome.by, outcome.exit_code) == (end, by, code)


def test_what_a_job_survived_is_told_as_recovered():
    """The failure is a remark, and the job ended well."""
    diagnosis = diagnose([*steps("torch"), OOM, *steps("torch", start=13), WELL])
    assert diagnosis.outcome.end is End.ENDED_WELL
    assert diagnosis.outcome.has_recovered
    assert "recovered" in diagnosis_text(diagnosis).splitlines()[0]


def test_a_log_that_just_stops_tells_how_far_each_rank_came():
    """The rank that is behind the others is named, with its step, and the command that looks at the job now."""
    lines = [
        f"[rank{rank}]: step {step} loss 2.1" for step in range(1, 9) for rank in range(4) if (rank, step) < (3, 7)
    ]
    diagnosis = diagnose(["n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 4 cudaDev 0 - Init COMPLETE", *lines])
    assert diagnosis.outcome.end is End.JUST_STOPS
    assert [(one.rank, one.step, one.stage) for one in diagnosis.outcome.behind] == [(3, 6, Stage.RUNNING)]
    text = diagnosis_text(diagnosis)
    assert "rank 3 (behind the others): in the steps of the job at step 6" in text
    assert "preflight diagnose --hosts n1 --match" in text
    assert diagnosis_document(diagnosis)["outcome"]["ranks"][3]["behind"]


def test_a_failure_that_no_cause_explains_is_told_with_rank_stage_and_line():
    """The first error after the last step; nothing is blamed for a line above a level that loggers give to errors."""
    lines = [STARTED, "[rank0]: step 1 loss 2", "[rank1]: step 1 loss 2", "[rank1]: frobnicator failed on lane 7"]
    diagnosis = diagnose(lines)
    assert diagnosis.outcome.exit_code == 1
    assert not diagnosis.causes
    (finding,) = diagnosis.consequences
    assert (finding.evidence[0].line, finding.ranks, finding.evidence[0].stage) == (4, (1,), Stage.RUNNING)
    assert "how far each rank came" in diagnosis_text(diagnosis)
    for line in ("[rank1]: INFO frobnicator failed on lane 7", "frobnicator failed on lane 7; retrying", "errors: 0"):
        assert not diagnose([*lines[:3], line]).has_failed, line


def test_an_unknown_exception_is_told_with_the_frames_of_program_and_library():
    """The innermost of each: one says what was asked for, the other by whom it was refused."""
    frames = ['  File "/job/train.py", line 9, in f', '  File "/env/site-packages/flux/core.py", line 77, in g']
    meaning = diagnose([TRACE[0], *frames, "flux.Odd: unheard of"]).causes[0].cause.meaning
    assert "/job/train.py:9" in meaning
    assert "flux/core.py:77" in meaning
    text = diagnosis_text(diagnose(["step 1 loss 2", TRACE[0], *frames, "flux.Odd: unheard of"]))
    assert "stage  in the steps of the job" in text
    assert "/env/site-packages/flux/core.py:77" in text


def test_a_reason_for_slowness_is_told_as_one():
    """Of a job that runs: no failure, and not among the harmless remarks."""
    diagnosis = diagnose(["n1:1:2 [3] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", *steps("torch")])
    assert [one.cause.name for one in diagnosis.slowing] == ["rdma-peer-memory"]
    assert "what may make it slow:" in diagnosis_text(diagnosis)


ENGINE = [
    "(APIServer pid=3) ERROR 08-21 10:24:34 [async_llm.py:704] Traceback (most recent call last):",
    '(APIServer pid=3) ERROR 08-21 10:24:34 [async_llm.py:704]   File "/env/site-packages/vllm/v1/core_client.py", line 1, in get',
    "(APIServer pid=3) ERROR 08-21 10:24:34 [async_llm.py:704] vllm.EngineDeadError: EngineCore encountered an issue.",
]


@pytest.mark.parametrize(
    "left",
    [
        "(APIServer pid=3) INFO 08-21 10:24:34 [launcher.py:100] [shutdown] API server: shutdown triggered",
        "[2030-01-02 00:17:43] SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
    ],
)
def test_what_follows_as_a_server_ends_in_order_is_no_failure(left):
    """Its engine is gone then; before that, or long after, it is one."""
    assert diagnose(["step 1 loss 2", left, *ENGINE]).outcome.end is End.STOPPED
    assert diagnose(["step 1 loss 2", *ENGINE, left]).outcome.end is End.FAILED
    assert diagnose([left, *steps("torch"), *ENGINE]).outcome.end is End.FAILED


def test_a_program_that_a_signal_interrupts_as_it_starts_was_stopped():
    """Its traceback is that of the signal's handler."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/serve.py", line 9, in handler',
        "KeyboardInterrupt: terminated",
    ]
    assert diagnose(lines).outcome.end is End.STOPPED
