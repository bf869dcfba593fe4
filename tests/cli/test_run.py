"""Are options handed over as they were given, and is everything read once?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from preflight.cli.run import logs_diagnosis
from preflight.testing import healthy
from tests.run.test_stored import written

# Runs preflight and counts how often each of these functions starts, in every thread. What reads the baseline is
# counted apart from what reads the nodes, and each subject that is decoded by itself.
COUNTING = """
import collections, json, pathlib, sys, threading

counted = {
    "job/options/parse.py": {"parse_options"},
    "judge/settings.py": {"load_settings"},
    "reach/hosts.py": {"parse_hosts"},
    "launch/read.py": {"read_files"},
    "launch/reading/bundle.py": {"read_file"},
    "run/history.py": {"baseline"},
    "facts/view.py": {"of_nodes"},
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


def python(folder, *words):
    """Our Python with these words, in a folder, with the package of this tree."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_run_reads_everything_once(tmp_path):
    """Options, settings, hosts, launch files, baseline and the facts: no answer is looked for a second time."""
    (tmp_path / "then").mkdir()
    written(healthy(1), tmp_path / "then")
    (tmp_path / "preflight.toml").write_text("[clock]\nmax_offset_seconds = 2.0\n")
    (tmp_path / "job.sh").write_text("torchrun --nnodes 1 --nproc_per_node 2 train.py\n")
    words = ["run", "--hosts=local", "--profile=quick", "--report-dir=now", "--baseline=then", "--launch=job.sh"]
    done = python(tmp_path, "-c", COUNTING, "times.json", *words, "--settings=preflight.toml")
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    report = json.loads((tmp_path / "now" / "report.json").read_text())
    assert report["plan"]["launches"][0]["launcher"] == "torchrun"
    assert report["changes"] is not None
    times = json.loads((tmp_path / "times.json").read_text())
    subjects = {name for name in times if name.startswith("subject ")}
    assert len(subjects) > 10
    once = {
        "parse_options",
        "load_settings",
        "parse_hosts",
        "read_files",
        "read_file",
        "baseline",
        "of_nodes",
        "decode",
    }
    once |= {"of_nodes of the baseline", "decode of the baseline", *subjects}
    assert {name: times.get(name) for name in once} == dict.fromkeys(once, 1)


def test_options_go_through_the_door_as_they_are(tmp_path):
    """A value that would be two words on a command line, or start with a dash, arrives as it was given."""
    words = ["--hosts=local", "--profile=quick", "--env=A=-x y", "--env=B=", "--report-dir=now", "--deadline=44.5"]
    done = python(tmp_path, "-m", "preflight", "run", *words, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would reach 1 node, deadline 44.5 s" in done.stdout
    assert f"report: {tmp_path}/now" in done.stdout


def test_the_logs_of_a_failed_job_are_diagnosed(tmp_path):
    """Those of its ranks, not of how they were started; nothing is said where nothing is known."""
    assert logs_diagnosis(tmp_path) == ""
    (tmp_path / "training-launch-node1.log").write_text("OSError: [Errno 98] Address already in use\n")
    (tmp_path / "training-rank0-node1.log").write_text("step 1\n")
    assert logs_diagnosis(tmp_path) == ""
    (tmp_path / "training-rank1-node2.log").write_text("OSError: [Errno 28] No space left on device: '/ckpt'\n")
    assert "training-rank1-node2.log:1: OSError: [Errno 28]" in logs_diagnosis(tmp_path)
    (tmp_path / "training-rank1-node2-trace.log").write_text('{"version": "2", "pg_status": {}, "entries": []}')
    assert "training-rank1-node2.log:1: OSError: [Errno 28]" in logs_diagnosis(tmp_path)
    (tmp_path / "training-rank1-node2-trace.log").write_text('{"version": "2", "pg_status": {')
    found = logs_diagnosis(tmp_path)
    assert "training-rank1-node2.log:1: OSError: [Errno 28]" in found
    assert "training-rank1-node2-trace.log: not a readable dump" in found


def test_json_is_alone_on_standard_output(tmp_path):
    """A program reads it as it stands; the summary for people is on standard error."""
    words = ["run", "--hosts=local", "--profile=quick", "--report-dir=now", "--json", "--", "-kmtu"]
    done = python(tmp_path, "-m", "preflight", *words)
    assert json.loads(done.stdout)["exit_code"] == done.returncode
    assert f"exit code {done.returncode}" in done.stderr


SITE_CHECK = '''
"""A check of the site's own."""
import pathlib


def test_the_scratch_disk_is_there(node):
    """The scratch disk is mounted."""
    assert pathlib.Path("scratch").exists(), "no scratch"
'''


def test_what_was_not_green_is_asked_again_and_nothing_else(tmp_path):
    """With the hosts and files of the last run; a green one has nothing left to ask."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "test_site.py").write_text(SITE_CHECK)
    preflight = partial(python, tmp_path, "-m", "preflight", "run")
    chosen = ("--", "-k", "scratch or every_node_answers", "site/test_site.py")
    first = preflight("--hosts=local", "--profile=quick", *chosen)
    assert first.returncode == 1, first.stdout + first.stderr
    (tmp_path / "scratch").touch()
    again = preflight("--last-failed", "-v")
    assert again.returncode == 0, again.stdout + again.stderr
    verdicts = [line.split()[:2] for line in again.stdout.splitlines()]
    assert ["PASS", "site.the_scratch_disk_is_there"] in verdicts
    assert ["PASS", "reach.every_node_answers"] in verdicts
    assert "green in the last run" in again.stdout
    green = preflight("--last-failed")
    assert green.returncode == 4, again.stdout + green.stdout
    assert "was green; leave the option out to ask everything again" in green.stderr


def test_the_page_shows_what_was_typed(tmp_path):
    """Not what pytest was called with for it."""
    words = ["run", "--hosts=local", "--profile=quick", "--report-dir=now", "--", "-kmtu"]
    python(tmp_path, "-m", "preflight", *words)
    shown = (tmp_path / "now/report.html").read_text().partition('<pre class="command" tabindex="0">')[2]
    assert shown.partition("</pre>")[0] == f"preflight {' '.join(words)}"
    assert "importlib" not in shown
