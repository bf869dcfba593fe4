"""Is what will be done and what was done told whole, wherever it is written?"""

from __future__ import annotations

import json
from types import SimpleNamespace

import msgspec
import pytest

from preflight.facts.results import JobFailure
from preflight.job.options.options import Options
from preflight.judge.ledger.findings import Verdict
from preflight.launch.job import Starting
from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.report import FILES
from preflight.report.json import read_json
from preflight.run import folder
from preflight.run.source import Measurements
from preflight.testing import healthy
from tests.run.suite.test_session import site

__all__ = ["site"]
PASSING = 'def test_fine(node):\n    """It is fine.\n\n    Fix: nothing.\n    """\n    assert node.name\n'


def test_a_dry_run_shows_every_command_and_says_what_is_not_touched():
    """A line a host, that a shell would take."""
    told = folder.dry_run_text(Options(run_id="x"), (Host("p", "k8s:n/pod/p", transport="k8s", trouble="it is over"),))
    assert "  p: it is over\n" in told
    told = folder.dry_run_text(Options(run_id="x"), parse_hosts("ada@node[1-2]:2222"))
    assert told.splitlines()[0] == "would reach 2 nodes, deadline 300 s:"
    assert "-p 2222 -l ada -- node2" in told
    assert "MASTER_PORT is bound, never used" in told
    assert "report: reports/x" in told
    files = Options(launch=("a.sh",), starting=Starting(refusal="a.sh:1: srun starts it"))
    assert "reference job: not started: a.sh:1: srun starts it" in folder.dry_run_text(files, parse_hosts("local"))
    assert "would reach 1 node," in folder.dry_run_text(Options(), parse_hosts("local"))


def test_a_dry_run_shows_no_secret():
    """Neither of a wrapper, nor of an option of ssh: people put it into tickets."""
    given = Options(run_id="x", wrap="env API_KEY=hush1 docker exec", ssh_option="-oSetEnv=MY_TOKEN=hush2")
    told = folder.dry_run_text(given, parse_hosts("node1"))
    assert "docker exec" in told
    assert "SetEnv=" in told
    assert "hush" not in told


def test_a_log_that_is_kept_moves_no_cursor_and_speaks_to_no_ci():
    """Line by line, as a rank printed it."""
    kept = folder.harmless("step 1\n\x1b[2J\x1b]0;x\x07\n::error::planted\n##vso[task.complete]\u202e\n")
    assert kept.splitlines()[:2] == ["step 1", "\\x1b[2J\\x1b]0;x\\x07"]
    assert all(line.isprintable() and not line.startswith("::") and "##vso[" not in line for line in kept.splitlines())


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("node1", "node1"),
        ("../x", "_x"),
        ("a/b", "a_b"),
        ("...", "_"),
        ("a\0b", "a_b"),
        ("fe80::1%eth0", "fe80::1%eth0"),
    ],
)
def test_no_name_leaves_the_folder(name, file):
    """A node's name and a rank's log are file names, never paths."""
    assert folder._file_name(name) == file


def test_no_secret_of_a_note_or_of_a_failed_rank_is_in_the_report():
    """Whoever prints its token as it ends, and whatever a note quotes."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    told = f"login with token={token} refused"
    failed = JobFailure(nodes=("node1",), is_proven=True, message=told, cause=told, last_lines=(told,))
    training = msgspec.structs.replace(healthy().measured_training, failure=failed, not_measured=told)
    bench = msgspec.structs.replace(healthy().measured_bench, not_measured=told)
    nothing = SimpleNamespace(cells=0, judged=0, not_asked=(), findings=(), left_out=dict)
    source = SimpleNamespace(started="", seconds=0.0, node_infos=tuple, notes=[told], stage_seconds={})
    report = folder._report(
        *(source, nothing, Options(), Measurements(bench=bench, training=training)),
        finished=True,
        verdict=Verdict.FAIL,
        exit_code=1,
    )
    assert token not in msgspec.json.encode(report).decode()
    assert report.notes[0].startswith("login with token=")


def test_a_run_leaves_every_file_whole(site):
    """All formats, the facts of every node, and no unfinished file beside them."""
    site.write(PASSING)
    code, output = site.run("--hosts=local", "test_site.py")
    assert code == 0, output
    files = {path.name for path in site.report.iterdir()}
    assert {*FILES.values(), "facts", "logs"} <= files
    assert read_json(site.report / "report.json").finished
    assert json.loads((site.report / "facts" / "local.json").read_text())["node"] == "local"
    assert not [path for path in site.report.rglob("*") if path.name.endswith((".tmp", "~"))]


def test_a_report_that_cannot_be_written_is_an_error(site):
    """What nobody can read was not told: exit 3, and the reason on the screen."""
    site.write(PASSING)
    site.report.mkdir()
    (site.report / "report.html").mkdir()
    code, output = site.run("--hosts=local", "test_site.py")
    assert code == 3
    assert "the report could not be written" in output


def test_a_folder_that_cannot_be_written_is_refused_before_a_node_is_asked(site):
    """A usage error with the folder and the reason; the host that nobody can reach is not tried."""
    site.write(PASSING)
    site.report.mkdir()
    (site.report / "report.json").mkdir()
    code, output = site.run("--hosts=nowhere.invalid", "test_site.py")
    assert code == 4, output
    assert f"--report-dir: {site.report} cannot be written: Is a directory" in output
    assert "nowhere.invalid:" not in output


def test_facts_of_an_earlier_run_in_the_same_folder_are_removed(site):
    """They would be judged as if they belonged to this run; other files of the folder stay."""
    site.write(PASSING)
    (site.report / "facts").mkdir(parents=True)
    for name in ("facts/node9.json", "facts/notes.txt"):
        (site.report / name).write_text("{}")
    code, output = site.run("--hosts=local", "test_site.py")
    assert code == 0, output
    assert sorted(path.name for path in (site.report / "facts").iterdir()) == ["local.json", "notes.txt"]
