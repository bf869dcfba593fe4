"""Is a failure that is only told of answered with what to look at, without a verdict?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from preflight.diagnose.ends.described import SHORT
from preflight.diagnose.ends.end import End
from preflight.report.formats.diagnosis import diagnosis_text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("AllReduce hangs", "NCCL_P2P_DISABLE=1"),
        ("it hangs as it never sees 2 and 3", "NODE_RANK"),
        ("ncclAllReduce deadlocks on 2 GPUs", "ACS"),
        ("使用原生DDP训练后，15min后显示sockettimeout。", "MASTER_ADDR"),
        ("our pods die of OOM", "dmesg"),
        ("training over two nodes is ten times slower", "GDRDMA"),
    ],
)
def test_a_sentence_is_answered_with_what_is_most_often_behind_it(text, words):
    """It fails nobody: the exit code says that it cannot be told."""
    diagnosis = diagnose([text])
    assert (diagnosis.outcome.end, diagnosis.outcome.exit_code) == (End.NOTHING, 3)
    assert not diagnosis.has_failed
    assert words in diagnosis_text(diagnosis)


def test_what_tells_of_no_failure_is_not_answered():
    """Nor a text so long that it is the output of something."""
    assert diagnose(["a new model of ours", "with 7 billion parameters"]).collect == ()
    assert (
        diagnose(
            [f"part {letter} hangs together with the next" for letter in "abcdefghijklmnopqrstuvwxyz"[: SHORT + 2]]
        ).collect
        == ()
    )


def test_a_log_of_a_job_is_judged_by_its_lines():
    """Whatever words it has."""
    assert not any("a hang" in one for one in diagnose(["step 1 loss 2", "no rank hangs"]).collect)
