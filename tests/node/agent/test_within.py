"""Tests of preflight.node.agent.within."""

import os
import time

import pytest

from preflight.node.agent import within


def test_answers_come_back_as_they_are():
    """Whatever JSON can say is an answer."""
    assert within.ask(lambda: {"free": 3, "names": ["a"]}, seconds=5) == {"free": 3, "names": ["a"]}


def test_the_reason_of_a_refusal_comes_back():
    """An OSError of the question is raised here, with its number."""
    with pytest.raises(FileNotFoundError):
        within.ask(lambda: os.listdir("/nonexistent/folder"), seconds=5)


def test_a_question_without_an_answer_costs_its_time_only():
    """Two that hang at once take one limit, and the one that answers is heard."""
    begun = time.monotonic()
    answers = within.ask_each({"a": lambda: time.sleep(30), "b": lambda: time.sleep(30), "c": lambda: 1}, seconds=0.5)
    assert time.monotonic() - begun < 5
    assert [type(answers[key]) for key in "abc"] == [within.Silent, within.Silent, int]


def spinning(seconds):
    """Need a processor for so long."""
    while time.process_time() < seconds:
        continue
    return "done"


def test_the_time_that_a_question_waits_for_a_processor_does_not_run():
    """Of many at once on few processors each is answered, though all of them take longer together than one may."""
    spin = (os.cpu_count() or 1) * 6
    questions = {str(number): lambda: spinning(0.2) for number in range(spin)}
    assert within.ask_each(questions, seconds=0.6, spare_seconds=60.0) == dict.fromkeys(questions, "done")


def test_a_question_that_hangs_has_no_spare_time():
    """It needs no processor: it is given up when its own time is over, and so is one that never stops."""
    begun = time.monotonic()
    questions = {"hangs": lambda: time.sleep(60), "busy": lambda: spinning(0.5)}
    answers = within.ask_each(questions, seconds=0.2, spare_seconds=30.0)
    assert (type(answers["hangs"]), answers["busy"]) == (within.Silent, "done")
    assert time.monotonic() - begun < 30.0
    assert (
        type(within.ask_each({"busy": lambda: spinning(60)}, seconds=0.2, spare_seconds=0.3)["busy"]) is within.Silent
    )


def test_a_question_that_breaks_is_no_answer():
    """A bug of ours in a question does not look like good news."""
    with pytest.raises(OSError, match="without an answer"):
        within.ask(lambda: 1 // 0, seconds=5)
