"""Do workers keep out of each other's way, and are there none where they would be in the way?"""

from __future__ import annotations

import fcntl
import itertools
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import kinds, patience, workers

ROOT = Path(__file__).parents[1]
OWN_NETWORK = """
import socket
from tests.workers import enter_own_network
enter_own_network()
with socket.create_server(("127.0.0.1", 29500)) as server, socket.create_connection(("127.0.0.1", 29500)):
    print([name for _, name in socket.if_nameindex()])
"""


@pytest.fixture
def locks(tmp_path):
    """A door and a room."""
    for name in ("door", "room"):
        (tmp_path / name).touch()
    return tmp_path / "door", tmp_path / "room"


def is_held(path):
    """Has anybody this lock?"""
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class Waiting:
    """A thread that waits for its turn, notes that it had it, and ends."""

    def __init__(self, locks, turns, name, *, is_exclusive):
        def take():
            with workers.turn(*locks, is_exclusive=is_exclusive):
                turns.append(name)

        self.thread = threading.Thread(target=take)
        self.thread.start()

    def ends(self, seconds):
        self.thread.join(seconds)
        return not self.thread.is_alive()


def test_tests_run_beside_each_other(locks):
    """A second one need not wait for the first."""
    turns = []
    with workers.turn(*locks, is_exclusive=False):
        assert Waiting(locks, turns, "second", is_exclusive=False).ends(10)


def test_an_exclusive_test_waits_and_is_not_overtaken(locks):
    """It begins when the running one has ended, and before one that came later."""
    turns = []
    with workers.turn(*locks, is_exclusive=False):
        exclusive = Waiting(locks, turns, "exclusive", is_exclusive=True)
        while not is_held(locks[0]):
            time.sleep(0.01)
        later = Waiting(locks, turns, "later", is_exclusive=False)
        assert not later.ends(0.3)
    assert exclusive.ends(10)
    assert later.ends(10)
    assert turns == ["exclusive", "later"]


@pytest.mark.skipif(not workers.can_have_own_network(), reason="a network namespace needs root")
def test_the_network_of_a_worker_is_loopback(locks):
    """It is up, its ports are free, and there is no other interface."""
    command = [sys.executable, "-c", OWN_NETWORK]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("['lo']\n", "")


def config(**changes):
    """Of a plain `pytest` in this checkout, on a machine with pytest-xdist."""
    plain = {
        "numprocesses": None,
        "keyword": "",
        "markexpr": "",
        "usepdb": False,
        "collectonly": False,
    }
    given = {
        **plain,
        "capture": "fd",
        "lf": False,
        "source": pytest.Config.ArgsSource.TESTPATHS,
        "plugins": (),
        **changes,
    }
    option = SimpleNamespace(**given)
    return SimpleNamespace(
        option=option,
        stash=pytest.Stash(),
        args_source=given["source"],
        getoption=lambda name, default: getattr(option, name, default),
        pluginmanager=SimpleNamespace(hasplugin=given["plugins"].__contains__),
    )


@pytest.mark.skipif(not workers.can_have_own_network(), reason="a network namespace needs root")
@pytest.mark.parametrize(("markers", "more"), [("unit", 0), ("", 2), ("long", 2)])
def test_the_whole_suite_has_forks(markers, more):
    """One a core for the unit tests; more where tests wait for others half of their time."""
    whole = config(markexpr=markers)
    workers.choose(whole)
    assert whole.stash[workers.FORKS] == min(len(os.sched_getaffinity(0)) + more, workers.MOST_FORKS)


@pytest.mark.parametrize(
    ("nodeid", "taken"),
    [
        ("tests/cli/test_main.py::test_a[1]", "tests/cli/test_main.py"),
        ("tests/e2e/test_bench.py::test_a[1]", "tests/e2e/test_bench.py::test_a[1]"),
        ("tests/e2e/test_ray.py::test_a[1]", "tests/e2e/test_ray.py"),
    ],
)
def test_what_is_prepared_for_a_file_is_prepared_once(nodeid, taken):
    """A fork takes the whole file, and of the lab one test, but where a cluster stands behind the file."""
    assert workers.share(nodeid) == taken


def test_a_file_is_left_unread_only_where_it_holds_no_unit_test():
    """By the same list that tells what a test needs."""
    assert kinds.has_no_unit_test("tests/job/ranks")
    assert kinds.has_no_unit_test("tests/job/ranks/test_train.py")
    assert not kinds.has_no_unit_test("tests/cli")
    assert not kinds.has_no_unit_test("tests/reach/test_hosts.py")
    assert not kinds.has_no_unit_test("tests/lab")


