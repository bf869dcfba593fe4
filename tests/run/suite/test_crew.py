"""With fewer nodes needed than there are, who trains, and who is for the job at the end?"""

from __future__ import annotations

import dataclasses

import pytest

from preflight.facts.results import Slow
from preflight.judge.check import Check
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.settings import Settings
from preflight.run.suite.crew import Crew
from preflight.run.suite.judge import SLOW_CHECK, Judge
from preflight.testing import healthy

ALL = ("node1", "node2", "node3", "node4")


def check(kind, name="site.subject"):
    """A check of what a job measured that never complains."""
    return Check(name, lambda **_: None, (kind,), kind)


def judged(run, ledger, crew, kind, name="site.subject"):
    """The findings of such a check, in the ledger too."""
    judge = Judge(run, ledger, Settings(), is_pruning=True, crew=crew)
    ledger.expect(name, run.names)
    found = judge.judge(check(kind, name))
    for one in found:
        ledger.record(one)
    return [(str(one.verdict), one.nodes, one.message) for one in found]


def with_fail(*nodes):
    """A ledger in which such nodes have a fault."""
    ledger = Ledger()
    if nodes:
        ledger.expect("network.mtu", ALL)
        ledger.record(Finding("network.mtu", Verdict.FAIL, nodes, "1500"))
        ledger.record(Finding("network.mtu", Verdict.PASS, tuple(n for n in ALL if n not in nodes), "fine"))
    return ledger


def test_all_good_nodes_are_measured_and_only_those_needed_train():
    """The spare is skipped, with the reason; the node with the fault is an error; the choice says both."""
    ledger, crew, run = with_fail("node2"), Crew(2), healthy(4)
    assert judged(run, ledger, crew, "bench", "a.bench")[1:] == [("pass", ("node1", "node3", "node4"), "a.bench")]
    assert judged(run, ledger, crew, "training") == [
        ("error", ("node2",), "not started: pruned for network.mtu on node2"),
        ("skip", ("node4",), "a spare: --need 2 took others"),
        ("pass", ("node1", "node3"), "site.subject"),
    ]
    choice = crew.choice(run, ledger.findings)
    assert choice.nodes == ("node1", "node3")
    assert choice.left_out == {"node2": "fail network.mtu: 1500", "node4": "spare"}


def test_where_too_few_are_good_no_job_starts():
    """It would tell nothing of the job that was asked for."""
    ledger, crew, run = with_fail("node1", "node2"), Crew(3), healthy(4)
    run = dataclasses.replace(run, measured_bench=None)  # would break the check if it were asked for
    told = judged(run, ledger, crew, "bench")
    assert told == [
        (
            "error",
            ALL,
            "not started: good so far: 2 of 3 nodes that are needed: network.mtu on node[1-2]",
        )
    ]
    assert not crew.choice(run, ledger.findings).is_complete


def test_a_spare_takes_no_place_of_a_node_that_failed_in_the_training():
    """It was not trained on: too few are left, and the verdict stays that of all."""
    ledger, crew, run = with_fail(), Crew(3), healthy(4)
    judged(run, ledger, crew, "training")
    ledger.expect("training.x", ALL)
    ledger.record(Finding("training.x", Verdict.FAIL, ("node2",), "a straggler"))
    choice = crew.choice(run, ledger.findings)
    assert choice.nodes == ("node1", "node3")
    assert choice.left_out == {"node2": "fail training.x: a straggler", "node4": "spare"}


@pytest.mark.parametrize(("name", "verdict"), [(SLOW_CHECK, "fail"), ("bench.other", "error")])
def test_a_node_that_a_first_look_found_slow_is_told_though_the_second_did_without(name, verdict):
    """It fails its own check, and is the cause of all others that it has no verdict of."""
    slow = Slow(nodes=("node4",), direction="egress", gbytes_per_s=0.02, peers_gbytes_per_s=0.1)
    run = healthy(4).bench_has(dropped=(slow,), node_names=ALL[:3])
    found = {nodes: (kind, text) for kind, nodes, text in judged(run, Ledger(), Crew(3), "bench", name)}
    assert found[ALL[:3]][0] == "pass"
    assert found[("node4",)][0] == verdict
    assert "node4" in found[("node4",)][1]
