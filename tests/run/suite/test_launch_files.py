"""Do the findings on launch files enter the ledger of a run, once a node and rule, and without secrets?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.judge.ledger.ledger import Ledger
from preflight.launch.read import read_texts
from preflight.run.suite.launch_files import merged, record
from preflight.testing import healthy
from tests.launch.files import written


def preflight(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "preflight", *words]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=90, check=False)


def test_a_run_with_launch_files_has_their_findings(tmp_path):
    """--launch puts the files' findings into the report, and a fail into the exit code."""
    words = ["--profile=quick", "--report-dir=out", *(f"--launch={name}" for name in written(tmp_path, 0, 0))]
    done = preflight("run", *words, cwd=tmp_path)
    report = json.loads((tmp_path / "out" / "report.json").read_text())

    assert done.returncode == 1, done.stdout + done.stderr
    failed = {finding["check"]: finding for finding in report["findings"] if finding["verdict"] == "fail"}
    assert failed["launch.ranks_are_distinct"]["where"][0] == {"file": "node0.yaml", "line": 4}
    # their address of rank 0 is looked at on the nodes as if it stood in the environment
    assert "192.0.2.10" in failed["master.address_belongs_to_the_first_node"]["message"]
    assert len(report["plan"]["launches"]) == 2


def test_what_a_rule_says_twice_of_a_node_is_one_finding():
    """Findings of one rule that share a node become one, with the worst verdict and every line."""
    said = [
        Finding("launch.x", Verdict.WARN, (), "a", where=(Where("f", 1),)),
        Finding("launch.x", Verdict.FAIL, ("n2",), "b", where=(Where("f", 2),)),
        Finding("launch.y", Verdict.FAIL, ("n1",), "c"),
    ]

    x, y = merged(said, ("n1", "n2"))

    assert (x.verdict, set(x.nodes), x.message) == (Verdict.FAIL, {"n1", "n2"}, "a; b")
    assert x.where == (Where("f", 1), Where("f", 2))
    assert y.nodes == ("n1",)


def test_no_secret_is_recorded(tmp_path):
    """Neither of the launch's command and variables, nor of ours."""
    (tmp_path / "run.sh").write_text("export HF_TOKEN=hush1\ntorchrun --nnodes 1 train.py --api-key hush2\n")
    words = ["--env=WANDB_API_KEY=hush3", "--profile=quick", "--report-dir=out", "--launch=run.sh"]
    preflight("run", *words, cwd=tmp_path)

    recorded = "".join(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert "hush" not in recorded
    assert "[hidden]" in recorded


@pytest.mark.parametrize(
    ("texts", "verdict", "words"),
    [
        ({"start.sh": "echo hello\n"}, Verdict.ERROR, "nothing in the launch files could be judged"),
        ({"x.yaml": "a: 1\n"}, Verdict.ERROR, "nothing in the launch files could be judged: x.yaml:1: "),
        ({"run.sh": "torchrun --nproc_per_node=2 train.py\n"}, Verdict.PASS, "1 start of a job read from the files"),
        (
            {"run.sh": "torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$HOST_NODE_ADDR t.py\n"},
            Verdict.ERROR,
            "a start in the launch files could not be judged: run.sh:1: $HOST_NODE_ADDR is set nowhere",
        ),
        (
            {"run.sh": "torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$head_node_ip:29500 t.py\n"},
            Verdict.ERROR,
            "a start in the launch files could not be judged: run.sh:1: $head_node_ip is set nowhere",
        ),
        (
            {
                "a.sh": "torchrun --standalone --nproc_per_node=8 t.py\n",
                "b.sh": "accelerate launch --config_file missing.yaml t.py\n",
            },
            Verdict.ERROR,
            "a start in the launch files could not be judged: b.sh:1: not judged: missing.yaml is not given",
        ),
    ],
)
def test_files_of_which_nothing_could_be_judged_are_an_error_of_the_run(texts, verdict, words):
    """Somebody gave them to be judged: no word on them must not read as a good one."""
    ledger = Ledger()
    run = healthy(2)
    record(ledger, read_texts(texts), run.cluster, run.names)
    (judged,) = [finding for finding in ledger.findings if finding.check == "launch.files_are_judged"]
    assert (judged.verdict, judged.nodes) == (verdict, run.names)
    assert judged.message.startswith(words)


def test_findings_of_different_nodes_stay_apart():
    """Each node has its own words, and none is blamed for another."""
    said = [Finding("launch.x", Verdict.FAIL, (name,), f"of {name}") for name in ("n1", "n2")]
    assert [(found.nodes, found.message) for found in merged(said, ("n1", "n2"))] == [
        (("n1",), "of n1"),
        (("n2",), "of n2"),
    ]


def test_a_finding_that_joins_two_others_makes_them_one():
    """What was told of n1 and of n2 apart, and then of both, is one cell each: a node is judged once."""
    said = [Finding("launch.x", Verdict.WARN, nodes, "slow") for nodes in (("n1",), ("n2",), ("n1", "n2"))]
    (found,) = merged(said, ("n1", "n2", "n3"))
    assert (set(found.nodes), found.message) == ({"n1", "n2"}, "slow")
    assert merged([], ("n1",)) == []
