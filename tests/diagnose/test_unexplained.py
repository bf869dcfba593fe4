"""Is an error told that no cause explains, and nothing that only has its words?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose


def named(*lines: str) -> list[str]:
    """What is found."""
    diagnosis = diagnose(list(lines))
    return [one.cause.name for one in (*diagnosis.causes, *diagnosis.consequences)]


@pytest.mark.parametrize(
    "line",
    [
        "ERROR flux capacitor 3 is not charged",
        "frobnicate: cannot reach the mothership",
        "[rank1]: fatal: lane 7 is closed",
        "Command 'frob' returned non-zero exit status 3.",
    ],
)
def test_an_error_at_the_end_is_told(line):
    """Whoever prints it."""
    assert named("[rank0]: step 1 loss 2", line) == ["failure-not-explained"]
    assert diagnose(["[rank0]: step 1 loss 2", line]).outcome.exit_code == 1


@pytest.mark.parametrize(
    "line",
    [
        "word error rate: 12.3",
        "training error 12.31 validation error 14.2",
        "INFO frobnicator failed on lane 7",
        "frobnicator failed on lane 7, retrying in 3 s",
        "max_failures: 3",
        "12 passed, 0 failed in 3.2s",
        "--no-save-on-error",
        "{'completion': 'an error occurred', 'reward': 0}",
        "UserWarning: the plug-in failed to load",
        "E external/local_xla/xla/cuda_dnn.cc:9261] Unable to register cuDNN factory: one has already been registered",
    ],
)
def test_words_of_errors_alone_are_none(line):
    """Metrics, settings, levels below an error, tries and quotes."""
    assert named("[rank0]: step 1 loss 2", line) == []


def test_an_error_that_the_job_went_on_after_is_none():
    """One step is enough; those of other ranks that only catch up are none."""
    steps = [f"[rank0]: step {step} loss 2" for step in range(9)]
    late = [f"[rank1]: step {step} loss 2" for step in range(9)]
    assert named("cannot load the fast kernels", *steps[:1]) == []
    assert named(*steps, "lane 7 failed", "[rank0]: step 10 loss 2") == []
    assert named(*steps, "lane 7 failed", *late) == ["failure-not-explained"]
