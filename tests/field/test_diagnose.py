"""Are the failures of the field recognised by the words they left? Where a file of them lies beside this project."""

from __future__ import annotations

import json

import pytest

from preflight.diagnose import diagnose, diagnose_files
from tests.house import ROOT

SHARED = next((above / "shared" for above in ROOT.parents if (above / "shared").is_dir()), ROOT / "shared")
FAILURES, LOGS = SHARED / "field-failures.jsonl", SHARED / "field-data" / "nccl-logs"
# What its index says of each log; the others are healthy.
SICK = {"dmesg.decode.iso.log": "nccl-segfault", "fabricmanager.log": "nvswitch-nonfatal"}
RECOGNISED = 0.85
# What people wrote about a failure, a title or a line of a configuration: no program printed these.
SENTENCES = frozenset(
    [
        "F004",
        "F006",
        "F013",
        "F017",
        "F021",
        "F028",
        "F038",
        "F044",
        "F045",
        "F047",
        "F054",
        "F058",
        "F060",
        "F066",
        "F070",
        "F083",
        "F103",
        "F107",
        "F111",
        "F113",
        "F114",
        "F115",
        "F119",
        "F120",
        "F124",
    ]
)


@pytest.mark.skipif(not FAILURES.is_file(), reason="the field's failures are not beside this project")
def test_failures_of_the_field_are_recognised():
    """At least 85 % of what programs printed leads to a row of the table."""
    every = [json.loads(line) for line in FAILURES.read_text().splitlines()]
    rows = [row for row in every if row["id"] not in SENTENCES]
    assert len(rows) >= 40
    unknown = []
    for row in rows:
        diagnosis = diagnose(row["key_log"].splitlines())
        if not (diagnosis.causes or diagnosis.consequences or diagnosis.notes):
            unknown.append(row["id"])
    assert len(unknown) <= (1 - RECOGNISED) * len(rows), unknown


@pytest.mark.skipif(not LOGS.is_dir(), reason="the field's logs are not beside this project")
def test_logs_of_the_field_have_the_cause_that_their_index_states():
    """And the healthy ones have none."""
    for path in LOGS.rglob("*"):
        if path.is_file():
            causes = [finding.cause.name for finding in diagnose_files([str(path)]).causes]
            assert causes == ([SICK[path.name]] if path.name in SICK else []), path.name
