"""Which verdict, words and fix follow from what a body raises, and which nodes share them?"""

from __future__ import annotations

import dataclasses

import pytest

from preflight.judge.ledger.findings import Verdict
from preflight.said import knowing
from preflight.said.errors import (
    Blame,
    BlameMany,
    BlockedBy,
    FactMissing,
    HostError,
    NotApplicable,
    NotMeasured,
    PreflightError,
    Unreachable,
)
from preflight.testing import healthy
from tests.judge.samples import ALL, check, findings, raising, told

EXCEPTIONS = [
    (AssertionError("9000 is not 1500"), "fail", "9000 is not 1500"),
    (AssertionError("the author's words\nassert 9000 == 1500\n  +where"), "fail", "the author's words"),
    (AssertionError(), "fail", "an assertion without a message does not hold"),
    (Blame("mtu is 1500", nodes=["node2"]), "fail", "mtu is 1500"),
    (BlameMany([Blame("a", nodes=["node2"]), Blame("b", nodes=["node3"])]), "fail", "a; b"),
    (FactMissing("nccl", "nvidia-smi broke"), "error", "not measured: nccl: nvidia-smi broke"),
    (FactMissing("ports", "not root", "denied"), "error", "not measured: ports: not root"),
    (FactMissing("gpu", "no GPU", "absent"), "error", "not measured: gpu: no GPU"),
    (BlockedBy("gpu.devices_are_readable", detail="no"), "error", "blocked by gpu.devices_are_readable: no"),
    (NotApplicable("one node"), "skip", "one node"),
    (NotMeasured("no figure"), "error", "not measured: no figure"),
    (HostError("node2", "went away"), "error", "not measured: node2: went away"),
    (Unreachable("node2", "no route"), "error", "not measured: node2: no route"),
    (PreflightError("a bug"), "error", "the check itself broke: PreflightError: a bug"),
    (TypeError("oops"), "error", "the check itself broke: TypeError: oops"),
    (KeyError("x"), "error", "the check itself broke: KeyError: 'x'"),
    (RecursionError("deep"), "error", "the check itself broke: RecursionError: deep"),
]


@pytest.mark.parametrize(("error", "verdict", "message"), EXCEPTIONS, ids=lambda value: type(value).__name__)
def test_an_exception_on_one_node_is_that_nodes_verdict(error, verdict, message):
    """The others pass; the message is the author's, the fix the docstring's where something is to be mended."""
    first, second = sorted(findings(check(raising(error, on=("node2",)))), key=lambda finding: len(finding.nodes))
    assert (str(first.verdict), first.nodes) == (verdict, ("node2",))
    assert first.message.startswith(message)
    assert first.fix == ("mend it." if verdict == "fail" else "")
    assert (str(second.verdict), second.nodes, second.message) == ("pass", ("node1", "node3"), "It holds.")


def test_a_broken_check_says_where():
    """File and line, so that its author finds it, and no traceback."""
    message = findings(check(raising(TypeError("oops"))))[0].message
    assert "(samples.py:" in message
    assert "\n" not in message


def test_a_misspelt_fact_is_the_checks_own_error_and_names_those_there_are():
    """At the line of the check that asked for it."""

    def body(node):
        assert node.kernel.memory > 0

    (finding,) = findings(check(body))
    assert finding.verdict is Verdict.ERROR
    assert "Kernel has no fact 'memory'; it has cgroup_memory_bytes, memory_available_bytes" in finding.message
    assert "(test_outcome.py:" in finding.message


def test_asserts_without_a_message_are_folded_by_what_they_say():
    """pytest prints the whole facts of each node below it, which would make a finding of every node."""

    def body(node):
        """It holds."""
        assert node.kernel.cpus_allowed == 7

    (finding,) = findings(check(body))
    assert finding.nodes == ALL
    assert finding.message == "assert node.kernel.cpus_allowed == 7: 64 == 7"


@pytest.mark.parametrize(("error", "verdict", "message"), EXCEPTIONS, ids=lambda value: type(value).__name__)
def test_an_exception_of_a_cluster_check_is_the_verdict_of_all(error, verdict, message):
    """But a Blame names whom it blames, and a fact that is absent is no error: nobody has it."""

    def body(cluster):
        """It holds.

        Fix: mend it.
        """
        raise error

    found = findings(check(body, kind="cluster"))
    blamed = {node for blame in getattr(error, "blames", (error,)) for node in getattr(blame, "nodes", ())}
    if isinstance(error, (Blame, BlameMany)):
        assert {node for f in found if f.verdict is Verdict.FAIL for node in f.nodes} == blamed
        assert {node for f in found if f.verdict is Verdict.PASS for node in f.nodes} == set(ALL) - blamed
        return
    if isinstance(error, FactMissing) and error.kind == "absent":
        verdict = "skip"
    (finding,) = found
    assert (str(finding.verdict), finding.nodes) == (verdict, ALL)
    assert finding.message.startswith(message)


