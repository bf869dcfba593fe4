"""Does a rank take its numbers from whatever numbered it, and what does it choose itself?"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from preflight.job.ranks.rehearsal.rank import main, take_numbers

FALLBACK = {"address": "10.0.0.1", "port": "4000"}


def test_numbers_of_a_scheduler_become_those_of_torch(monkeypatch):
    """Where the ranks meet is chosen only where nobody says it."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(f"X_{name}", "3")
    monkeypatch.setenv("MASTER_ADDR", "node1")
    environ = __import__("os").environ
    with monkeypatch.context() as inner:
        inner.setattr("os.environ", {**environ})
        assert take_numbers(["X_RANK", "X_WORLD_SIZE", "X_LOCAL_RANK"], FALLBACK) == ["MASTER_PORT"]
        held = __import__("os").environ
        assert (held["RANK"], held["MASTER_ADDR"], held["MASTER_PORT"]) == ("3", "node1", "4000")
    assert take_numbers(["RANK", "WORLD_SIZE", "LOCAL_RANK"], FALLBACK) == []


def test_a_rank_without_a_number_says_so_and_does_not_train(monkeypatch, tmp_path):
    """Its last record has the reason."""
    given = {"argv": ["python"], "names": [], "program": ["text", ""], "started": 1.0, "fallback": FALLBACK}
    monkeypatch.setenv("PREFLIGHT_SETTINGS", json.dumps(given))
    monkeypatch.setenv("PREFLIGHT_RECORDS", str(tmp_path / "records"))
    assert main() == 1
    first, last = map(json.loads, (tmp_path / "records").read_text().splitlines())
    assert (first["record"], last["record"]) == ("arrived", "failed")
    assert "nothing numbers this process" in last["error"]


CACHING = """
import os, shutil, sys
from preflight.job.ranks.rehearsal.rank import write_only_in
scratch, is_removed = sys.argv[1], sys.argv[2] == "removed"
write_only_in(scratch)
if is_removed:
    shutil.rmtree(scratch)
import tempfile
def cache():
    from torch._inductor.runtime.cache_dir_utils import cache_dir
    return os.path.isdir(cache_dir())
for make in (cache, tempfile.mkdtemp):
    try:
        print(bool(make()))
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize(
    ("state", "said"), [("there", ["True", "True"]), ("removed", ["FileNotFoundError", "FileNotFoundError"])]
)
def test_a_rank_writes_in_our_folder_or_nowhere(tmp_path, state, said):
    """Where the folder was removed before the rank was ended, torch makes no cache in the user's /tmp."""
    scratch, usual = tmp_path / "scratch", tmp_path / "usual"
    scratch.mkdir()
    usual.mkdir()
    given = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "PREFLIGHT"))}
    words = [sys.executable, "-c", CACHING, str(scratch), state]
    done = subprocess.run(words, env={**given, "TMPDIR": str(usual)}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == said
    assert list(usual.iterdir()) == []
    assert scratch.exists() == (state == "there")
