"""Can a finished run be judged again from its files alone, and never better than it was?"""

from __future__ import annotations

import json
from datetime import datetime, timezone

import msgspec
import pytest

from preflight.facts import decode
from preflight.facts.decode import Document
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.settings import Settings
from preflight.report.document import Counts, NodeInfo, RunInfo, RunReport
from preflight.report.json import read_json, write_json
from preflight.run import stored
from preflight.run.stored import age_text
from preflight.run.suite.judge import Judge
from preflight.said.errors import NotMeasured, UsageError
from preflight.testing import FakeRun, healthy, roce
from tests.checks.samples import check, checks


def written(run: FakeRun, folder, *, measured: bool = True):
    """The folder that a live run would have left."""
    reached = [name for name in run.names if name not in run.failures]
    report = RunReport(
        finished=True,
        run=RunInfo(id="x", started="2030-01-02T03:04:05+00:00", seconds=1.0, command=("pytest",), version="0"),
        verdict=Verdict.PASS,
        exit_code=0,
        nodes={name: NodeInfo(host=name, address="10.0.0.1", reached=name in reached) for name in run.names},
        ledger=Counts(expected=1, judged=1, not_asked=0),
        findings=(Finding("reach.x", Verdict.PASS, (run.names[0],), "fine"),),
        mesh=run.mesh() if measured else None,
        bench=run.bench() if measured else None,
        training=run.training() if measured else None,
        rehearsal=run.rehearsal() if measured else None,
    )
    (folder / "facts").mkdir()
    write_json(folder / "report.json", report)
    for index, name in enumerate(run.names):
        if name in reached:
            subjects = json.loads(msgspec.json.encode(run.subjects[name]))
            missing = run.missing.get(name, {})
            kept = {subject: facts for subject, facts in subjects.items() if subject not in missing}
            document = Document(decode.SCHEMA, name, index, f"10.0.0.{index + 1}", 0, kept, missing)
            (folder / "facts" / f"{name}.json").write_bytes(decode.encode(document))
    return folder


def verdicts(source) -> dict[str, list]:
    """Every check's findings, each judged alone."""
    return {
        name: [(f.verdict, f.nodes, f.message) for f in Judge(source, Ledger(), Settings()).judge(check(name))]
        for name in checks()
    }


@pytest.mark.parametrize("run", [healthy(), roce(), healthy().broken_interface("node2", mtu=1500)])
def test_a_stored_run_is_judged_as_the_live_one(run, tmp_path):
    """Every check gives the same verdicts for the same nodes in the same words."""
    backend = "nccl" if run.backend == "nccl" else "gloo"
    assert verdicts(stored.load(written(run, tmp_path), backend)) == verdicts(run)


def test_nodes_keep_the_order_of_the_run(tmp_path):
    """Rank 0 stays the first host: not the first file by name."""
    run = healthy(11)
    source = stored.load(written(run, tmp_path), "auto")
    assert source.names == run.names
    assert [node.name for node in source.cluster] == list(run.names)
    assert source.cluster.first.name == "node1"


def test_a_node_without_facts_was_not_reached(tmp_path):
    """It stays an error: leaving out its file makes nothing green."""
    run = healthy()
    run = run.unreached("node2", "login refused")
    source = stored.load(written(run, tmp_path), "auto")
    assert source.failures == {"node2": "not reached in the stored run"}
    assert source.names == ("node1", "node2", "node3")
    (tmp_path / "facts" / "node3.json").unlink()
    assert set(stored.load(tmp_path, "auto").failures) == {"node2", "node3"}


def test_facts_that_an_earlier_run_left_in_the_folder_are_not_judged(tmp_path):
    """Neither those of a node that this run did not reach, nor any of a run that did not come to its end."""
    run = healthy()
    written(run, tmp_path)
    report = read_json(tmp_path / "report.json")
    nodes = {**report.nodes, "node2": msgspec.structs.replace(report.nodes["node2"], reached=False)}
    write_json(tmp_path / "report.json", msgspec.structs.replace(report, nodes=nodes))
    source = stored.load(tmp_path, "auto")
    assert source.failures == {"node2": "not reached in the stored run"}
    assert [node.name for node in source.cluster] == ["node1", "node3"]
    cut = msgspec.structs.replace(report, finished=False, verdict=Verdict.ERROR, exit_code=3)
    write_json(tmp_path / "report.json", cut)
    source = stored.load(tmp_path, "auto")
    assert source.failures == dict.fromkeys(run.names, "the stored run did not finish")
    judged = Judge(source, Ledger(), Settings()).judge(check("reach.every_node_answers"))
    assert {finding.verdict for finding in judged} == {Verdict.ERROR}


