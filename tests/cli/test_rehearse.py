"""Is it said and asked what a rehearsal will run, before it runs it?"""

from __future__ import annotations

import io
import sys

import pytest

from preflight.cli.rehearse import is_agreed, notice
from preflight.launch.cast import Script

SCRIPT = Script("run.sh", "/srv/run.sh", "rm -r out\ntorchrun train.py\n", ("bash",))


class Terminal(io.StringIO):
    """A person at a terminal, who types this."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Whatever is remembered is remembered here."""
    monkeypatch.chdir(tmp_path)


def test_the_first_line_says_what_is_exchanged():
    """And that all else runs."""
    assert notice([SCRIPT]).startswith("run.sh runs for real: only its training program is exchanged")


def test_a_person_is_asked_once_and_shown_what_the_script_changes(monkeypatch, capsys):
    """No is no; a yes holds for this text."""
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert not is_agreed([SCRIPT], is_yes=False)
    assert "run.sh:1: rm -r out" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert is_agreed([SCRIPT], is_yes=False)
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert is_agreed([SCRIPT], is_yes=False)
    assert not is_agreed([Script("run.sh", "/srv/run.sh", "rm x\n", ("bash",))], is_yes=False)


def test_nobody_is_asked_without_a_terminal_or_with_yes(monkeypatch):
    """A scheduler cannot answer."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert is_agreed([SCRIPT], is_yes=False)
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert is_agreed([Script("b.sh", "/b.sh", "x\n", ("bash",))], is_yes=True)
