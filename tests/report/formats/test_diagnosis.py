"""Does a diagnosis read from its first line, and does JSON hold the same?"""

from __future__ import annotations

import json

from preflight.diagnose import diagnose
from preflight.report.formats.diagnosis import diagnosis_document, diagnosis_text

LINES = [
    "[rank0]: RuntimeError: Connection closed by peer [10.0.0.3]:2222",
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. \x1b[2J Tried",
]


def test_the_cause_stands_first_with_its_line_and_its_fix():
    """What followed is folded below it; nothing of a log moves the cursor."""
    text = diagnosis_text(diagnose(LINES))
    assert text.splitlines()[0].startswith("GPU memory is full")
    assert "log:2: torch.OutOfMemoryError" in text
    assert "fix " in text
    assert text.index("cause: gpu-out-of-memory") < text.index("followed from it:") < text.index("connection-reset")
    assert "\x1b" not in text


def test_an_unknown_cause_is_said_with_what_to_gather():
    """And a log without a failure with neither."""
    assert diagnosis_text(diagnose(LINES[:1])).startswith("cause: unknown")
    assert "to find out more:" in diagnosis_text(diagnose(LINES[:1]))
    closed = diagnose(["torch.distributed.elastic.rendezvous.api.RendezvousClosedError"])
    assert f"\n      {closed.consequences[0].cause.meaning}\n" in diagnosis_text(closed)
    assert diagnosis_text(diagnose(["all is well"])).startswith("no failure found")


def test_of_several_runs_in_one_log_it_is_said_that_the_last_is_told_of():
    """In JSON as well."""
    begin = "nohup: ignoring input"
    diagnosis = diagnose([begin, *LINES, begin, LINES[1]])
    assert "2 runs stand in one log" in diagnosis_text(diagnosis)
    assert diagnosis_document(diagnosis)["job"]["runs_in_one_log"] == 2
    assert "runs stand" not in diagnosis_text(diagnose([begin, *LINES]))


def test_the_document_is_json_with_the_same():
    """Names, places, ranks."""
    document = json.loads(json.dumps(diagnosis_document(diagnose(LINES)), allow_nan=False))
    assert document["known"]
    assert document["causes"][0]["name"] == "gpu-out-of-memory"
    assert document["causes"][0]["evidence"][0]["line"] == 2
    assert document["consequences"][0]["ranks"] == [0]
