"""Does the measure of the tests leave out what no test is asked to notice, and nothing else?"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench import mutation, mutation_same, mutation_tests
from tests.bench.mutants import mutants
from tests.bench.mutation_tests import Map, is_below
from tests.house import ROOT


def left_out(source: str, words: str) -> list[bool]:
    """Of each change of a module that is called so: is it left out?"""
    return [bool(one.why_same) for one in mutants("preflight/judge/blame.py", source) if one.words == words]


@pytest.mark.parametrize(
    ("source", "words", "is_left_out"),
    [
        ("MOST = 4 << 20\ndef f(n):\n    return n > MOST\n", "Gt becomes GtE", True),
        ("def f(n):\n    return n < 4096\n", "Lt becomes LtE", True),
        ("def f(n):\n    return n < 4096\n", "Lt becomes Gt", False),
        ("FEW = 3\ndef f(n):\n    return n > FEW\n", "Gt becomes GtE", False),
        ("def f(n, m):\n    return n < m\n", "Lt becomes LtE", False),
        ("def f(n):\n    return n < 99\n", "Lt becomes LtE", False),
        ("DEPTH_LIMIT = 60\ndef f(n):\n    return n > DEPTH_LIMIT\n", "Gt becomes GtE", True),
        ("DEPTH_LIMIT = 60\n", "60 becomes 61", True),
        ("SIZE_LIMIT = 4 << 20\n", "20 becomes 21", True),
        ("NESTING_LIMIT = 5\n", "5 becomes 6", False),
        ("DEPTH = 60\n", "60 becomes 61", False),
        ("MEETING_PORT = 29501\n", "29501 becomes 29502", False),
        ("FROM_A_SHELL = 128\n", "128 becomes 129", False),
        ("LARGE = 0xFFFFFFFF\n", f"{0xFFFFFFFF} becomes {1 << 32}", False),
        ("LARGEST_MTU = 4096\ndef f(n):\n    return n < LARGEST_MTU\n", "Lt becomes LtE", False),
        ("DEFAULT_PORT = 29500\n", "29500 becomes 29501", False),
        ("STOPPED: int = 130\n", "130 becomes 131", False),
        ("HIGHEST_PORT = 65535\ndef f(n):\n    return n > HIGHEST_PORT\n", "Gt becomes GtE", False),
        (
            "from preflight.launch.text.located import DEPTH_LIMIT\ndef f(n):\n    return n > DEPTH_LIMIT\n",
            "Gt becomes GtE",
            True,
        ),
    ],
)
def test_one_more_than_a_large_limit_is_as_good(source, words, is_left_out):
    """Where the limit itself is taken in or left out; its opposite, a small one, a port or an exit code is tested."""
    assert left_out(source, words) == [is_left_out]


@pytest.mark.parametrize(
    ("expression", "number", "is_left_out"),
    [
        ("n / t / 1e9", "1000000000.0", True),
        ("n * 1e6", "1000000.0", True),
        ("n / 1e3", "1000.0", False),
        ("n / 4194304", "4194304", False),
        ("n % 1e9", "1000000000.0", False),
        ("n + 1e9", "1000000000.0", False),
    ],
)
def test_one_more_than_a_large_unit_shows_in_no_figure(expression, number, is_left_out):
    """Of a million and more, that something measured is divided by; counts and thousands are tested."""
    words = f"{number} becomes {float(number) + 1 if '.' in number else int(number) + 1}"
    assert left_out(f"def f(n, t):\n    return {expression}\n", words) == [is_left_out]


def test_sentences_of_the_catalogue_are_left_out_and_words_of_programs_are_not(monkeypatch):
    """As a whole and as the parts of one with values; an option, a key and a text that is compared are noticed."""
    source = (
        'def f(n):\n    yield "the GPU is not on the bus"\n    yield f"{n} ranks wait on {n} nodes"\n'
        '    yield "--nnodes"\n    yield n["hold on"]\n    yield n == "not set at all"\n'
    )
    shown = frozenset(mutation_same.catalogue.spoken(source, "preflight/judge/blame.py"))
    monkeypatch.setattr(mutation_same, "sentences_of", lambda _path: shown)
    every = [one for one in mutants("preflight/judge/blame.py", source) if one.words.endswith("is spoilt")]
    assert {one.line for one in every if one.why_same} == {2, 3}
    assert {one.line for one in every if not one.why_same} == {4, 5, 6}


@pytest.mark.parametrize(
    ("expression", "is_left_out"),
    [
        ("text[:60]", True),
        ('", ".join(names[:4])', True),
        ('", ".join(names[:1])', False),
        ("names[:4]", False),
        ("names[4:]", False),
    ],
)
def test_how_much_is_shown_may_be_one_more(expression, is_left_out):
    """Of a long text and of a list of names; which of several are taken elsewhere, or which one, is noticed."""
    number = re.search(r"\d+", expression)[0]
    words = f"{number} becomes {int(number) + 1}"
    assert left_out(f"def f(text, names):\n    return {expression}\n", words) == [is_left_out]


def test_how_much_is_shown_is_noticed_where_the_rest_is_counted():
    """One name more, and as many others as before, would be one too many."""
    source = 'def f(names):\n    return ", ".join(names[:4]) + said("{n} more", len(names) - 4)\n'
    assert left_out(source, "4 becomes 5") == [False, False]


def test_the_ending_of_a_word_is_one_of_a_sentence():
    """Whether one or several are there is; that a text is repeated, and a number that is compared elsewhere, is not."""
    source = 'def f(n):\n    return said("{n} node{s}", n, "s" * (n != 1)) + "x" * (n != 3)\n'
    assert left_out(source, "'s' is spoilt") == left_out(source, "1 becomes 2") == [True]
    assert sorted(left_out(source, "NotEq becomes Eq")) == [False, True]
    assert left_out(source, "3 becomes 4") == left_out(source, "'x' is spoilt") == [False]
    assert left_out(source, "Mult becomes Add") == [False, False]


@pytest.mark.parametrize(
    ("decorator", "is_left_out"),
    [("cache", True), ("functools.lru_cache(maxsize=7)", True), ("cached_property", False)],
)
def test_a_result_that_is_kept_is_the_same_worked_out_anew(decorator, is_left_out):
    """A property is read otherwise than a function is called."""
    source = f"@{decorator}\ndef f(n):\n    return n == 9\n"
    assert left_out(source, "is not decorated") == [is_left_out]
    assert left_out(source, "9 becomes 10") == [False]
    assert left_out(source, "7 becomes 8") == [True] * ("7" in decorator)


def test_what_is_said_of_a_function_is_not_changed():
    """Whether it waits for others or not."""
    source = 'def f():\n    """One."""\nasync def g():\n    """Two."""\n    return "three"\n'
    changed = [one.old for one in mutants("preflight/judge/blame.py", source) if one.words.endswith("is spoilt")]
    assert changed == ["'three'"]


@pytest.mark.parametrize(
    ("source", "words", "is_left_out"),
    [
        ('present(node.cuda, "CUDA")', "'CUDA' is spoilt", True),
        ('present(node["CUDA"], "x")', "'CUDA' is spoilt", False),
        ('Fault("MIG", f, "turn it off", "nvidia-smi(1)")', "'nvidia-smi(1)' is spoilt", True),
        ('Fault("MIG", f, "turn it off", "nvidia-smi(1)")', "'MIG' is spoilt", False),
        ('of_the_others(case, f, "mtu")', "'mtu' is spoilt", True),
        ('case.once(f"most common {what}", f)', "'most common ' is spoilt", True),
        ('case.value("mtu")', "'mtu' is spoilt", False),
        ("@cache\ndef f():\n    pass", "is not decorated", True),
        ("@property\ndef f():\n    pass", "is not decorated", False),
        ("Rows = dict[str, int]", "becomes None", True),
        ("Rows = table[0]", "becomes None", False),
        ("f(text[:64])", "64 becomes 65", True),
        ("f(text[:8])", "8 becomes 9", False),
    ],
)
def test_what_only_people_or_annotations_read_is_left_out(source, words, is_left_out):
    """And what is kept for speed alone; what a function is given otherwise is not."""
    assert left_out(source, words) == [is_left_out]


def test_what_walks_over_tables_is_tried_by_its_file_function_or_row():
    """The parts of one parametrized test are below it."""
    assert is_below("tests/test_found.py::test_a[x]", ["tests/test_found.py::test_a"])
    assert is_below("tests/test_found.py::test_a", ["tests"])
    assert not is_below("tests/test_found.py::test_ab[x]", ["tests/test_found.py::test_a"])


def test_what_a_function_does_while_modules_are_imported_may_be_noticed_by_any_test_of_the_room():
    """After those that run the line themselves."""
    path, own, other = (
        "preflight/judge/blame.py",
        "tests/judge/test_blame.py::test_a",
        "tests/judge/test_again.py::test_b",
    )
    made = Map({own: 0.1, other: 0.1}, {path: {3: frozenset({own})}}, {path: frozenset({3})})
    assert made.stages(path, (3, 3), is_at_import=False) == [[own], [own], [other]]
    assert made.stages(path, (4, 4), is_at_import=False) == []


ROWS = """ROWS = {"a": lambda n: n + 1}
def f(n):
    held = ROWS["a"](n)
    return held
