"""What the user writes on the command line, tried on real hosts: names, hostfiles, wraps, options of other plugins."""

from __future__ import annotations

import json
import subprocess
import sys

PYTHON = f"--python={sys.executable}"


def run(lab, folder, *words, module="preflight"):
    done = lab.run([sys.executable, "-m", module, *words, f"--report-dir={folder}"], timeout_s=150)
    return done, json.loads((folder / "report.json").read_text())


def test_one_machine_under_two_names_is_told(lab3, tmp_path):
    """The alias is found by what the machine answers, and both names are in the finding."""
    address = lab3["node1"].address
    done, report = run(lab3, tmp_path, "run", f"--hosts=node1,node2,{address}", PYTHON, "--profile=quick")

    assert done.returncode == 1, done.stdout
    failed = [finding for finding in report["findings"] if finding["verdict"] == "fail"]
    assert [(finding["check"], finding["nodes"]) for finding in failed] == [
        ("reach.no_machine_is_named_twice", ["node1", address])
    ]


def test_a_hostfile_gives_slots_and_the_wrap_holds_the_job(lab3, tmp_path):
    """slots=2 makes two ranks of a node, the wrapped job runs inside the wrap, ranks follow the written order."""
    hostfile = tmp_path / "hosts"
    hostfile.write_text(f"# two hosts\nnode2 slots=2 python={sys.executable}\nroot@node1:22 python={sys.executable}\n")
    words = ("train", f"--hosts=@{hostfile}", "--wrap=env OMP_WAIT_POLICY=passive nice -n 1")
    done, report = run(lab3, tmp_path / "report", *words)

    assert done.returncode == 0, done.stdout + done.stderr
    assert [rank["node"] for rank in report["training"]["ranks"]] == ["node2", "node2", "node1"]
    assert report["nodes"]["node1"]["host"] == "root@node1:22"


def test_what_a_finished_run_stored_is_judged_again_without_contact(lab3, tmp_path):
    """--from gives the same findings as the run itself, away from the network of its hosts."""
    _, first = run(lab3, tmp_path / "first", "run", "--hosts=node[1-2]", PYTHON)
    words = [f"--from={tmp_path / 'first'}", f"--report-dir={tmp_path / 'second'}"]
    command = [sys.executable, "-m", "preflight", "run", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    second = json.loads((tmp_path / "second" / "report.json").read_text())

    def told(report):
        return sorted((f["check"], f["verdict"], tuple(f["nodes"])) for f in report["findings"])

    assert done.returncode == 0, done.stdout + done.stderr
    assert told(second) == told(first)


def test_other_plugins_beside_it_change_nothing(lab3, tmp_path):
    """With pytest-testinfra (which owns --hosts) and pytest-profiling (--profile) loaded, --hosts still is ours."""
    words = ("--hosts=node[1-2]", "--preflight-profile=quick", PYTHON)
    done, report = run(lab3, tmp_path, *words, module="pytest")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "testinfra" in done.stdout
    assert "--preflight-profile" in done.stdout
    assert report["nodes"]["node2"]["reached"] is True
