"""Which findings keep a job from starting, and which nodes is it started without?"""

from __future__ import annotations

import dataclasses

import pytest

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.settings import Settings
from preflight.run.suite.crew import Crew
from preflight.run.suite.judge import REACH_CHECK, Judge
from preflight.said.errors import (
    BlockedBy,
)
from preflight.testing import FakeRun, healthy
from tests.judge.samples import ALL, check, findings, ledger_with, raising, told


@pytest.mark.parametrize("kind", ["bench", "training"])
@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.ERROR])
def test_a_job_does_not_start_while_a_gate_is_closed(kind, verdict):
    """One cause, told once with its nodes, instead of a hang in every later stage."""
    ledger = ledger_with(("names.resolve", verdict, "x"))
    run = healthy()
    run = dataclasses.replace(
        run, measured_bench=None, measured_training=None
    )  # would break the check if it were asked for
    assert told(findings(check(lambda **_: None, kind=kind), run, ledger)) == [
        ("error", ALL, "not started: names.resolve on node2")
    ]


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.WARN, Verdict.SKIP])
def test_a_gate_is_open_for_all_but_fail_and_error(verdict):
    """A warning is no reason not to measure."""
    ledger = ledger_with(("names.resolve", verdict, "x"))
    assert findings(check(lambda bench: None, kind="bench"), ledger=ledger)[0].verdict is Verdict.PASS


def test_checks_that_say_nothing_about_starting_close_no_gate():
    """A broken limit is a fail of its own, and keeps nothing from being measured."""
    ledger = ledger_with(("limits.nofile", Verdict.FAIL, "x"), ("site.own", Verdict.FAIL, "x"))
    assert findings(check(lambda training: None, kind="training"), ledger=ledger)[0].verdict is Verdict.PASS


@pytest.mark.parametrize("kind", ["bench", "training"])
def test_pruning_starts_a_job_on_the_nodes_that_the_gate_does_not_name(kind):
    """The others are judged, the one left out stays an error, and the run is told whom to leave out."""
    left_out = []

    class Noting(FakeRun):
        def leave_out(self, names):
            left_out.append(names)

    run = Noting(**vars(healthy()))
    ledger = ledger_with(("names.resolve", Verdict.FAIL, "x"))
    assert told(findings(check(lambda **_: None, kind=kind), run, ledger, is_pruning=True)) == [
        ("error", ("node2",), "not started: pruned for names.resolve on node2"),
        ("pass", ("node1", "node3"), "site.subject"),
    ]
    assert left_out == [{"node2"}]


def left_out_of(kind, bad, crew):
    """Whom a job of five nodes is told to do without, where these failed a check before it."""
    noted = set()

    class Noting(FakeRun):
        def leave_out(self, names):
            noted.update(names)

    def sound(node):
        assert node.name not in bad, "x"

    run, ledger = Noting(**vars(healthy(5))), Ledger()
    for asked in (check(sound, name="names.resolve"), check(lambda **_: None, kind=kind)):
        ledger.expect(asked.id, run.names)
        for finding in Judge(run, ledger, Settings(), is_pruning=True, crew=crew).judge(asked):
            ledger.record(finding)
    return noted


@pytest.mark.parametrize("kind", ["bench", "training"])
@pytest.mark.parametrize("bad", [(), ("node2",), ("node1", "node4"), ("node2", "node3", "node5")])
def test_pruning_and_a_job_that_needs_all_good_nodes_leave_out_the_same(kind, bad):
    """--prune and --need N say whom the job may do without, and the same facts make a node bad for both."""
    assert left_out_of(kind, bad, Crew()) == left_out_of(kind, bad, Crew(5 - len(bad))) == set(bad)


def test_a_job_that_needs_fewer_leaves_out_spares_beside_the_bad():
    """Bandwidth is measured on every good node all the same."""
    assert left_out_of("bench", ("node2",), Crew(3)) == left_out_of("bench", ("node2",), Crew()) == {"node2"}
    assert len(left_out_of("training", ("node2",), Crew(3)) - left_out_of("training", ("node2",), Crew())) == 1


def test_pruning_leaves_out_every_bad_node_but_not_for_what_all_share():
    """A fail that is no gate counts for its node; one of all nodes, and a mere consequence, for none."""
    ledger = ledger_with(("network.mtu", Verdict.FAIL, "1500"))
    for name, message in (("limits.nofile", "1024"), ("names.resolve", "fine")):
        ledger.expect(name, ALL)
        ledger.record(Finding(name, Verdict.FAIL if name == "limits.nofile" else Verdict.PASS, ALL, message))
    ledger.expect("files.room", ("node1",))
    words = "blocked by network.mtu on node2"
    ledger.record(Finding("files.room", Verdict.ERROR, ("node1",), words, blocked_by="network.mtu"))
    found = told(findings(check(lambda bench: None, kind="bench"), ledger=ledger, is_pruning=True))
    assert found == [
        ("error", ("node2",), "not started: pruned for network.mtu on node2"),
        ("pass", ("node1", "node3"), "site.subject"),
    ]


