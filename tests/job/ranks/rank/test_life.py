"""Does a rank always end with a reason?"""

from __future__ import annotations

import gc
import json

import pytest

from preflight.job.ranks.rank.life import live


@pytest.fixture(autouse=True)
def by_hand(monkeypatch):
    """No launcher set anything."""
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PREFLIGHT_RECORDS", "PREFLIGHT_SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    yield
    gc.enable()


def test_started_by_hand_without_variables_it_says_what_is_lacking(monkeypatch):
    """One line that names the variables, no traceback."""
    with pytest.raises(SystemExit, match="RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT not set"):
        live(lambda _given, _records: None)
    monkeypatch.setenv("MASTER_ADDR", "n1")
    with pytest.raises(SystemExit, match="RANK not set"):
        live(lambda _given, _records: None, needs=("RANK", "MASTER_ADDR"))


def test_work_that_fails_is_a_record_with_its_stage(monkeypatch, capfd):
    """And the exit code 1; work that ends well says so, with 0."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("PREFLIGHT_SETTINGS", '{"size": 4}')

    def fail(given, records):
        records.stage("running")
        raise ValueError(f"size {given['size']}")

    assert live(fail, needs=("RANK",)) == 1
    told = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert told == {"rank": 1, "record": "failed", "stage": "running", "error": "ValueError: size 4"}
    assert live(lambda _given, _records: None, needs=("RANK",)) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1]) == {"rank": 1, "record": "done"}
