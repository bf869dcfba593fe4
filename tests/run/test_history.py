"""Are earlier runs found, listed and cleared away, and nothing else touched?"""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from preflight.job.options.options import Options
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.report.document import Counts
from preflight.report.json import read_json, write_json
from preflight.run import history
from preflight.said.errors import UsageError
from preflight.testing import healthy
from tests.run.test_stored import written


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Writes a run of three nodes into reports/, so many hours old."""
    monkeypatch.chdir(tmp_path)

    def made(name, hours, **fields):
        folder = tmp_path / "reports" / name
        folder.mkdir(parents=True)
        written(healthy(), folder)
        report = read_json(folder / "report.json")
        started = (datetime.now(timezone.utc) - timedelta(hours=hours)).isoformat(timespec="seconds")
        run = msgspec.structs.replace(report.run, id=name, started=started)
        write_json(folder / "report.json", msgspec.structs.replace(report, run=run, **fields))
        return folder

    return made


LAST_GOOD = Options(baseline="last-good")
OF_THREE = ("node1", "node2", "node3")


def test_last_good_is_the_newest_good_run_of_the_same_hosts(store):
    """A failed, an unfinished and a strange cluster's run are passed over; so is a file of somebody's own."""
    store("old", 9)
    store("good", 5)
    store("bad", 3, verdict=Verdict.FAIL, exit_code=1)
    store("cut", 2, verdict=Verdict.ERROR, exit_code=3, finished=False)
    (store("other", 1).parent / "notes").mkdir()
    snapshot = history.baseline(LAST_GOOD, ("node3", "node1", "node2"))
    assert snapshot is not None
    assert snapshot.report.run.id == "other"
    assert history.baseline(LAST_GOOD, OF_THREE[:2]) is None
    assert history.baseline(LAST_GOOD, (*OF_THREE, "node4")) is None


def test_a_run_beside_the_reports_folder_counts_too(store, tmp_path):
    """With --report-dir elsewhere, runs lie beside it."""
    store("a", 1).rename(tmp_path / "elsewhere")
    beside = Options(baseline="last-good", report_dir=tmp_path / "now")
    assert history.baseline(beside, OF_THREE) is not None
    assert history.baseline(LAST_GOOD, OF_THREE) is None


def test_a_baseline_brings_findings_facts_and_bandwidths(store):
    """One notion for all three."""
    snapshot = history.baseline(Options(baseline=str(store("a", 1))), OF_THREE)
    assert snapshot is not None
    assert snapshot.report.findings
    assert snapshot.facts["node1"]["package torch"]
    assert "clock offset" not in snapshot.facts["node1"]
    assert [result.op for result in snapshot.results] == ["all_reduce"]


def test_what_is_no_run_is_refused_in_one_line(tmp_path):
    """The folder is named, and the option."""
    with pytest.raises(UsageError, match=r"--baseline .*nowhere"):
        history.baseline(Options(baseline=str(tmp_path / "nowhere")), OF_THREE)


def test_the_list_has_a_line_a_run_the_newest_first(store, tmp_path):
    """When, verdict, nodes and where."""
    store("old", 9)
    store("new", 1, verdict=Verdict.ERROR, exit_code=3, finished=False)
    _, first, second = history.list_text(tmp_path / "reports").splitlines()
    assert "unfinished" in first
    assert first.endswith("reports/new")
    assert "pass" in second
    assert "node[1-3]" in second
    assert history.list_text(tmp_path / "none").startswith("no run in")


def test_keep_deletes_the_oldest_runs_and_nothing_else(store, tmp_path):
    """A folder that holds anything of somebody's own, a link, and a run under way stay as they are."""
    reports = tmp_path / "reports"
    for hours in range(1, 5):
        store(f"run{hours}", hours)
    (store("mine", 6) / "thesis.tex").write_text("")
    store("running", 7, verdict=Verdict.ERROR, exit_code=3, finished=False)
    store("killed", 50, verdict=Verdict.ERROR, exit_code=3, finished=False)
    (reports / "notes").mkdir()
    outside = tmp_path / "outside"
    store("linked", 60).rename(outside)
    (reports / "linked").symlink_to(outside)
    told = history.keep(reports, 2)
    assert sorted(path.name for path in reports.iterdir()) == ["linked", "mine", "notes", "run1", "run2", "running"]
    assert (outside / "report.json").is_file()
    assert [line.split()[0] for line in told] == ["deleted", "deleted", "kept", "kept", "deleted"]
    assert "thesis.tex" in told[2]


def test_a_run_is_called_as_its_folder(tmp_path, monkeypatch):
    """What `preflight report` says of a run leads to its folder."""
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-m", "preflight", "run", "--hosts=local", "--profile=quick", "-q", "--", "-k", "clock"]
    subprocess.run(words, check=False, capture_output=True, timeout=120)
    (past,) = history.runs(tmp_path / "reports")
    assert past.folder.name == past.head.run.id


