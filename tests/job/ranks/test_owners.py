"""Does the program that asks owners tell a refusal from what says nothing of the files?"""

from __future__ import annotations

import argparse

import pytest

from preflight.job.ranks.owners import RefusesToStart, no_start, refusal, without_auto

WHOLE = {"whole": True}


def raising(error):
    """An owner that answers with this."""

    def read(_question):
        raise error

    return read


@pytest.mark.parametrize(
    ("error", "question", "expected"),
    [
        (ValueError("stage 4\n    For further information visit https://x"), WHOLE, "stage 4"),
        (AssertionError("both are on"), WHOLE, "both are on"),
        (ValueError("Cuda is not available."), WHOLE, ""),
        (ValueError("malformed"), {"whole": False}, ""),
    ],
)
def test_what_an_owner_raises_is_its_reason(error, question, expected):
    """Not where it speaks of this machine, or of a stand-in."""
    assert refusal(raising(error), question) == expected


def test_what_argparse_prints_is_its_reason():
    """The line behind its usage."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int)
    assert refusal(lambda _: parser.parse_args(["--n", "x"]), WHOLE) == "argument --n: invalid int value: 'x'"
    assert refusal(lambda _: parser.parse_args(["--help"]), WHOLE) == ""
    assert refusal(lambda _: parser.parse_args(["--n", "1"]), WHOLE) == ""


def test_what_is_no_refusal_is_no_answer():
    """An owner of another version that has no such function says nothing."""
    with pytest.raises(AttributeError):
        refusal(raising(AttributeError("no parse_args")), WHOLE)
    with pytest.raises(RefusesToStart):
        refusal(lambda _: no_start(["torchrun"]), WHOLE)


def test_what_the_trainer_fills_in_is_left_out():
    """At every depth."""
    assert without_auto({"a": "auto", "b": {"c": "auto", "d": 1}}) == {"b": {"d": 1}}