def test_pruning_a_node_that_did_not_answer_starts_the_job_on_the_others():
    """Its own cell is blocked as in every check; theirs are judged."""
    run = healthy()
    run = run.unreached("node2", "login refused")
    ledger = ledger_with((REACH_CHECK, Verdict.ERROR, "not reached: login refused"))
    found = told(findings(check(lambda bench: None, kind="bench"), run, ledger, is_pruning=True))
    assert found == [("error", ("node2",), f"blocked by {REACH_CHECK}"), ("pass", ("node1", "node3"), "site.subject")]


def test_pruning_opens_no_gate_that_names_every_node():
    """Nobody is left to run on, and the mesh is not pruned: it is what tells good from bad."""
    ledger = Ledger()
    for name, nodes in (("names.resolve", ALL), ("reach.no_machine_is_named_twice", ALL[:2])):
        ledger.expect(name, nodes)
        ledger.record(Finding(name, Verdict.FAIL, nodes, "x"))
    for kind in ("bench", "mesh"):
        found = findings(check(lambda **_: None, kind=kind), ledger=ledger, is_pruning=True)
        assert [finding.verdict for finding in found] == [Verdict.ERROR]
        assert found[0].nodes == ALL


def test_a_waived_fail_closes_no_gate():
    """Somebody decided to live with it, so the job starts."""
    ledger = Ledger(waive=lambda finding: (dataclasses.replace(finding, waived=True),))
    ledger.expect("names.resolve", ALL)
    ledger.record(Finding("names.resolve", Verdict.FAIL, ALL, "x"))
    assert findings(check(lambda bench: None, kind="bench"), ledger=ledger)[0].verdict is Verdict.PASS


def test_the_cause_closes_the_gate_and_not_its_consequences():
    """Of a fail and errors that were blocked by it, only the fail is named; alone, the errors are."""
    cause = ("names.resolve", Verdict.FAIL, "resolves to 127.0.1.1")
    consequences = (
        ("mesh.every_pair_connects", Verdict.ERROR, "blocked by names.resolve on node2"),
        ("software.same", Verdict.ERROR, "not started: names.resolve on node2"),
    )
    blocked_by = "names.resolve"
    ledger = ledger_with(cause, *consequences, blocked_by=blocked_by)
    found = findings(check(lambda bench: None, kind="bench"), ledger=ledger)
    assert found[0].message == "not started: names.resolve on node2"
    found = findings(check(lambda bench: None, kind="bench"), ledger=ledger_with(*consequences, blocked_by=blocked_by))
    assert found[0].message == "not started: mesh.every_pair_connects on node2; software.same on node2"


def test_a_fail_that_is_worded_like_a_consequence_still_closes_the_gate():
    """What makes a consequence is the check behind it, and not how the author of a check begins a message."""
    ledger = ledger_with(
        ("names.resolve", Verdict.FAIL, "blocked by a firewall of the host"),
        ("software.same", Verdict.ERROR, "blocked by names.resolve on node2"),
    )
    found = findings(check(lambda bench: None, kind="bench"), ledger=ledger)
    assert told(found) == [("error", ALL, "not started: names.resolve on node2; software.same on node2")]


def test_every_consequence_names_the_check_behind_it():
    """For a node that did not answer, a job that did not start, and a fact or a comparison that another check owns."""
    run = healthy().unreached("node2", "login refused")
    consequences = findings(check(raising(BlockedBy("gpu.devices_are_readable"), on=("node1",))), run)
    consequences += findings(check(lambda cluster: raising(BlockedBy("a.b"))(cluster.nodes[0]), kind="cluster"), run)
    consequences += findings(check(lambda bench: None, kind="bench"), ledger=ledger_with(("names.x", Verdict.FAIL, "")))
    assert [(finding.blocked_by, finding.nodes) for finding in consequences] == [
        (REACH_CHECK, ("node2",)),
        ("gpu.devices_are_readable", ("node1",)),
        ("", ("node3",)),
        (REACH_CHECK, ("node2",)),
        ("a.b", ("node1", "node3")),
        ("names.x", ALL),
    ]


def test_a_check_of_the_users_own_gates_nothing():
    """Not even one that is called like a check of ours; with --prune its nodes are left out like any bad node."""
    ledger = ledger_with(("names.of_our_racks", Verdict.FAIL, "x"))
    ledger.site_checks.add("names.of_our_racks")
    run = healthy()
    asked = check(lambda bench: None, kind="bench")
    assert told(findings(asked, run, ledger)) == [("pass", ALL, "site.subject")]
    assert told(findings(asked, run, ledger, is_pruning=True))[0][:2] == ("error", ("node2",))