@pytest.mark.parametrize(
    "words",
    [
        {"numprocesses": 0},
        {"source": pytest.Config.ArgsSource.ARGS},
        {"keyword": "mtu"},
        {"lf": True},
        {"usepdb": True},
        {"collectonly": True},
        {"capture": "no"},
        {"plugins": ("preflight-checking",)},
    ],
    ids=lambda words: next(iter(words)),
)
def test_there_are_no_forks_where_they_would_be_in_the_way(words):
    """Workers of pytest-xdist or none, a part of the tests, a debugger, or hosts that are judged."""
    asked = config(**words)
    workers.choose(asked)
    assert workers.FORKS not in asked.stash


def test_what_is_listed_as_slow_is_there():
    """A file that was moved or renamed is moved here too."""
    assert [path for path in kinds.PROCESSES if not (ROOT / path.partition("::")[0]).exists()] == []


@pytest.mark.parametrize(
    ("words", "asked_for"),
    [
        ({}, "not long"),
        ({"markexpr": "unit or lab"}, "(unit or lab) and not long"),
        ({"markexpr": "long"}, "long"),
        ({"source": pytest.Config.ArgsSource.ARGS}, ""),
        ({"keyword": "mtu"}, ""),
        ({"lf": True}, ""),
    ],
    ids=["everything", "a marker", "long", "files", "words", "what failed"],
)
def test_long_tests_are_left_out_of_a_run_of_all_that_does_not_name_them(words, asked_for):
    """Whoever names a file, a word or the marker gets what was asked for."""
    asked = config(**words)
    kinds.leave_long_out(asked)
    assert asked.option.markexpr == asked_for


def test_what_is_listed_as_long_or_wide_is_there():
    """The file, and in it a test of that name."""
    for named in (*kinds.LONG, *kinds.WIDE):
        path, _, name = named.partition("::")
        assert f"def {name.partition('[')[0] or 'test_'}" in (ROOT / path).read_text(encoding="utf-8"), named


def test_every_test_is_of_one_part_and_a_file_that_prepares_something_is_not_taken_apart():
    """Of three parts, each about a third; with the second of two, nothing of the first."""
    names = [f"tests/e2e/test_{number}.py::test_a" for number in range(300)]
    parts = [[name for name in names if kinds.is_of_part(name, f"{number}/3")] for number in (1, 2, 3)]
    assert sorted(itertools.chain(*parts)) == sorted(names)
    assert all(60 < len(part) < 140 for part in parts)
    of_ray = {kinds.is_of_part(workers.share(f"tests/e2e/test_ray.py::test_{name}"), "1/3") for name in "abcdef"}
    assert len(of_ray) == 1


def made_up(path, *fixtures, marks=(), name="test_it"):
    """A test as pytest collects it, as far as its kind goes."""
    marked = set(marks)
    return SimpleNamespace(
        nodeid=f"{path}::{name}", fixturenames=fixtures, get_closest_marker=lambda one: one in marked or None
    )


def test_what_waits_and_what_works_are_dealt_out_in_turn():
    """The longest of what works first; then what is short, and at the end what must run alone."""
    lab = [made_up(f"tests/lab/test_{number}.py", "lab_is_possible") for number in range(4)]
    alone = made_up("tests/lab/test_0.py", "lab_is_possible", marks=["exclusive"])
    short, wide = (
        made_up("tests/reach/test_hosts.py"),
        made_up(kinds.WIDE[0].split("::")[0], name=kinds.WIDE[0].split("::")[1]),
    )
    late, early = made_up(kinds.PROCESSES[-1]), made_up(kinds.PROCESSES[0])
    ordered = kinds.in_order([alone, short, wide, *lab, late, early])
    assert ordered == [early, lab[0], lab[1], late, lab[2], lab[3], wide, short, alone]


def test_what_tests_start_keeps_its_bytecode_whatever_the_shell_says(monkeypatch):
    """Of a thousand starts of Python each would compile what it imports."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "HOME": "/root"}
    workers.keep_bytecode(environment)
    assert environment == {"HOME": "/root"}
    assert not sys.dont_write_bytecode


def test_patience_grows_with_what_else_the_machine_does():
    """At rest nobody is more patient than usual; never less."""
    assert 1.0 <= patience.of_this_machine() <= 50.0
