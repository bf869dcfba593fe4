"""Which verdict, words and nodes follow from whatever a check does?"""

from __future__ import annotations

import dataclasses

import pytest

from preflight.facts.results import Mesh
from preflight.judge.check import Check
from preflight.judge.ledger.findings import Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.settings import Settings
from preflight.run.suite.judge import Judge
from preflight.said.errors import (
    Blame,
    BlockedBy,
    FactMissing,
    HostError,
    NotApplicable,
    NotMeasured,
)
from preflight.testing import FakeRun, healthy
from tests.judge.samples import ALL, check, findings, raising, told


def test_every_node_is_in_exactly_one_finding():
    """Whatever is raised where: the ledger takes a verdict once."""
    errors = {"node1": Blame("x", nodes=["node3"]), "node2": NotMeasured("y")}

    def body(node):
        """T."""
        if node.name in errors:
            raise errors[node.name]

    found = findings(check(body))
    assert sorted(node for finding in found for node in finding.nodes) == list(ALL)


def test_a_fact_that_no_node_has_is_a_skip():
    """No GPU anywhere is not an error; a GPU missing on one node of several is."""
    absent = FactMissing("gpu", "no GPU", "absent")
    assert told(findings(check(raising(absent)))) == [("skip", ALL, "on no node: gpu: no GPU")]
    assert [f.verdict for f in findings(check(raising(absent, on=("node1", "node2"))))] == [
        Verdict.ERROR,
        Verdict.PASS,
    ]


def test_a_fact_that_no_judged_node_has_is_a_skip():
    """Where a node is kept from being judged, the others that lack the fact are no errors for it."""
    reasons = {"node1": BlockedBy("gpu.devices_are_readable"), "node2": NotApplicable("no GPU")}

    def body(node):
        """T."""
        raise reasons.get(node.name) or FactMissing("rate", "the driver reports none", "absent")

    assert told(findings(check(body))) == [
        ("skip", ("node3",), "on no node: rate: the driver reports none"),
        ("error", ("node1",), "blocked by gpu.devices_are_readable: does not hold"),
        ("skip", ("node2",), "no GPU"),
    ]


def test_a_blame_of_nobody_known_is_everybodys():
    """A fail never disappears because its nodes were misspelt or left out."""

    def body(cluster):
        """T."""
        raise Blame("x", nodes=["nodeX"])

    assert told(findings(check(body, kind="cluster"))) == [("fail", ALL, "x")]


def test_nodes_without_the_fact_are_errors_beside_those_that_are_blamed():
    """A comparison goes on with those that have it; who is blamed is not also unmeasured."""
    run = healthy(5)

    def body(cluster):
        """T."""
        for name in ("node1", "node2", "node3"):
            cluster.cannot_judge(name, FactMissing("mtu", "unreadable"))
        raise Blame("mtu differs", nodes=["node3"])

    assert told(findings(check(body, kind="cluster"), run)) == [
        ("fail", ("node3",), "mtu differs"),
        ("error", ("node1", "node2"), "not measured: mtu: unreadable"),
        ("pass", ("node4", "node5"), "T."),
    ]


def test_nodes_without_the_fact_are_errors_where_nobody_is_blamed():
    """Never a pass for what was not measured."""

    def body(cluster):
        """T."""
        cluster.cannot_judge("node2", FactMissing("mtu", "unreadable"))

    assert told(findings(check(body, kind="cluster"))) == [
        ("error", ("node2",), "not measured: mtu: unreadable"),
        ("pass", ("node1", "node3"), "T."),
    ]


def test_what_one_check_could_not_measure_does_not_stay_for_the_next():
    """Each check starts from a clean cluster."""
    run = healthy()
    judge = Judge(run, Ledger(), Settings())
    judge.judge(check(lambda cluster: cluster.cannot_judge("node1", FactMissing("a", "b")), kind="cluster"))
    assert told(judge.judge(check(lambda cluster: None, kind="cluster")))[0][:2] == ("pass", ALL)


class Failing(FakeRun):
    """A run whose jobs do not start."""

    def bench(self):
        raise NotMeasured("the deadline of 45 s was reached")

    def mesh(self):
        raise HostError("node2", "went away")


