"""Does `preflight diagnose` read logs and end with the code of its contract?"""

from __future__ import annotations

import json

from preflight.cli import main
from preflight.cli.diagnose import Confirmed, checks_of, diagnose_logs
from preflight.diagnose import diagnose


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


def test_a_folder_of_logs_is_diagnosed(tmp_path, capsys):
    """As its files would be; one without a log is told with what to name."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank0.log").write_text("RuntimeError: CUDA error: invalid device ordinal\n")
    assert main.run(["diagnose", str(tmp_path / "logs")]) == 0
    assert "rank0.log:1" in capsys.readouterr().out
    (tmp_path / "none").mkdir()
    assert main.run(["diagnose", str(tmp_path / "none")]) == 4
    assert "none: no log lies in this folder" in capsys.readouterr().err


def test_hosts_beside_a_log_are_asked_by_the_checks_of_its_causes(tmp_path, capsys):
    """Those of the causes first, then of what followed; what they say stands below the diagnosis."""
    lines = [
        "[rank1]: ConnectionRefusedError: [Errno 111] Connection refused",
        "OSError: [Errno 28] No space left on device",
    ]
    assert checks_of(diagnose(lines))[0] == "files.there_is_room"
    assert checks_of(diagnose(["all is well"])) == ()
    (tmp_path / "a.log").write_text("\n".join(lines))
    said = (Confirmed("files.there_is_room", "fail", ("node1", "node2"), "/ckpt is full\x1b"),)
    assert diagnose_logs([str(tmp_path / "a.log")], "", lambda _: said) == 0
    assert "files.there_is_room fail on node[1-2]: /ckpt is full\\x1b" in capsys.readouterr().out


def test_a_pattern_that_is_none_is_refused(capsys):
    """So are a log and a job that hangs at once."""
    assert main.run(["diagnose", "--match", "("]) == 4
    assert "--match '('" in capsys.readouterr().err
    assert main.run(["diagnose", "a.log", "--match", "train"]) == 4
    assert main.run(["diagnose", "--match", "x", "--dry-run"]) == 0
