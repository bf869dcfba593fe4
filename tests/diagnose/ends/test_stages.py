"""Is the last sign of life of each rank kept?"""

from __future__ import annotations

from preflight.diagnose import diagnose
from preflight.diagnose.ends.stages import PATTERNS, Stage, stream_of
from preflight.diagnose.gather import stages_index
from preflight.diagnose.index import words_of
from tests.diagnose import marks

INIT = "n1:7:9 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 - Init START"


def test_the_stream_of_a_line_is_its_rank_whatever_stands_before_it():
    """A time or a pod are of all ranks; a line that names none is of its own stream."""
    assert stream_of(b"2030-01-02T03:04:05Z [rank3]: step 1") == stream_of(b"[rank3]: loss 2") == b"rank3"
    assert stream_of(b"[pod/job-0/pytorch] [rank3]: step 1") == b"rank3"
    assert stream_of(b"step 1 loss 2") == stream_of(b"step 9 loss 2, slowest is rank 3") == b""


def test_a_rank_keeps_the_furthest_stage_and_its_last_step():
    """Milestones of a start, then steps; what comes after an earlier stage does not bring it back."""
    assert [one.stage for one in diagnose([INIT]).outcome.ranks] == [Stage.COMMUNICATOR]
    lines = [INIT, "[rank0]: step 1 loss 2", "[rank0]: step 2 loss 2", INIT]
    (reached,) = [one for one in diagnose(lines).outcome.ranks if one.rank == 0]
    assert (reached.stage, reached.step, reached.number) == (Stage.RUNNING, 2, 3)


def test_an_event_is_told_with_the_stage_it_came_in():
    """The same words before the first step and after it."""
    failure = "[rank0]: RuntimeError: CUDA error: invalid device ordinal"
    stages = [diagnose([*lines, failure]).causes[0].evidence[0].stage for lines in ([INIT], ["[rank0]: step 1 loss 2"])]
    assert stages == [Stage.COMMUNICATOR, Stage.RUNNING]


def test_each_milestone_has_a_line_that_is_found_by_its_words():
    """Of its stage, where no other milestone of that stage stands for it."""
    patterns = [(stage.name.lower(), pattern) for stage, pattern in PATTERNS]
    assert marks.without_a_line("stages", patterns) == []
    found = {
        line: {stage.name.lower() for stage, _ in stages_index().matches(words_of(line.encode()), line.lower())}
        for _, line in marks.lines_of("stages")
    }
    assert [(name, line) for name, line in marks.lines_of("stages") if name not in found[line]] == []
