"""Is what is said about launch files in the manner of real ones the truth, case by case?"""

from __future__ import annotations

from preflight.launch.rules.check import check_texts
from tests.launch import truth


def test_what_is_said_is_true_and_what_is_wrong_is_said():
    """Of what is told 95 % is true; all that is wrong with a verdict is told with it, and 85 % of the rest."""
    scores = {case.name: truth.score(case, check_texts(case.texts)[0]) for case in truth.cases()}
    found, missed, false = (
        sum(len(getattr(score, name)) for score in scores.values()) for name in ("found", "missed", "false")
    )
    assert found >= 0.95 * (found + false)
    assert found >= 0.85 * (found + missed)
    assert {name: score.missed for name, score in scores.items() if any(held.verdict for held in score.missed)} == {}


def test_a_score_tells_found_missed_and_false_apart():
    """By rule, file and line; what may be told counts neither way."""
    text = (
        "=== one\n? master_port_is_valid a.sh:1\n? ranks_are_distinct\n~ counts_are_positive\n"
        "--- a.sh\ntorchrun --nnodes=2 --node_rank=0 --master_addr=10.0.0.1 --master_port=22 --nproc_per_node=0 t.py\n"
    )
    (case,) = truth.parsed(text, "x.txt")
    scored = truth.score(case, check_texts(case.texts)[0])
    assert [str(found) for found in scored.found] == ["master_port_is_valid a.sh:1"]
    assert [str(missed) for missed in scored.missed] == ["ranks_are_distinct"]
    assert scored.false == ()
