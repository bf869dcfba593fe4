"""Does a look at a hanging job read from its first line, and does JSON hold the same?"""

from __future__ import annotations

import json

from preflight.diagnose.hanging.stuck import compare
from preflight.report.formats.hanging import hanging_document, hanging_text
from tests.diagnose.hanging.test_stuck import IN_TORCH, LOADER, STEP, rank

STUCK = compare(
    {"a": (rank(0, IN_TORCH, STEP), rank(1, LOADER, STEP, command="x\x1b[2J")), "b": (rank(2, IN_TORCH, STEP),)}
)


def test_the_guilty_rank_stands_first_and_all_are_shown_in_groups():
    """With the stack, the state and the queue of one of each."""
    text = hanging_text(STUCK, {"c": "no route\x1b"})
    assert text.startswith("rank 1 on a waits outside of any collective, in next_batch")
    assert "rank 0 on a, rank 2 on b: waits in all_reduce" in text
    assert "established to 10.0.0.2:2000, 9 bytes not taken by it" in text
    assert "c: not looked at: no route" in text
    assert "\x1b" not in text


def test_the_document_is_json_with_every_rank():
    """And who is guilty."""
    document = json.loads(json.dumps(hanging_document(STUCK, {})))
    assert document["guilty"] == [{"rank": 1, "node": "a"}]
    assert [one["rank"] for one in document["ranks"] if one["guilty"]] == [1]
    assert len(document["ranks"]) == 3
    assert "\x1b" not in json.dumps(document)