def test_a_stored_run_holds_what_the_report_needs(tmp_path):
    """Its own time, nodes and measurements, and where it was read from; facts and logs stay in their folder."""
    run = healthy()
    source = stored.load(written(run, tmp_path), "auto")
    source.open()
    source.close()
    assert (source.started, source.seconds) == ("2030-01-02T03:04:05+00:00", 0.0)
    assert source.notes == (f"judged from {tmp_path}",)
    assert source.measured().mesh == run.measured_mesh
    assert tuple(source.node_infos()) == run.names
    assert (dict(source.documents), source.logs) == ({}, {})


def test_the_training_tells_where_its_ranks_ran(tmp_path):
    """By rank."""
    source = stored.load(written(roce(2), tmp_path), "auto")
    assert source.planned() == ("node1",) * 8 + ("node2",) * 8


@pytest.mark.parametrize("section", ["mesh", "bench", "training"])
def test_what_was_not_measured_then_is_not_measured_now(tmp_path, section):
    """No section reads as an empty one."""
    source = stored.load(written(healthy(), tmp_path, measured=False), "auto")
    with pytest.raises(NotMeasured, match=f"the stored run has no {section}"):
        getattr(source, section)()
    assert source.planned() == ()


def test_a_folder_that_is_no_run_is_a_usage_error(tmp_path):
    """Missing, empty, or a file: one line that names it."""
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "none", tmp_path, tmp_path / "file"):
        with pytest.raises(UsageError) as caught:
            stored.load(folder, "auto")
        assert str(folder) in str(caught.value)


def test_facts_of_a_node_that_the_report_does_not_know_are_a_usage_error(tmp_path):
    """A file from another run among the facts would be judged as if it belonged."""
    written(healthy(), tmp_path)
    document = msgspec.structs.replace(decode.read(tmp_path / "facts" / "node1.json"), node="node9")
    (tmp_path / "facts" / "node9.json").write_bytes(decode.encode(document))
    with pytest.raises(UsageError, match=r"'node9' is not in report\.json"):
        stored.load(tmp_path, "auto")


def test_a_broken_file_is_named(tmp_path):
    """A run cut in half does not read as a whole one."""
    written(healthy(), tmp_path)
    path = tmp_path / "facts" / "node2.json"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UsageError, match=r"node2\.json"):
        stored.load(tmp_path, "auto")


@pytest.mark.parametrize(
    ("started", "words"),
    [
        ("2030-01-02T03:04:05+00:00", ""),
        ("2030-01-01T03:00:00+00:00", ", 1 day old"),
        ("2029-12-03T03:04:05+00:00", ", 30 days old"),
        ("yesterday", ", of an unknown day"),
        ("2030-01-01T03:00:00", ", of an unknown day"),
    ],
)
def test_the_age_of_a_stored_run_is_told_by_the_day(started, words):
    """What it found may have changed since."""
    assert age_text(started, datetime(2030, 1, 2, 12, tzinfo=timezone.utc)) == words


@pytest.mark.parametrize(
    ("changed", "measured", "reason"),
    [
        ({"not_asked": {"profile quick": ("bench.x",)}}, False, "profile quick of the stored run"),
        ({"not_asked": {"-k": ("bench.x",)}}, False, "-k of the stored run"),
        ({"profile": "quick"}, False, "profile quick of the stored run"),
        ({}, False, ""),
        ({"profile": "quick"}, True, ""),
    ],
)
def test_a_job_that_the_run_was_not_asked_for_is_not_missed(tmp_path, changed, measured, reason):
    """A job that was asked for and gave nothing is missed."""
    source = stored.load(written(healthy(2), tmp_path, measured=measured), "auto")
    source.report = msgspec.structs.replace(source.report, **changed)
    assert source.why_not_asked("bench.x", "bench") == reason
    assert source.why_not_asked("bench.x", "node") == ""


