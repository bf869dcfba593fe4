"""Real hosts: a script that is read and rehearsed in one run. Is a cause that both see said once?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.e2e.test_rehearse import FAULTS, write
from tests.e2e.test_rehearse_remote import folder, lab

__all__ = ["folder", "lab"]


@pytest.mark.parametrize(
    "name",
    [
        "MASTER_ADDR is not exported",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in (
                "no variable is exported",
                "the rendezvous has an id of its own on each node",
                "CRLF line ends",
            )
        ),
    ],
)
def test_a_cause_that_is_read_and_seen_is_one_finding(lab, folder, name):
    """The rehearsal says it, with the line and the fix of the rule; the rule says nothing beside it."""
    script = write(folder, FAULTS[name].script)
    argv = [sys.executable, "-m", "preflight", "run", "--hosts=node[1-2]", f"--python={sys.executable}", "--yes"]
    argv += [f"--launch={script}", f"--rehearse={script}", f"--report-dir={folder}/report", "--profile=quick"]
    root = str(Path(__file__).parents[2])
    done = lab.run([*argv, "--deadline=120"], cwd=folder, env={"PYTHONPATH": root}, timeout_s=200)
    report = json.loads((folder / "report" / "report.json").read_text())
    of_both = [f for f in report["findings"] if f["check"].startswith(("launch.", "rehearse."))]
    failed = [f for f in of_both if f["verdict"] == "fail"]
    assert len(failed) == 1, [(f["check"], f["message"]) for f in failed]
    (finding,) = failed
    assert finding["check"] == f"rehearse.{FAULTS[name].wanted[0]}", done.stdout
    assert all(word in finding["message"] for word in FAULTS[name].words)
    assert "by the files: " in finding["message"]
    assert finding["edits"]