def test_equal_outcomes_are_one_finding_in_hosts_order():
    """Sixteen nodes of which three differ in two ways are three findings."""
    mtus = {"node3": 1500, "node7": 1500, "node11": 1400}

    def body(node):
        """Jumbo frames."""
        assert node.name not in mtus, f"mtu is {mtus[node.name]}"

    found = findings(check(body), healthy(16))
    assert [(str(f.verdict), len(f.nodes)) for f in found] == [("pass", 13), ("fail", 2), ("fail", 1)]
    assert found[1].nodes == ("node3", "node7")
    assert found[0].nodes[:3] == ("node1", "node2", "node4")


def test_a_pass_says_what_no_node_could_tell():
    """A check of many facts holds for those that there are; for the others it is no proof, and says so."""

    def body(cluster):
        """Settings are the same."""

        def lost(_node):
            raise FactMissing("SMT", "no such file", "absent")

        cluster.same_rows([("SMT", lost, "", ""), ("host name", lambda _node: "one", "", "")])

    (finding,) = findings(check(body, kind="cluster"))
    assert (finding.verdict, finding.message) == (
        Verdict.PASS,
        "Settings are the same. Not reported by any node: SMT.",
    )


def test_a_broken_advisory_check_is_a_warning():
    """Assertions and Blames alike; what is not measured stays an error."""
    for error in (AssertionError("slow"), Blame("slow", nodes=ALL), BlameMany([Blame("slow", nodes=ALL)])):
        (finding,) = findings(check(raising(error), is_advisory=True))
        assert (finding.verdict, finding.message, finding.fix) == (Verdict.WARN, "slow", "mend it.")
    (finding,) = findings(check(raising(NotMeasured("no figure")), is_advisory=True))
    assert finding.verdict is Verdict.ERROR

    def body(cluster):
        """T."""
        raise Blame("slow", nodes=["node2"])

    assert [f.verdict for f in findings(check(body, kind="cluster", is_advisory=True))] == [Verdict.WARN, Verdict.PASS]


def test_what_we_may_not_read_is_a_skip_only_where_the_check_says_so():
    """`needs` marks such a check; --require-all wants it all the same; a tool that broke is no lack of privilege."""
    denied = FactMissing("ports", "not root", "denied")
    needing = check(raising(denied), needs=frozenset({"root"}))
    assert told(findings(needing)) == [("skip", ALL, "not permitted: ports: not root")]
    assert findings(needing, require_all=True)[0].verdict is Verdict.ERROR
    assert findings(check(raising(denied)))[0].verdict is Verdict.ERROR
    broken = check(raising(FactMissing("ports", "ss broke")), needs=frozenset({"root"}))
    assert findings(broken)[0].verdict is Verdict.ERROR


def test_a_fix_of_the_blame_wins_over_the_docstrings():
    """It knows the case at hand."""

    def body(cluster):
        """T.

        Fix: in general.
        """
        raise BlameMany([Blame("a", nodes=["node1"], fix="this one"), Blame("b", nodes=["node2"])])

    assert [f.fix for f in findings(check(body, kind="cluster"))] == ["this one", "in general.", ""]


@pytest.mark.parametrize("kind", ["cluster", "node"])
def test_nodes_that_were_lost_for_one_reason_are_one_finding(kind):
    """What ssh says has each node's own name in it; a rack that dies in mid-run is one thing to look at."""

    def lost(name):
        words = f"the connection ended in mid-run (ssh: connect to host {name} port 22: No route to host)"
        return FactMissing("end of run", words if name != "node3" else "it fell silent")

    def of_cluster(cluster):
        for name in ("node1", "node2", "node3"):
            cluster.cannot_judge(name, lost(name))

    def of_node(node):
        raise lost(node.name)

    found = findings(check(of_cluster if kind == "cluster" else of_node, kind=kind))
    reasons = {finding.nodes: finding.message for finding in found if finding.verdict is Verdict.ERROR}
    assert "host <node> port 22" in reasons["node1", "node2"]
    assert reasons["node3",] == "not measured: end of run: it fell silent"


@pytest.mark.parametrize(
    "ended", ["the connection ended in mid-run (ssh: No route to host)", "it has said nothing for 14 s, though asked"]
)
def test_a_rack_that_was_lost_in_mid_run_is_named(ended):
    """Where it is known, and most of it was lost; a node of another rack that was lost too is told by itself."""

    def body(cluster):
        for name in ("node1", "node2", "node3"):
            cluster.cannot_judge(name, FactMissing("end of run", knowing(ended, loss="mid-run")))

    racks = {"node1": "rack A", "node2": "rack A", "node3": "rack B", "node4": "rack B"}
    found = findings(check(body, kind="cluster"), dataclasses.replace(healthy(4), racks=racks))
    assert {finding.nodes: finding.message for finding in found if finding.verdict is Verdict.ERROR} == {
        ("node1", "node2"): f"rack A: 2 of 2 nodes: not measured: end of run: {ended}",
        ("node3",): f"not measured: end of run: {ended}",
    }