def g(): return 1
"""


def test_functions_of_one_line_are_noted_as_others_are(tmp_path):
    """The line that makes a lambda runs at import, and what it does where it is called."""
    file = tmp_path / "rows.py"
    file.write_text(ROWS)
    made: dict[str, Any] = {}
    exec(compile(ROWS, str(file), "exec"), made)
    tracer = mutation_tests.Tracer(tmp_path, ["rows.py"])
    with tracer.started:
        seen = tracer.traced()
        made["f"](1)
        made["g"]()
        sys.settrace(None)
        threading.settrace(None)
    assert {line for _, line, _ in seen} == {1, 3, 4, 5}


FORKS = """
import os, sys
from preflight.job.ranks.rank import limits
if os.fork() == 0:
    limits.of_a_call(limits.Planned(), seconds=1.0)
    os._exit(0)
os.wait()
import traced_by_us
"""


def test_lines_of_a_process_and_of_its_forks_are_noted(tmp_path):
    """However they end; and a sitecustomize that was there before still runs."""
    (tmp_path / "own").mkdir()
    (tmp_path / "lines").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys; sys.modules['traced_by_us'] = sys")
    path = [str(ROOT / "tests" / "bench" / "tracing"), str(tmp_path / "own"), str(ROOT)]
    given = {"PYTHONPATH": os.pathsep.join(path), "TRACED_LINES": str(tmp_path / "lines")}
    subprocess.run([sys.executable, "-c", FORKS], env={**os.environ, **given}, check=True)
    held = [set(file.read_text().splitlines()) for file in (tmp_path / "lines").iterdir()]
    text = (ROOT / "preflight/job/ranks/rank/limits.py").read_text().splitlines()
    called = 1 + next(number for number, line in enumerate(text) if line.startswith("    return max(allowed("))
    assert [f"preflight/job/ranks/rank/limits.py:{called}" in lines for lines in sorted(held, key=len)] == [True, False]


def test_what_starts_processes_is_tried_last_and_only_where_it_ran_the_file():
    """The quickest that runs the changed line first."""
    path = "preflight/job/ranks/store.py"
    own, quick, slow, slower, other = (
        f"tests/job/ranks/{name}"
        for name in ("test_store.py::a", "test_life.py::b", "test_told.py::c", "test_told.py::d", "test_told.py::e")
    )
    seconds = {own: 0.1, quick: 0.2, slow: 5.0, slower: 9.0, other: 1.0}
    made = Map(seconds, {path: {3: frozenset({own, quick, slower, slow})}}, {})
    assert made.stages(path, (3, 3), is_at_import=False) == [[own], [quick], [slow, slower]]
    assert made.stages(path, (9, 9), is_at_import=True) == [[own], [quick], [slow, slower]]


def test_a_test_that_hangs_is_late_before_the_others_have_had_their_time():
    """By its own time when nothing was changed."""
    chosen = mutation.Chosen(["a::b", "a::c"], {"a::b": 1.0, "a::c": 100.0}, patient=1.0)
    assert chosen.until() == math.inf
    chosen.pytest_runtest_logstart("a::b")
    left = chosen.until() - time.monotonic()
    assert left < mutation.STARTING_SECONDS + mutation.SLOWER * 2.0 < chosen.allowed(["a::b", "a::c"])


def test_what_walks_over_all_cases_is_tried_on_every_line_of_a_file_that_it_runs():
    """It calls a function more often than calls of it are traced."""
    path, own, all_cases = (
        "preflight/launch/seats.py",
        "tests/launch/test_seats.py::test_a",
        "tests/test_found.py::test_launch_files_hold_what_is_listed[starts-x.txt]",
    )
    made = Map({own: 0.1, all_cases: 0.1}, {path: {3: frozenset({own}), 9: frozenset({all_cases})}}, {})
    assert made.stages(path, (3, 3), is_at_import=False) == [[own], [all_cases]]
    assert made.stages("preflight/launch/start.py", (3, 3), is_at_import=False) == []


def test_every_exception_by_hand_is_still_a_line_of_ours():
    """One that nobody needs any more is taken out."""
    gone = [key for key in mutation_same.SAME if key[1] not in (ROOT / key[0]).read_text()]
    assert gone == []


def test_wide_tests_that_are_named_are_tried_and_no_others():
    """What walks over all logs or clusters was written down for this; properties over many examples take too long."""

    def is_tried(name):
        return mutation_tests.is_tried(SimpleNamespace(nodeid=name, fixturenames=[]))

    assert is_tried("tests/test_found.py::test_logs_tell_what_is_listed[logs-torch]")
    assert is_tried("tests/judge/test_blame.py::test_nothing_failed_blames_nobody")
    assert not is_tried("tests/judge/test_blame.py::test_every_failed_edge_has_a_blamed_end")
    assert not is_tried("tests/diagnose/test_jobs.py::test_a_job")
