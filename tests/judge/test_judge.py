"""Which verdict, words and nodes follow from whatever a check does?"""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from preflight.errors import (
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
from preflight.judge.crew import Crew
from preflight.judge.judge import REACH_CHECK, Check, Judge, docstring_fix
from preflight.judge.unreached import IN_MID_RUN
from preflight.ledger.findings import Finding, Verdict
from preflight.ledger.ledger import Ledger
from preflight.options.settings import Settings
from preflight.results import Mesh
from preflight.session import connection
from preflight.testing import FakeRun, healthy

ALL = ("node1", "node2", "node3")


def check(function, *, kind: str = "node", name: str = "site.subject", **more) -> Check:
    """A check of one argument, the fixture of its kind."""
    return Check(name, function, (kind,), kind, **more)


def raising(error: BaseException, *, on: tuple[str, ...] = ALL):
    """A check of each node that raises on some of them."""

    def body(node):
        """It holds.

        Why it matters.
        Fix: mend
          it.
        """
        if node.name in on:
            raise error

    return body


def findings(asked: Check, run: FakeRun | None = None, ledger: Ledger | None = None, **more) -> list[Finding]:
    return Judge(run or healthy(), ledger or Ledger(), Settings(), **more).judge(asked)


def told(found: list[Finding]) -> list[tuple[str, tuple[str, ...], str]]:
    return [(str(finding.verdict), finding.nodes, finding.message) for finding in found]


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
    assert "(test_judge.py:" in message
    assert "\n" not in message


def test_a_misspelt_fact_is_the_checks_own_error_and_names_those_there_are():
    """At the line of the check that asked for it."""

    def body(node):
        assert node.kernel.memory > 0

    (finding,) = findings(check(body))
    assert finding.verdict is Verdict.ERROR
    assert "Kernel has no fact 'memory'; it has cgroup_memory_bytes, memory_available_bytes" in finding.message
    assert "(test_judge.py:" in finding.message


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
            cluster.cannot_judge(name, FactMissing("end of run", ended))

    racks = {"node1": "rack A", "node2": "rack A", "node3": "rack B", "node4": "rack B"}
    found = findings(check(body, kind="cluster"), dataclasses.replace(healthy(4), racks=racks))
    assert {finding.nodes: finding.message for finding in found if finding.verdict is Verdict.ERROR} == {
        ("node1", "node2"): f"rack A: 2 of 2 nodes: not measured: end of run: {ended}",
        ("node3",): f"not measured: end of run: {ended}",
    }
    said = inspect.getsource(connection)
    assert all(words in said for words in IN_MID_RUN)  # in the words that a session has for it


def test_what_one_check_could_not_measure_does_not_stay_for_the_next():
    """Each check starts from a clean cluster."""
    run = healthy()
    judge = Judge(run, Ledger(), Settings())
    judge.judge(check(lambda cluster: cluster.cannot_judge("node1", FactMissing("a", "b")), kind="cluster"))
    assert told(judge.judge(check(lambda cluster: None, kind="cluster")))[0][:2] == ("pass", ALL)


def test_nodes_that_were_not_reached_are_errors_of_every_check():
    """Once with the reason, elsewhere as blocked by that; the others are judged."""
    run = healthy()
    run = run.unreached("node2", "login refused")
    reach = findings(check(raising(ValueError(), on=()), name=REACH_CHECK), run)
    assert told(reach)[0] == ("error", ("node2",), "not reached: login refused")
    assert reach[0].fix
    other = findings(check(raising(ValueError(), on=())), run)
    assert told(other) == [
        ("error", ("node2",), f"blocked by {REACH_CHECK}"),
        ("pass", ("node1", "node3"), "It holds."),
    ]


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("busy: run 2030; wait for it to end, or stop it", "wait for the run named to end"),
        ("no Python could be started (sh: 1: python3: not found): give --python PATH", "`--python PATH` with"),
        (
            "no Python could be started (sh: /x: not found): give --python PATH (there /e/bin/python3 has torch 2.4)",
            "`--python=/e/bin/python3`, which has torch there, then run again",
        ),
        (
            "login refused (ssh: x); install your key: ssh-copy-id -p 2222 me@node2",
            "`ssh-copy-id -p 2222 me@node2`, then run again; where the key is there already, sshd's log",
        ),
        ("the connection went silent", "log in by hand the same way (`ssh node2 true`)"),
    ],
)
def test_what_to_do_fits_the_reason(reason, fix):
    """A node that is busy, or has no such Python, is logged in to well enough."""
    run = healthy().unreached("node2", reason)
    assert findings(check(raising(ValueError(), on=()), name=REACH_CHECK), run)[0].fix.startswith(fix)


def test_the_way_in_by_hand_is_that_of_hosts():
    """With the user and the port that were given."""
    run = healthy().unreached("node2", "the connection went silent")
    run = dataclasses.replace(run, logins={"node2": "me@node2:2222"})
    (found,) = (one for one in findings(check(raising(ValueError(), on=()), name=REACH_CHECK), run) if one.fix)
    assert "`ssh -p 2222 me@node2 true`" in found.fix


def test_a_run_that_reached_nobody_is_all_errors():
    """No body is evaluated, and no cell is left out."""
    run = healthy()
    run = dataclasses.replace(run, failures=dict.fromkeys(run.names, "no route"))

    def body(cluster):
        """T."""
        raise RuntimeError("evaluated")

    for kind in ("cluster", "mesh", "bench", "training"):
        assert told(findings(check(body, kind=kind), run)) == [("error", ALL, f"blocked by {REACH_CHECK}")]


def ledger_with(*verdicts: tuple[str, Verdict, str], blocked_by: str = "") -> Ledger:
    """What was judged before, each of node2 alone; the errors are consequences of `blocked_by`."""
    ledger = Ledger()
    for name, verdict, message in verdicts:
        ledger.expect(name, ["node2"])
        cause = blocked_by if verdict is Verdict.ERROR else ""
        ledger.record(Finding(name, verdict, ("node2",), message, blocked_by=cause))
    return ledger


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


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("T.\n\n    Why.\n    Fix: `ulimit -n`\n      and log in again.\n    ", "`ulimit -n` and log in again."),
        ("T.", ""),
        ("", ""),
        ("Fix: a. Fix: b", "a. Fix: b"),
    ],
)
def test_the_fix_is_what_the_docstring_says_after_the_word(text, fix):
    """On one line, whatever its shape in the file."""
    assert docstring_fix(text) == fix


def test_a_job_that_does_not_apply_is_a_skip_with_its_reason():
    """Launch files that start nothing here are no error, and never a pass."""

    class NotHere(FakeRun):
        def training(self):
            raise NotApplicable("the reference job was not started: srun starts it")

    run = NotHere(**vars(healthy()))
    asked = check(lambda training: None, kind="training", name="training.x")
    assert told(findings(asked, run)) == [("skip", ALL, "the reference job was not started: srun starts it")]


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
