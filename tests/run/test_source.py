"""Can a live run and a stored one be asked the same?"""

from __future__ import annotations

import inspect

import pytest

from preflight.facts.cluster import Cluster
from preflight.job.options.options import Options
from preflight.reach.hosts import parse_hosts
from preflight.run.live import Run
from preflight.run.source import Source
from preflight.run.stored import StoredRun, load
from preflight.testing import healthy
from tests.run.test_stored import written

METHODS = sorted(name for name, _ in inspect.getmembers(Source, inspect.isfunction) if not name.startswith("_"))


@pytest.mark.parametrize("kind", [Run, StoredRun])
def test_every_run_answers_every_question_with_the_same_words(kind):
    """The judge never looks which of them it has."""
    assert {"mesh", "bench", "training", "end"} <= set(METHODS)
    for name in METHODS:
        wanted, given = (inspect.signature(getattr(each, name)) for each in (Source, kind))
        assert list(given.parameters) == list(wanted.parameters), name


def test_a_stored_run_has_the_nodes_of_the_live_one(tmp_path):
    """Names, facts and those that were not reached, in the order of HOSTS."""
    live = healthy(3).unreached("node2", "login refused")
    source = load(written(live, tmp_path), "auto")
    assert tuple(source.names) == live.names == ("node1", "node2", "node3")
    assert list(source.failures) == ["node2"]
    assert [node.name for node in source.cluster] == ["node1", "node3"]
    assert source.cluster["node1"].subjects == live.cluster["node1"].subjects


def test_a_live_run_knows_its_names_before_anybody_answered():
    """Every cell is written down first; until then there are no facts and no failures."""
    run = Run(Options(hosts=parse_hosts("node[1-2]")))
    assert run.names == ("node1", "node2")
    assert (run.cluster, run.failures) == (Cluster(()), {})
