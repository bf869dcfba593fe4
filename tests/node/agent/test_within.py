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


def test_a_question_that_breaks_is_no_answer():
    """A bug of ours in a question does not look like good news."""
    with pytest.raises(OSError, match="without an answer"):
        within.ask(lambda: 1 // 0, seconds=5)
