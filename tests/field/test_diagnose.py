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


@pytest.mark.skipif(not FAILURES.is_file(), reason="the field's failures are not beside this project")
def test_failures_of_the_field_are_recognised():
    """At least 85 % of their words lead to a row of the table."""
    rows = [json.loads(line) for line in FAILURES.read_text().splitlines()]
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
