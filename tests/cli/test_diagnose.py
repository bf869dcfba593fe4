"""Does `preflight diagnose` read logs and end with the code of its contract?"""

from __future__ import annotations

import gzip
import json
import random

from preflight.cli import diagnose as cli
from preflight.cli import main
from preflight.cli.diagnose import Confirmed, checks_of, diagnose_logs
from preflight.diagnose import diagnose
from preflight.diagnose.hanging.live import Look, Seen
from tests.diagnose.hanging.test_stuck import IN_TORCH, LOADER, STEP, rank


def test_a_log_is_diagnosed(tmp_path, capsys):
    """Exit code 1 for a job that failed, 0 for one that ended well, 3 where its log ends before either."""
    (tmp_path / "a.log").write_text("RuntimeError: CUDA error: invalid device ordinal\n")
    assert main.run(["diagnose", str(tmp_path / "a.log")]) == 1
    assert "invalid device ordinal" in capsys.readouterr().out
    assert main.run(["diagnose", str(tmp_path / "a.log"), "--json"]) == 1
    (tmp_path / "b.log").write_text("step 1 loss 2\n")
    assert main.run(["diagnose", str(tmp_path / "b.log"), "--json", str(tmp_path / "json")]) == 3
    (tmp_path / "b.log").write_text("step 1 loss 2\nTraining completed.\n")
    assert main.run(["diagnose", str(tmp_path / "b.log"), "--json", str(tmp_path / "json")]) == 0
    assert json.loads(capsys.readouterr().out)["causes"][0]["name"] == "invalid-device-ordinal"


def test_what_cannot_be_diagnosed_has_its_own_code(tmp_path, capsys):
    """4 without a log or with one that cannot be read, 3 for one that holds nothing."""
    (tmp_path / "empty").touch()
    assert main.run(["diagnose"]) == 4
    assert main.run(["diagnose", str(tmp_path / "none.log")]) == 4
    assert "none.log: cannot be read" in capsys.readouterr().err
    assert main.run(["diagnose", str(tmp_path / "empty")]) == 3
    (tmp_path / "zeros").write_bytes(bytes(99))
    assert main.run(["diagnose", str(tmp_path / "zeros")]) == 4
    assert capsys.readouterr().err.splitlines()[-1].endswith("zeros: not text: it holds nothing but zero bytes")


def test_what_is_cut_short_keeps_its_code_from_0(tmp_path, capsys):
    """3 where the rest shows no failure, 1 where it does; a file beside it that is no text is named."""
    sound, sick = "step 1 loss 2\n" * 9000, "OSError: [Errno 28] No space left on device\n" + "x\n" * 9000
    for text, code, headline in ((sound, 3, "no failure found in what could be read"), (sick, 1, "no space is left")):
        (tmp_path / "a.log").write_bytes(gzip.compress(text.encode())[:-9])
        (tmp_path / "b.log").write_bytes(random.Random(1).randbytes(999))
        for given in (["a.log"], ["a.log", "b.log"], ["."]):
            assert main.run(["diagnose", *(str(tmp_path / name) for name in given)]) == code
            out = capsys.readouterr().out
            assert out.startswith(headline)
            assert "a.log: cut short: it ends in the middle of a packed stream" in out
            assert ("b.log: not text: it holds" in out) == (given != ["a.log"])
    assert main.run(["diagnose", str(tmp_path), "--json"]) == 1
    assert [gap["all_of_it"] for gap in json.loads(capsys.readouterr().out)["not_read"]] == [False, True]


def test_a_folder_of_logs_is_diagnosed(tmp_path, capsys):
    """As its files would be; one without a log is told with what to name."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank0.log").write_text("RuntimeError: CUDA error: invalid device ordinal\n")
    assert main.run(["diagnose", str(tmp_path / "logs")]) == 1
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
    assert diagnose_logs([str(tmp_path / "a.log")], "", lambda _: said) == 1
    assert "files.there_is_room fail on node[1-2]: /ckpt is full\\x1b" in capsys.readouterr().out


def test_a_pattern_that_is_none_is_refused(capsys):
    """So are a log and a job that hangs at once."""
    assert main.run(["diagnose", "--match", "("]) == 4
    assert "--match '('" in capsys.readouterr().err
    assert main.run(["diagnose", "a.log", "--match", "train"]) == 4
    assert main.run(["diagnose", "--match", "x", "--dry-run"]) == 0


def test_a_look_at_a_job_has_the_code_of_what_it_shows(monkeypatch, capsys):
    """1 where it hangs, 0 where it goes on, 3 where that cannot be told, 5 where nothing of it runs."""
    waits, late = rank(0, IN_TORCH, STEP, world=2), rank(1, LOADER, STEP, world=2)
    moved = [rank(n, IN_TORCH, STEP, world=2, earlier=(Seen("S", "", (LOADER, STEP)),)) for n in range(2)]
    for ranks, failures, code in (
        ((waits, late), {}, 1),
        (tuple(moved), {}, 0),
        ((rank(0, world=2), rank(1, world=2)), {}, 3),
        ((waits,), {"local": "no route"}, 3),
        ((), {}, 5),
    ):
        monkeypatch.setattr(cli, "look", lambda *_, ranks=ranks, failures=failures, **__: Look({"a": ranks}, failures))
        assert main.run(["diagnose", "--hosts", "local", "--match", "train"]) == code, (ranks, failures)
        assert ("next:" in capsys.readouterr().out) == (code in {1, 3})
