"""Does the one who waits see stages, times and the nodes that are late, and does nobody else see a thing?"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
import time

import pytest

from preflight.run.progress import Progress, on_terminal


@pytest.fixture
def terminal():
    """Both ends of a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def seen(descriptor: int) -> str:
    """What stands on the terminal, as far as it was written."""
    os.set_blocking(descriptor, False)
    text = b""
    deadline = time.monotonic() + 5.0
    # The cursor is shown again, then the lines of the stages are erased.
    while time.monotonic() < deadline and not (b"\x1b[?25h" in text and text.endswith(b"\x1b[2K")):
        try:
            text += os.read(descriptor, 65536)
        except BlockingIOError:
            time.sleep(0.02)
    return text.decode()


def test_a_stage_tells_whom_it_waits_for_and_what_it_is_at():
    """Names folded and harmless; a stage that is over keeps its time and says no more."""
    progress = Progress(16)
    waiting = ["node1", "node2", "\x1b[2J"]
    progress.stage("facts", lambda: waiting)
    assert progress.lines()[0][:2] == (" ", "facts, waiting for 3 of 16: node[1-2],\\x1b[2J")
    waiting.clear()
    progress.say("nearly \x07there")
    assert progress.lines()[0][1] == "facts, nearly \\x07there"
    progress.stage("mesh")
    assert [line[:2] for line in progress.lines()] == [("✓", "facts"), (" ", "mesh")]
    progress.end()
    assert [line[0] for line in progress.lines()] == ["✓", "✓"]


@pytest.mark.parametrize("colour", [True, False])
def test_a_terminal_shows_the_stages_and_is_clean_again_at_the_end(terminal, monkeypatch, colour):
    """Cursor shown, lines erased; no colour where NO_COLOR asks for none."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    ours, theirs = terminal
    progress = Progress(2, theirs)
    progress.stage("facts", lambda: ["node2"])
    progress.stage("mesh")
    progress.end()
    text = seen(ours)
    assert "waiting for 1 of 2: node2" in text
    assert "✓" in text
    assert ("\x1b[32m" in text) is colour
    assert text.rstrip().endswith("\x1b[2K") or "\x1b[2K" in text.rpartition("mesh")[2]


@pytest.mark.parametrize(("variable", "value"), [("CI", "true"), ("TERM", "dumb")])
def test_a_ci_system_and_a_dumb_terminal_see_nothing(terminal, monkeypatch, variable, value):
    """Nor does a file: standard error of this test is no terminal."""
    for name in ("CI", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert on_terminal(3).terminal is None
    with os.fdopen(os.dup(terminal[1]), "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        shown = on_terminal(3).terminal
        assert shown is not None
        os.close(shown)
        monkeypatch.setenv(variable, value)
        assert on_terminal(3).terminal is None


def test_a_narrow_terminal_cuts_lines_instead_of_wrapping_them():
    """One line a stage, whatever it has to say."""
    from rich.console import Console

    progress = Progress(300)
    progress.stage("mesh: connecting every pair of nodes on random ports", lambda: [f"n{i}" for i in range(0, 300, 2)])
    console = Console(width=40, color_system=None)
    with console.capture() as captured:
        console.print(progress.table())
    (line,) = captured.get().splitlines()
    assert len(line) <= 40


@pytest.mark.parametrize("columns", [30, 120])
def test_lines_are_as_wide_as_the_terminal_that_they_are_drawn_on(terminal, monkeypatch, columns):
    """Not as one that another stream, or nobody, has; the sign of a stage is never cut away."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = terminal
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    progress = Progress(3, theirs)
    words = "mesh: connecting every pair of nodes on random ports, until each has been tried from both of its ends"
    progress.stage(words)
    progress.stage("bench")
    progress.end()
    plain = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "\n", re.sub(r"\x1b\[[0-9;]*m", "", seen(ours)))
    drawn = [line for line in plain.splitlines() if "mesh" in line]
    assert drawn
    assert max(map(len, drawn)) <= columns
    assert all((words in line) is (columns == 120) for line in drawn)
    assert drawn[-1].startswith("✓")
