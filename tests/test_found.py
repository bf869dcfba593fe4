"""Is what is found in the launch cases, logs and broken clusters of the tests what tests/data/said/ lists?"""

from __future__ import annotations

import importlib

import pytest

from preflight.said import joined
from preflight.said import said as sentence
from tests import found as said

LONG = ("faults", "nodes", "starts")  # the same files once more: with a fault each, beside nodes, and as starts


@pytest.fixture(autouse=True)
def _keep_what_is_compiled(request, tmp_path_factory, monkeypatch) -> None:
    """Torch makes its own folder as its compiler is imported, and it would stand among what the lab finds left."""
    if getattr(request.node, "callspec", None) and request.node.callspec.params.get("name") == "ranked":
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "inductor"))
        importlib.import_module("torch._dynamo.package")


def sections(*names: str) -> pytest.MarkDecorator:
    """One test for each section of these tables, as they are listed."""
    marks = {name: [pytest.mark.long] if name in LONG else [] for name in names}
    held = [pytest.param(name, one, marks=marks[name]) for name in names for one in said.listed(name)]
    return pytest.mark.parametrize(("name", "section"), held)


def assert_listed(name: str, section: str) -> None:
    """The lines of a section are those that were written down."""
    assert "\n".join(said.TABLES[name]()[section]()).split("\n") == (said.listed(name)[section] or [""])


@sections("faults", "launch", "nodes", "starts")
def test_launch_files_hold_what_is_listed(name, section):
    """Every start, and of findings verdict, place, values and edits; `python -m tests.found` writes what is right."""
    assert_listed(name, section)


@sections("clusters", "spread", "unlike")
def test_broken_clusters_are_told_what_is_listed(name, section):
    """Verdict, nodes, values and commands, check by check."""
    assert_listed(name, section)


@sections("planted")
def test_checks_speak_of_a_fact_that_is_planted_as_listed(name, section):
    """Those that are listed there say no more and no less; that the others say nothing, a longer test shows."""
    spoken = [line.split()[1] for line in said.listed(name)[section] if not line.startswith(" ")]
    assert list(said.TABLES[name]()[section](spoken)) == said.listed(name)[section]


def test_no_other_check_speaks_of_a_fact_that_is_planted():
    """All checks of nodes over all fields."""
    for section, made in said.TABLES["planted"]().items():
        assert list(made()) == [line for line in said.listed("planted")[section] if line], section


@sections("altered", "lines", "logs")
def test_logs_tell_what_is_listed(name, section):
    """Causes, lines, ranks, nodes and the outcome, log by log and in single lines."""
    assert_listed(name, section)


@sections("hangs")
def test_ranks_that_hang_are_told_as_listed(name, section):
    """Who is named and missing, whether the job goes on, and the values of the sentence."""
    assert_listed(name, section)


@sections("rehearsals")
def test_rehearsals_tell_what_is_listed(name, section):
    """Causes with their nodes, values, lines and names, and how far each rank came."""
    assert_listed(name, section)


@sections("gathered", "measured", "options", "ranked", "started")
def test_jobs_are_prepared_and_judged_as_listed(name, section):
    """Options, placements, reports of ranks and failed jobs; and what is expected, slow and reported."""
    assert_listed(name, section)


@pytest.mark.parametrize("name", said.TABLES)
def test_no_section_is_missing(name):
    """A new file of cases, check with a broken cluster or kind of fault is listed too."""
    assert list(said.TABLES[name]()) == list(said.listed(name))


def test_the_table_holds_values_and_no_words():
    """Of a sentence, of those in it and of lists of them; the endings and words that some values are stay out."""
    inner = sentence("{file} sets {option}", "run.sh", "--nnodes")
    text = joined([sentence("{count} node{s}: {why}", 4, "s", inner), sentence("{how}", "none at all")])
    assert list(said.values(text)) == ["4", "run.sh", "--nnodes"]
    assert list(said.values("give --nnodes=2 on every node, or unset MASTER_ADDR")) == ["--nnodes=2", "MASTER_ADDR"]
