"""Does `preflight diagnose` read logs and end with the code of its contract?"""

from __future__ import annotations

import json

from preflight.cli import main


def test_a_log_is_diagnosed(tmp_path, capsys):
    """Exit code 0 whether the cause is known or not: what failed is the job, not the diagnosis."""
    (tmp_path / "a.log").write_text("RuntimeError: CUDA error: invalid device ordinal\n")
    assert main.run(["diagnose", str(tmp_path / "a.log")]) == 0
    assert "invalid device ordinal" in capsys.readouterr().out
    assert main.run(["diagnose", str(tmp_path / "a.log"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["causes"][0]["name"] == "invalid-device-ordinal"


def test_what_cannot_be_diagnosed_has_its_own_code(tmp_path, capsys):
    """4 without a log or with one that cannot be read, 5 for one that holds nothing."""
    (tmp_path / "empty").touch()
    assert main.run(["diagnose"]) == 4
    assert main.run(["diagnose", str(tmp_path / "none.log")]) == 4
    assert "none.log: cannot be read" in capsys.readouterr().err
    assert main.run(["diagnose", str(tmp_path / "empty")]) == 5
