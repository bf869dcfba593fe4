"""Do the verbs hand over the options, and print what was found?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.cli import explain, facts, report
from preflight.errors import UsageError
from preflight.facts.cluster import Cluster
from preflight.plugin import checks_folder
from preflight.testing import healthy
from tests.run.test_stored import written

# Runs preflight and counts how often each of these functions starts, in every thread. What reads the baseline is
# counted apart from what reads the nodes, and each subject that is decoded by itself.
COUNTING = """
import collections, json, pathlib, sys, threading

counted = {
    "options/options.py": {"parse_options"},
    "settings.py": {"load_settings"},
    "hosts.py": {"parse_hosts"},
    "launch/read.py": {"read_files", "read_file"},
    "run/history.py": {"baseline"},
    "facts/view.py": {"view"},
    "facts/decode.py": {"decode", "with_answer"},
}
names = set().union(*counted.values())
times = collections.Counter()

def file_of(frame):
    return frame.f_code.co_filename.rpartition("/preflight/")[2]

def count(frame, event, _):
    if event != "call" or frame.f_code.co_name not in names:
        return
    file, name = file_of(frame), frame.f_code.co_name
    if name not in counted.get(file, ()):
        return
    asker = frame.f_back
    while file_of(asker).startswith("facts/"):
        asker = asker.f_back
    if file.startswith("facts/") and file_of(asker) == "run/stored.py":
        name += " of the baseline"
    times[name] += 1
    if name == "with_answer":
        times.update(f"subject {subject}" for subject in frame.f_locals["answer"][0])

threading.setprofile(count)
sys.setprofile(count)
from preflight.cli.main import run
code = run(sys.argv[2:])
sys.setprofile(None)
pathlib.Path(sys.argv[1]).write_text(json.dumps(times))
sys.exit(code)
"""


def test_a_run_reads_everything_once(tmp_path):
    """Options, settings, hosts, launch files, baseline and the facts: no answer is looked for a second time."""
    (tmp_path / "then").mkdir()
    written(healthy(1), tmp_path / "then")
    (tmp_path / "preflight.toml").write_text("[clock]\nmax_offset_seconds = 2.0\n")
    (tmp_path / "job.sh").write_text("torchrun --nnodes 1 --nproc_per_node 2 train.py\n")
    words = ["run", "--hosts=local", "--profile=quick", "--report-dir=now", "--baseline=then", "--launch=job.sh"]
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, "times.json", *words, "--settings=preflight.toml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    report = json.loads((tmp_path / "now" / "report.json").read_text())
    assert report["plan"]["launches"][0]["launcher"] == "torchrun"
    assert report["changes"] is not None
    times = json.loads((tmp_path / "times.json").read_text())
    subjects = {name for name in times if name.startswith("subject ")}
    assert len(subjects) > 10
    once = {"parse_options", "load_settings", "parse_hosts", "read_files", "read_file", "baseline", "view", "decode"}
    once |= {"view of the baseline", "decode of the baseline", *subjects}
    assert {name: times.get(name) for name in once} == dict.fromkeys(once, 1)


def test_options_go_through_the_door_as_they_are(tmp_path):
    """A value that would be two words on a command line, or start with a dash, arrives as it was given."""
    words = ["--hosts=local", "--profile=quick", "--env=A=-x y", "--env=B=", "--report-dir=now", "--deadline=44.5"]
    done = subprocess.run(
        [sys.executable, "-m", "preflight", "run", *words, "--dry-run"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "would reach 1 node, deadline 44.5 s" in done.stdout
    assert f"report: {tmp_path}/now" in done.stdout


def test_the_checks_are_told_without_being_run():
    """Id and docstring of each, in the order of the files."""
    found = list(explain.check_texts(checks_folder()))
    texts = {name: text for name, _, text in found}
    verdicts = {name: verdict for name, verdict, _ in found}
    assert verdicts["reach.every_node_answers"] == "fail"
    assert verdicts["clock.clocks_are_in_step"] == "warn"
    assert "reach.every_node_answers" in texts
    assert all("Fix:" in text for text in texts.values())


def test_a_table_of_facts_marks_where_nodes_differ():
    """A star at the row, a column a node; what a node says cannot reach the terminal raw."""
    run = healthy(2).broken_interface("node2", mtu=1500).broken("node1", "identity", kernel="6.1\x1b[31m")
    table = facts._facts_table(run.cluster)
    rows = {line.split("  ")[0]: line for line in table.splitlines()}
    assert "its MTU *" in rows
    assert "CPUs" in rows
    assert "\x1b" not in table


def test_a_table_of_many_nodes_shows_each_value_once():
    """With the nodes that have it, folded; what differs stands first, what no node reports in one line below."""
    table = facts._facts_table(healthy(9).broken_interface("node2", mtu=1500).cluster)
    lines = table.splitlines()
    assert [line.split() for line in lines[2:4]] == [["its", "MTU", "*", "9000", "node[1,3-9]"], ["1500", "node2"]]
    assert sum("hostname" in line for line in lines) == 1
    assert lines[-1].startswith("not reported by any node: ")
    assert "NVLinks of a GPU (no GPU has any)" in lines[-1]


def test_json_that_cannot_be_written_is_a_usage_error(tmp_path):
    """The message names the file."""
    written(healthy(), tmp_path)
    with pytest.raises(UsageError, match="--json /nowhere/x: cannot be written"):
        report.show_report(tmp_path, "/nowhere/x")


def test_of_two_runs_it_says_what_changed(tmp_path, capsys):
    """New findings first, facts and bandwidth below; with the code of the later run, and in every format."""
    for name, run in (("then", healthy()), ("now", healthy().broken_interface("node2", mtu=1500))):
        (tmp_path / name).mkdir()
        written(run, tmp_path / name)
    assert report.show_report(tmp_path / "now", None, earlier=tmp_path / "then") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "since run x (pass): 1 fact changed"
    assert "fact      its MTU on node2: 9000 -> 1500" in lines
    assert lines[-1].endswith("+0.0%, within the noise")
    report.show_report(tmp_path / "now", None, "markdown", tmp_path / "then")
    assert "### What has changed" in capsys.readouterr().out


def test_runs_are_listed_and_cleared_away(tmp_path, capsys):
    """The list says what is left; a number that is none is refused."""
    (tmp_path / "one").mkdir()
    written(healthy(), tmp_path / "one")
    assert report.show_history(tmp_path, "0") == 0
    assert capsys.readouterr().out.splitlines() == [f"deleted {tmp_path}/one", f"no run in {tmp_path}"]
    with pytest.raises(UsageError, match="--keep 'all': wanted a number of runs"):
        report.show_history(tmp_path, "all")


def test_a_finished_run_is_shown_again_with_its_code(tmp_path, capsys):
    """From its folder or its file; as JSON on request, here or to a file."""
    written(healthy(), tmp_path)
    assert report.show_report(tmp_path, None) == 0
    assert "PASS" in capsys.readouterr().out
    assert report.show_report(tmp_path / "report.json", "-") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "pass"
    report.show_report(tmp_path, str(tmp_path / "copy.json"))
    assert json.loads((tmp_path / "copy.json").read_text())["schema"] == 1


def test_a_table_of_no_node_is_empty():
    """Where no node answered there is nothing to tell."""
    assert "node1" not in facts._facts_table(Cluster(()))
