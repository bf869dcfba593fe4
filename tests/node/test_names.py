"""Tests of preflight.node.names."""

import socket
import threading

import pytest

from preflight.node.names import addresses_of, ask_all


def test_every_question_gets_its_answer():
    """More questions than threads are all answered, each under its own key."""
    questions = {str(number): (lambda number=number: number) for number in range(100)}
    assert ask_all(questions) == {str(number): number for number in range(100)}


def test_a_slow_look_up_does_not_hold_up_the_others():
    """A question without an answer in time is a TimeoutError; the others keep their answers."""
    release = threading.Event()
    try:
        answers = ask_all({"slow": release.wait, "quick": lambda: "192.0.2.1"}, limit_s=0.2)
    finally:
        release.set()
    assert answers["quick"] == "192.0.2.1"
    assert isinstance(answers["slow"], TimeoutError)
    assert "within 0.2 s" in str(answers["slow"])


def test_a_failed_look_up_is_an_error_value():
    """What a resolver raises comes back as the answer, also for text that is no host name at all."""

    def fail():
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    answers = ask_all({"again": fail, "label": lambda: addresses_of("a..b")})
    assert isinstance(answers["again"], socket.gaierror)
    assert isinstance(answers["label"], OSError)


def test_no_questions_take_no_time():
    """An empty round gives an empty answer."""
    assert ask_all({}) == {}


@pytest.mark.parametrize("text", ["127.0.0.1", "::1"])
def test_an_address_resolves_to_itself(text):
    """Addresses need no resolver and appear once."""
    assert addresses_of(text) == [text]
