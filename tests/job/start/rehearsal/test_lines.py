"""Is the line found at which a script is, stopped or failed?"""

from __future__ import annotations

from preflight.job.start.rehearsal.lines import failed_lines, last_line, last_words, rows_of_script, text_at, whole_at
from preflight.job.start.rehearsal.story import Row
from tests.job.measure.rehearsal.stories import PATH, cast, node

SCRIPT = cast().scripts["node1"]


def line(**fields):
    """The last line of a node."""
    return last_line(node("node1", **fields), SCRIPT)


def test_a_running_script_is_at_its_last_command():
    """It has not ended."""
    found = line(code=None, lines=((2, 0), (4, 0)))
    assert (found.place, found.status) == ("run.sh:4", -1)


def test_a_failure_is_the_command_before_its_status():
    """Behind it there may be traps, and an exit with another code."""
    assert line(code=127, lines=((2, 0), (3, 0))).line == 3
    assert line(code=1, lines=((2, 0), (3, 0), (4, 127))).line == 3
    assert line(code=1, lines=((2, 0), (3, 0), (4, 127))).status == 127
    assert line(code=0, lines=()) is None


def test_subshells_and_other_shells_are_not_the_script():
    """Their rows stand between its own."""
    told = node("node1", lines=((2, 0),))
    told.rows += [Row(1, 7, 1, 101.0, 9, PATH), Row(127, 8, 0, 102.0, 1, ""), Row(0, 7, 0, 103.0, 3, PATH)]
    assert [row.line for row in rows_of_script(told, SCRIPT)] == [2, 3]


def test_commands_that_cannot_be_run_are_found():
    """Not those that merely fail, as scripts test for much."""
    told = node("node1", lines=((2, 0), (3, 1), (4, 127)))
    assert [found.line for found in failed_lines(told, SCRIPT)] == [3]


def test_a_command_is_shown_whole_and_without_secrets():
    """It may go on over several lines."""
    lines = ["export WANDB_API_KEY=abcdef0123456789", "torchrun \\", "  --nnodes=2 \\", "  train.py"]
    assert "abcdef" not in text_at(lines, 1)
    assert text_at(lines, 2) == "torchrun --nnodes=2 train.py"
    assert text_at(lines, 9) == ""


def test_the_last_words_are_those_of_the_error_stream():
    """Else nothing."""
    assert last_words(node("node1", err="one\ntwo\n\n")) == "two"
    assert last_words(node("node1")) == ""


def test_a_command_goes_on_behind_a_backslash_and_an_open_quote():
    """As bash reads it; an apostrophe in a comment opens nothing."""
    lines = ["pdsh -w n1 \\", '  "cd x', 'python y"', "echo z # it's", "echo"]
    assert whole_at(lines, 1) == 'pdsh -w n1 "cd x\npython y"'
    assert whole_at(lines, 4) == "echo z # it's"


def test_a_warning_of_torch_is_the_last_word_only_where_there_is_no_other():
    """What failed stands before it."""
    warning = "[W1127 23:40:59.2 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3"
    assert last_words(node("node1", err=f"no such host\n{warning}\nframe #1: x\n")) == "no such host"
    empty = "W1128 01:12:24.567000 387 torch/distributed/run.py:874] "
    assert last_words(node("node1", err=f"{empty}\n{warning}\n{empty}\n")).startswith(
        "The hostname of the client socket"
    )
