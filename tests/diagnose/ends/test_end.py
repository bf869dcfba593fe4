"""Which code does each end of a job have, and is it told in a sentence?"""

from __future__ import annotations

import pytest

from preflight.diagnose.ends.end import By, End, Outcome


@pytest.mark.parametrize(
    ("outcome", "code", "words"),
    [
        (Outcome(End.ENDED_WELL, has_recovered=True), 0, "the job ended well after it had recovered"),
        (Outcome(End.FAILED), 1, "the job failed"),
        (Outcome(End.STOPPED, By.TIME_LIMIT), 1, "the job was stopped (time limit)"),
        (Outcome(End.STOPPED, By.USER, in_order=True), 0, "the job was stopped by its user; it had saved its state"),
        (Outcome(End.RUNNING, has_recovered=True), 3, "no failure found: it recovered and went on"),
        (Outcome(End.JUST_STOPS), 3, "the log just stops in a stage that no line shows"),
        (Outcome(), 3, "nothing that a job prints"),
    ],
)
def test_an_end_has_its_code_and_its_sentence(outcome, code, words):
    """0 ended well or left in order, 1 failed or ended by others, 3 cannot be told."""
    assert outcome.exit_code == code
    assert words in outcome.words
