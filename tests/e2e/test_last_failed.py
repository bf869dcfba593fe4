"""On real hosts over ssh: does --last-failed judge the nodes of the last run, however often it is typed?"""

import json
import sys
from pathlib import Path

from tests.lab import faults

IMPORTABLE = {"PYTHONPATH": str(Path(__file__).parents[2])}  # from any folder


def test_a_second_last_failed_asks_the_same_nodes(make_lab, tmp_path):
    """Not this machine, where an earlier run had found something else."""
    lab = make_lab(3)

    def run(name, *words):
        command = [sys.executable, "-m", "preflight", "run", f"--report-dir={tmp_path}/reports/{name}", *words]
        done = lab.run(command, timeout_s=120, cwd=tmp_path, env=IMPORTABLE)
        assert (tmp_path / "reports" / name).is_dir(), done.stdout + done.stderr
        return done, json.loads((tmp_path / "reports" / name / "report.json").read_text())

    _, local = run("1", "--hosts=local", "--profile=quick", "--", "-k", "reach or clock")
    assert list(local["nodes"]) == ["local"]
    faults.mtu(lab["node3"], 1400)
    done, _ = run("2", "--hosts=node[1-3]", f"--python={sys.executable}", "--profile=quick")
    assert done.returncode == 1, done.stdout + done.stderr
    for name in ("3", "4", "5"):
        done, again = run(name, "--last-failed")
        assert done.returncode == 1, done.stdout + done.stderr
        assert list(again["nodes"]) == ["node1", "node2", "node3"]
        assert "--hosts=node[1-3]" in again["run"]["command"]
        assert again["profile"] == "quick"
        assert "network.mtu_is_the_same_on_every_node" in {
            finding["check"] for finding in again["findings"] if finding["verdict"] == "fail"
        }