def rewritten(path, **changes):
    """A stored file with other keys at its top."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_node_whose_facts_stand_in_two_files_is_a_usage_error(tmp_path):
    """Which of them is the node's, nobody can tell; a copy under another node's name is no facts of that node."""
    facts = written(healthy(), tmp_path) / "facts"
    (facts / "node2.json").write_bytes((facts / "node1.json").read_bytes())
    with pytest.raises(UsageError, match=r"node2\.json: node 'node1' has its facts in node1\.json too"):
        stored.load(tmp_path, "auto")


def test_the_order_of_hosts_is_the_same_in_the_report_and_in_the_facts(tmp_path):
    """Rank 0 would be another node, and its address that of nobody."""
    facts = written(healthy(), tmp_path) / "facts"
    rewritten(facts / "node3.json", index=0)
    with pytest.raises(UsageError, match=r"'node3' is the host of number 1 there, of number 3 in report\.json"):
        stored.load(tmp_path, "auto")


def test_a_node_that_was_reached_and_has_no_facts_is_not_called_unreached(tmp_path):
    """It answered; its file is what is gone."""
    written(healthy(), tmp_path)
    (tmp_path / "facts" / "node3.json").unlink()
    assert stored.load(tmp_path, "auto").failures == {"node3": "its facts are not in the stored run"}


def test_keys_of_a_newer_version_beside_the_facts_are_ignored(tmp_path):
    """At the top of a file, in a subject, a subject of its own, and why a subject is missing that nobody here knows."""
    written(healthy(), tmp_path)
    path = tmp_path / "facts" / "node1.json"
    found = json.loads(path.read_text())
    found["subjects"]["identity"]["future"] = 1
    found["subjects"]["quantum"] = {"x": 1}
    found["missing"]["rubidium"] = {"missing": "none here", "kind": "absent"}
    path.write_text(json.dumps({**found, "future": True}))
    source = stored.load(tmp_path, "auto")
    assert [node.name for node in source.cluster] == ["node1", "node2", "node3"]
    assert source.cluster.first.identity.hostname == "node1"


@pytest.mark.parametrize("job", ["mesh", "bench", "training"])
def test_a_job_on_a_node_that_the_run_does_not_have_is_a_usage_error(tmp_path, job):
    """The figures of four nodes say nothing of three of them."""
    written(healthy(), tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    names = ["node1", "node2", "node3", "node9"]
    rewritten(tmp_path / "report.json", **{job: {**report[job], "node_names": names}})
    with pytest.raises(UsageError, match=r"report\.json: it measured on node9, which it does not have"):
        stored.load(tmp_path, "auto")


def test_jobs_over_another_backend_say_nothing_of_the_one_asked_for(tmp_path):
    """What Gloo reached is not what NCCL will; without --backend it is the run's own."""
    written(roce(2), tmp_path)
    assert {node.backend for node in stored.load(tmp_path, "auto").cluster} == {"nccl"}
    source = stored.load(tmp_path, "gloo")
    for job in (source.bench, source.training):
        with pytest.raises(NotMeasured, match="ran over nccl, not over gloo"):
            job()
    assert source.mesh().ok


def test_the_backend_is_that_of_the_stored_jobs(tmp_path):
    """A run with --backend=gloo on nodes with GPUs stays one of Gloo."""
    written(roce(2), tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    jobs = {job: {**report[job], "backend": "gloo"} for job in ("bench", "training")}
    rewritten(tmp_path / "report.json", **jobs)
    source = stored.load(tmp_path, "auto")
    assert {node.backend for node in source.cluster} == {"gloo"}
    assert source.bench().backend == "gloo"


def test_more_than_the_run_measured_is_refused(tmp_path):
    """Its profile was less than full, and it has three nodes."""
    source = stored.load(written(healthy(), tmp_path), "auto")
    source.refuse_more_than_asked("quick", 3)
    with pytest.raises(UsageError, match="the stored run was of profile standard"):
        source.refuse_more_than_asked("full", None)
    with pytest.raises(UsageError, match="--need 4: wanted a number from 1 to 3"):
        source.refuse_more_than_asked("standard", 4)
    source.report = msgspec.structs.replace(source.report, profile="full")
    source.refuse_more_than_asked("full", None)
    source.refuse_more_than_asked("standard", None)


def test_a_report_of_another_version_that_cannot_be_read_names_that_version(tmp_path):
    """It is a report of preflight all the same."""
    written(healthy(), tmp_path)
    rewritten(tmp_path / "report.json", future=1)
    with pytest.raises(UsageError, match=r"written by preflight 0, and this is .*unknown field `future`"):
        stored.load(tmp_path, "auto")