def test_a_job_that_gives_nothing_is_an_error_with_its_reason():
    """For every node, and without evaluating the body."""
    run = healthy()
    failing = Failing(**vars(run))
    assert told(findings(check(lambda bench: 1 / 0, kind="bench"), failing)) == [
        ("error", ALL, "not measured: the deadline of 45 s was reached")
    ]
    assert told(findings(check(lambda mesh: 1 / 0, kind="mesh"), failing)) == [
        ("error", ALL, "not measured: node2: went away")
    ]


def test_a_mesh_of_one_node_does_not_apply():
    """There is nobody to connect to, and no mesh is started."""
    failing = Failing(**vars(healthy(1)))
    assert told(findings(check(lambda mesh: 1 / 0, kind="mesh"), failing)) == [
        ("skip", ("node1",), "one node: there is no peer to connect to")
    ]


def test_nodes_that_took_no_part_in_the_mesh_are_not_measured():
    """The rest of the mesh is judged."""
    run = healthy()
    mesh = Mesh(edges=2, ok=2, failed=(), unmeasured={"node3": "no training interface"})
    run = dataclasses.replace(run, measured_mesh=mesh)
    assert told(findings(check(lambda mesh: None, kind="mesh"), run)) == [
        ("error", ("node3",), "not measured: mesh: no training interface"),
        ("pass", ("node1", "node2"), "site.subject"),
    ]


def test_other_fixtures_are_given_beside_the_main_one():
    """Thresholds, the whole cluster for a check of each node, and what the user's own fixtures made."""
    seen = []

    def body(node, cluster, settings, mine):
        seen.append((node.name, len(cluster), settings, mine))

    asked = Check("site.x", body, ("node", "cluster", "settings", "mine"), "node", others={"mine": 7})
    assert findings(asked)[0].verdict is Verdict.PASS
    assert seen == [(name, 3, Settings(), 7) for name in ALL]


def test_the_time_a_check_took_stands_in_its_findings():
    """In seconds, never below 0."""
    import time

    found = findings(check(lambda cluster: time.sleep(0.02), kind="cluster"))
    assert found[0].seconds >= 0.02


def test_a_job_that_does_not_apply_is_a_skip_with_its_reason():
    """Launch files that start nothing here are no error, and never a pass."""

    class NotHere(FakeRun):
        def training(self):
            raise NotApplicable("the reference job was not started: srun starts it")

    run = NotHere(**vars(healthy()))
    asked = check(lambda training: None, kind="training", name="training.x")
    assert told(findings(asked, run)) == [("skip", ALL, "the reference job was not started: srun starts it")]


@pytest.mark.parametrize("kind", ["bench", "training"])
def test_nodes_that_took_no_part_in_a_job_are_not_measured(kind):
    """A result of two nodes is no pass of the third, and its view is of the two alone."""
    took_part = {"node_names": ("node1", "node2")}
    run = healthy().bench_has(**took_part).training_has(**took_part)
    seen = []

    def body(**given):
        seen.extend(node.name for node in given[kind].cluster)

    assert told(findings(check(body, kind=kind), run)) == [
        ("error", ("node3",), f"not measured: took no part in the {kind}"),
        ("pass", ("node1", "node2"), "site.subject"),
    ]
    assert seen == ["node1", "node2"]


def test_nodes_that_no_connection_was_tried_with_are_not_measured():
    """A mesh of nobody is no pass; one whose members are known, of those."""
    some = Mesh(edges=2, ok=2, failed=(), node_names=("node1", "node2"))
    nobody = Mesh(edges=0, ok=0, failed=())
    asked = check(lambda mesh: None, kind="mesh")
    run = dataclasses.replace(healthy(), measured_mesh=some)
    assert told(findings(asked, run))[0] == ("error", ("node3",), "not measured: mesh: the node took no part")
    run = dataclasses.replace(healthy(), measured_mesh=nobody)
    assert told(findings(asked, run)) == [("error", ALL, "not measured: mesh: the node took no part")]