def test_a_run_is_called_by_last_by_its_id_or_by_how_that_begins(store):
    """A folder that exists is itself, whatever it is called."""
    store("20261101-aa", 9)
    bad = store("20261102-bb", 5, verdict=Verdict.FAIL, exit_code=1)
    assert history.called(Path("last")).resolve() == bad
    assert history.called(Path("last-good")).name == "20261101-aa"
    assert history.called(Path("20261102-bb")).resolve() == bad
    assert history.called(Path("20261101")).name == "20261101-aa"
    assert history.called(bad) == bad


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("2026", "2026: 2 runs in reports begin with it, the newest is 20261102-bb"),
        ("2025", "2025: no such run; the newest run in reports is 20261102-bb"),
        ("last-good", "last-good: no such run; the newest"),
    ],
)
def test_a_run_that_is_not_there_or_not_the_only_one_is_refused(store, words, reason):
    """With the run that was meant, perhaps."""
    store("20261101-aa", 9, verdict=Verdict.FAIL, exit_code=1)
    store("20261102-bb", 5, verdict=Verdict.FAIL, exit_code=1)
    with pytest.raises(UsageError, match=reason):
        history.called(Path(words))


def test_what_was_not_green_is_asked_again(store):
    """Of the newest finished run of these nodes, in words where there is nothing to ask."""
    store("20261101-aa", 9)
    options = Options(run_id="now")
    with pytest.raises(UsageError, match="run 20261101-aa was green; leave the option out"):
        history.not_green(options, ["node1", "node2", "node3"])
    with pytest.raises(UsageError, match=r"no finished run of node\[7-8\] in reports"):
        history.not_green(options, ["node7", "node8"])


def test_the_last_command_line_is_taken_over_unless_it_cannot_say_what_was_asked(store):
    """What is hidden in the report cannot be typed again, and what judged a stored run asked no node."""
    with pytest.raises(UsageError, match="no finished run in reports; name the hosts"):
        history.last_run()
    folder = store("20261101-aa", 9)
    assert history.last_run().head.run.command == read_json(folder / "report.json").run.command
    with_command(folder, "preflight", "run", "--env=KEY=[hidden]")
    with pytest.raises(UsageError, match="held a secret; give its options again"):
        history.last_run()
    with_command(folder, "preflight", "run", "--from=last")
    with pytest.raises(UsageError, match="judged a stored run; name the hosts"):
        history.last_run()


def with_command(folder, *command):
    """The stored run as if it had been started so."""
    report = read_json(folder / "report.json")
    run = msgspec.structs.replace(report.run, command=command)
    write_json(folder / "report.json", msgspec.structs.replace(report, run=run))


def test_a_hostfile_that_names_others_by_now_is_refused(store, tmp_path):
    """The checks of one machine say nothing about another."""
    store("20261101-aa", 9)
    (tmp_path / "hostfile").write_text("node1\nnode3\nnode2\n")
    history.refuse_other_nodes(history.last_run(), "@hostfile")
    (tmp_path / "hostfile").write_text("node1\nnode2\nnode4\n")
    with pytest.raises(UsageError, match=r"was of node\[1-3\], and @hostfile is now node\[1-2,4\]; name the hosts"):
        history.refuse_other_nodes(history.last_run(), "@hostfile")


def test_what_was_to_be_asked_again_and_was_not_stays_red(store):
    """A run of --last-failed that -k narrowed is no proof of the rest."""
    mtu, clock = (Finding(f"network.{name}", Verdict.FAIL, OF_THREE, "") for name in ("mtu", "clock"))
    store(
        "a",
        9,
        findings=(mtu, clock),
        ledger=Counts(expected=6, judged=6, not_asked=0),
        verdict=Verdict.FAIL,
        exit_code=1,
    )
    passed = (Finding("network.mtu", Verdict.PASS, OF_THREE, ""),)
    store("b", 5, findings=passed, ledger=Counts(expected=3, judged=3, not_asked=1))
    with pytest.raises(UsageError, match="run b was green"):
        history.not_green(Options(run_id="now"), OF_THREE)
    with_command(Path("reports/b").resolve(), "preflight", "run", "--hosts=node[1-3]", "--last-failed", "--", "-kmtu")
    assert history.not_green(Options(run_id="now"), OF_THREE) == {"network.clock"}


def test_a_run_of_another_machine_is_no_run_of_this_one(store, monkeypatch):
    """Both are called local, and a file system that they share has the reports of both."""
    folder = store("20261101-aa", 9)
    facts = min((folder / "facts").glob("*.json"))
    facts.rename(folder / "facts" / "local.json")
    monkeypatch.setattr("socket.gethostname", lambda: "login2")
    with pytest.raises(UsageError, match=r"run 20261101-aa was started on \S+, this is login2"):
        history.refuse_other_nodes(history.last_run(), "local")
