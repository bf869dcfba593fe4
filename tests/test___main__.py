"""Does the program end with the exit code of its command line, however it is called?"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import pytest

from preflight import __version__
from preflight.__main__ import main
from tests.cli.test_main import preflight


def test_the_program_may_be_called_as_a_module():
    """`python -m preflight` is the `preflight` command."""
    done = preflight("--version")
    assert (done.returncode, done.stdout) == (0, f"preflight {__version__}\n")


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["nope"], 4), ([], 4)])
def test_the_exit_code_is_that_of_the_command_line(words, code, monkeypatch, capsys):
    """Whoever started it sees the code; a word that is none is no success."""
    monkeypatch.setattr(sys, "argv", ["preflight", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert capsys.readouterr()


def test_the_command_and_the_module_are_one_program():
    """What is installed as `preflight` is this function."""
    (command,) = [entry for entry in entry_points(group="console_scripts") if entry.name == "preflight"]
    assert command.load() is main


def test_what_ctrl_c_ends_while_it_loads_says_so_without_a_traceback(monkeypatch, capsys):
    """Nothing was started yet, and nothing is left to report."""

    def prepare():
        raise KeyboardInterrupt

    monkeypatch.setattr("preflight.cli.streams.prepare", prepare)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "stopped before anything was started\n"
