"""Is a launcher one row that says enough of itself, for people and for the rest of the program?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from preflight.cli.main import run
from preflight.launch.launchers import LAUNCHERS, ROWS, first_words, launch_words, startable, writable

ROOT = Path(__file__).parents[2]


def test_names_are_one_word_each_and_stand_once():
    """They are words of a command line."""
    assert len(LAUNCHERS) == len(ROWS)
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*", row.name) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_leads_somewhere(row):
    """What is read is started, by itself or in another's name, or says why not; every name in it is one of a row."""
    is_read = row.read is not None or bool(row.wrappers) or bool(row.refusal)
    assert is_read or row.start is not None or row.write is not None
    if is_read:
        assert row.start is not None or row.refusal or LAUNCHERS[row.started_as].start is not None
    assert {row.started_as, *row.may_start} - {""} <= set(LAUNCHERS)


def test_a_row_that_is_read_is_known_by_its_words():
    """A plain python begins a job only with what stands around it, so it marks no file as a launch script."""
    assert {"torchrun", "accelerate launch", "srun"} <= set(launch_words())
    assert "python" not in launch_words()
    assert {"python", "torchrun", "accelerate"} <= set(first_words())


@pytest.mark.parametrize(
    ("words", "names"), [(["train", "--help-all"], startable()), (["launch", "write", "--help"], writable())]
)
def test_help_names_every_launcher(capsys, words, names):
    """Of those that can start a job, or be written; none is forgotten, because none is written down there."""
    run(words)
    text = " ".join(capsys.readouterr().out.split())
    assert ", ".join(names) in text


@pytest.mark.parametrize(
    "words", [["train", "--launcher=horovod"], ["launch", "write", "--launcher=horovod", "--out=x"]]
)
def test_a_launcher_that_is_not_there_is_a_usage_error(capsys, words, monkeypatch, tmp_path):
    """In one line, which names those that are."""
    monkeypatch.chdir(tmp_path)
    assert run(words) == 4
    error = capsys.readouterr().err
    assert all(name in error for name in (startable if words[0] == "train" else writable)())
    assert error.count("\n") == 1


def test_the_page_of_options_names_every_launcher():
    """By the rows' names and descriptions."""
    told = (f"`{name}`" + (f" ({text})" if (text := LAUNCHERS[name].description) else "") for name in startable())
    page = " ".join((ROOT / "docs/options.md").read_text().split())
    assert f"Launchers of the reference job: {', '.join(told)}." in page
