"""What do the ranks of a job make of the store that they meet in?"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from preflight.job.ranks import attendance, meeting

TASK = "import pathlib, sys; pathlib.Path({path!r}).write_text('ran')"


class Store(dict):
    """Torch's store, as far as a rank asks it."""

    def check(self, keys):
        """Whether all are there."""
        return all(key in self for key in keys)

    def get(self, key):
        """The value."""
        return self[key]


class Gone(Store):
    """One whose host has ended."""

    def check(self, keys):
        """As torch says it."""
        raise RuntimeError("Connection reset by peer")


@pytest.fixture
def here():
    """A node."""
    return attendance.Node("gpu2", "127.0.0.1", "127.0.0.1", "new", 1, 2, 1)


def program(path, secret_proof=""):
    """What rank 0 puts into the store."""
    return json.dumps({"program": "00", "loader": TASK.format(path=str(path)), "proof": secret_proof})


def test_a_rank_starts_what_is_asked_for_and_leaves_with_the_verdict(here, tmp_path):
    """The task has the node's variables, and has ended before the rank does."""
    tasks = meeting.Tasks(here)
    assert meeting.follow(Store({"program/0": program(tmp_path / "ran"), "verdict": b"1"}), tasks) == 1
    tasks.end()
    assert (tmp_path / "ran").read_text() == "ran"


def test_a_store_that_is_gone_is_not_measured(capsys):
    """Rank 0's machine is lost: nobody waits for it."""
    assert meeting.follow(Gone(), None) == 3
    assert "rank 0 is gone: Connection reset by peer" in capsys.readouterr().err


def test_with_a_secret_a_program_without_its_proof_is_not_run(here, tmp_path, monkeypatch, capsys):
    """Whoever reaches the port of the store could have put it there."""
    monkeypatch.setenv("PREFLIGHT_SECRET", "of this job")
    tasks = meeting.Tasks(here)
    unproved = json.loads(program(tmp_path / "first"))
    earlier, proved = (
        {**unproved, "loader": TASK.format(path=str(tmp_path / nonce)), "nonces": ["of another node", nonce]}
        for nonce in ("old", "new")
    )
    store = Store({"verdict": b"0"})
    for number, told in enumerate((unproved, earlier, proved)):
        if number:
            told["proof"] = meeting.proof(told["program"], told["loader"], *told["nonces"])
        store[f"program/{number}"] = json.dumps(told)
    assert [meeting.is_proved(json.loads(store[f"program/{number}"]), here) for number in range(3)] == [
        False,
        False,  # of an earlier run with the same secret, whose key everybody could read
        True,
    ]
    assert meeting.follow(store, tasks) == 0
    tasks.end()
    assert "without proof of PREFLIGHT_SECRET was refused" in capsys.readouterr().err


def test_a_process_that_rank_0_did_not_meet_runs_nothing_and_has_no_verdict(here, tmp_path, capsys):
    """It came late, or as a rank that another process is: what rank 0 says is not of it."""
    told = {**json.loads(program(tmp_path / "ran")), "nonces": ["of rank 0", "of the other rank 1"]}
    tasks = meeting.Tasks(here)
    assert meeting.follow(Store({"program/0": json.dumps(told), "verdict": b"0"}), tasks) == 3
    assert tasks.process is None
    assert "preflight: rank 1 on gpu2 is not in this meeting: it came when" in capsys.readouterr().err


def test_a_program_of_another_shape_ends_the_rank_without_a_verdict(here, capsys):
    """With one line."""
    for word in ("[]", '{"program": 1, "loader": 2, "proof": 3}', '{"program": "", "loader": "", "proof": "\xe9"}'):
        tasks = meeting.Tasks(here)
        assert meeting.follow(Store({"program/0": word, "verdict": b"3"}), tasks) == 3
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_task_has_no_variable_of_a_rank(here, tmp_path, monkeypatch):
    """The job's port is held by the meeting, and no secret goes on."""
    for name in ("RANK", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "PREFLIGHT_SECRET"):
        monkeypatch.setenv(name, "29500")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    loader = f"import os; open({str(tmp_path / 'seen')!r}, 'w').write(repr(sorted(os.environ)))"
    tasks = meeting.Tasks(here)
    tasks.start("00", loader)
    tasks.end()
    seen = (tmp_path / "seen").read_text()
    assert "NCCL_DEBUG" in seen
    assert "PREFLIGHT_CONTROLLER" in seen
    assert not any(name in seen for name in ("RANK", "MASTER_PORT", "TORCHELASTIC", "PREFLIGHT_SECRET"))
    assert sys.executable


class Meeting:
    """Two processes of one machine: rank 0's and another's, as their launcher would start them."""

    def __init__(self, *, words=("60", "60"), here="2", **other):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        given = {name: value for name, value in os.environ.items() if "PREFLIGHT" not in name}
        given |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": here}
        starts = [("lead", {"RANK": "0", "LOCAL_RANK": "0"}), ("serve", {"RANK": "1", **other})]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.ranks = [
            subprocess.Popen(
                [sys.executable, "-m", "preflight.job.ranks.meeting", part, "1.0", *words],
                env={**given, **own},
                text=True,
                **pipes,
            )
            for part, own in (starts if other else starts[:1])
        ]

    def ended(self, word=""):
        """What each said, and its exit code."""
        try:
            said = [rank.communicate(word if place == 0 else None, timeout=60) for place, rank in enumerate(self.ranks)]
        finally:
            for rank in self.ranks:
                rank.kill()
                rank.wait()
        return [(out, err, rank.returncode) for (out, err), rank in zip(said, self.ranks, strict=True)]


@pytest.mark.parametrize(("word", "code"), [("1\n", 1), ("x\n", 3)])
def test_ranks_meet_and_leave_with_the_code_of_rank_0(word, code):
    """Whoever is told nothing has not measured."""
    (out, err, first), (_, _, second) = Meeting(LOCAL_RANK="1").ended(word)
    told = json.loads(out)
    assert ([rank for rank, _ in told["nodes"]], told["absent"], told["nodes"][0][1]["local"]) == ([0], [], 2)
    assert (first, second, err) == (code, code, "")
    assert not os.path.exists(told["door"])


def test_two_first_ranks_of_a_node_are_told_on_both_sides():
    """And nothing is measured."""
    (out, _, first), (_, err, second) = Meeting(LOCAL_RANK="0", here="1").ended()
    assert "ranks 0 and 1: both say that they are the first of" in json.loads(out)["error"]
    assert "ranks 0 and 1: both say that they are the first of" in err
    assert (first, second) == (3, 3)


def test_rank_0_does_not_wait_for_ever():
    """With whom it waited for."""
    ((out, _, code),) = Meeting(words=("1", "5"), here="1").ended("0\n")
    told = json.loads(out)
    assert (code, [rank for rank, _ in told["nodes"]], told["absent"]) == (0, [0], [1])
