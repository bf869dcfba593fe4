"""What does the process get that asks the owners, and what is taken of what it prints?"""

from __future__ import annotations

import json

import pytest

from preflight.launch.owners import ask as asking
from preflight.launch.owners.questions import Answer, questions
from preflight.launch.read import read_texts

TWO = "torchrun --nnodes=1 t.py\nray start --head\n"
REFUSED = {"owner": "torch", "version": "2.5", "refused": "no"}


@pytest.fixture
def asked(monkeypatch):
    """Two questions, a function that sets what is printed for them, and what the process was given."""
    given = []

    def prints(*lines):
        def run(argv, text, seconds):
            given.append((argv, json.loads(text), seconds))
            return "\n".join(lines)

        monkeypatch.setattr(asking, "_run", run)

    return questions(read_texts({"n.sh": TWO})), prints, given


def test_each_question_is_asked_by_its_number(asked):
    """With all that the owner needs, in the Python of the job, and not where nothing is asked."""
    some, prints, given = asked
    prints("")
    assert asking.ask((), "python3") == ()
    assert given == []
    assert asking.ask(some, "python3", seconds=7.0) == ()
    [(argv, sent, seconds)] = given
    assert (argv[:2], seconds) == (["python3", "-c"], 7.0)
    assert argv[2] == asking.PROGRAM.read_text(encoding="utf-8")
    assert [one["id"] for one in sent] == [0, 1]
    assert all(one["places"] == [] for one in sent)


@pytest.mark.parametrize(
    "noise",
    [
        "not JSON",
        "[1]",
        json.dumps({"id": 9, **REFUSED}),
        json.dumps({"id": "x", **REFUSED}),
        json.dumps({"id": 0, "owner": "torch"}),
    ],
)
def test_what_an_owner_prints_itself_is_passed_over(asked, noise):
    """A line of another form is no answer, and those around it are."""
    some, prints, _ = asked
    prints(json.dumps({"id": 1, **REFUSED}), noise, json.dumps({"id": 0, **REFUSED, "refused": ""}))
    found = asking.ask(some, "python3")
    assert found == (Answer(some[1], "torch", "2.5", "no"), Answer(some[0], "torch", "2.5", ""))


def test_a_program_runs_in_an_empty_folder_of_its_own():
    """It reads what it is given, sees no GPU, asks no hub, and what it writes for errors is nobody's."""
    wanted = (
        'cat; ls -A; [ "$PWD" = "$TMPDIR" ] && [ "$PWD" = "$HF_HOME" ]; echo $? "$CUDA_VISIBLE_DEVICES" $HF_HUB_OFFLINE'
    )
    wanted += "; echo x >&2"
    assert asking._run(["sh", "-c", wanted], "given\n", 30.0) == "given\n0  1\n"
    assert asking._run(["printf", "\\377"], "", 30.0) == "\ufffd"
    assert asking._run(["/no/such/program"], "", 30.0) == ""


def test_a_program_whose_time_is_over_is_ended_and_what_it_said_counts():
    """With what it has started itself."""
    assert asking._run(["sh", "-c", "echo first; sleep 60; echo second"], "", 0.2) == "first\n"
