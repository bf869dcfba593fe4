"""Launch files in a run and by their own verb."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.errors import UsageError
from preflight.judge.launch_files import merged
from preflight.launch.job import Starting
from preflight.launch.read import read_texts
from preflight.ledger.findings import Finding, Verdict, Where
from preflight.options.launch import variables, with_files
from preflight.options.options import Options

YAML = """compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
num_machines: {machines}
machine_rank: {rank}
num_processes: {machines}
main_process_ip: {address}
main_process_port: 29500
"""


def preflight(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "preflight", *words]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=90, check=False)


@pytest.fixture
def pair(tmp_path):
    """Two accelerate files of one job; the ranks to be filled in."""

    def write(*ranks: int) -> list[str]:
        for number, rank in enumerate(ranks):
            text = YAML.format(rank=rank, machines=len(ranks), address="192.0.2.10")
            (tmp_path / f"node{number}.yaml").write_text(text)
        return [f"node{number}.yaml" for number in range(len(ranks))]

    return write


def test_two_files_of_one_rank_are_a_fail_with_file_and_line(tmp_path, pair):
    """Both YAML files say machine_rank 0: exit 1, the line, the fix."""
    done = preflight("launch", "check", *pair(0, 0), cwd=tmp_path)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "node1.yaml:4" in done.stdout
    assert "launch." in done.stdout
    assert "Fix:" in done.stdout


def test_a_right_set_is_silent(tmp_path, pair):
    """Ranks 0 and 1 that agree: exit 0 and what every rank will see."""
    done = preflight("launch", "check", *pair(0, 1), cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    assert "local rank" in done.stdout


def test_json_says_the_same(tmp_path, pair):
    """--json gives findings with where, and the plan."""
    done = preflight("launch", "check", *pair(0, 0), "--json", cwd=tmp_path)
    document = json.loads(done.stdout)

    assert done.returncode == document["exit_code"] == 1
    assert document["findings"][0]["where"][0]["file"].endswith(".yaml")
    assert len(document["plan"]["launches"]) == 2


@pytest.mark.parametrize("words", [("check", "nowhere.yaml"), ("check",), ("write", "--out", "x"), ("repair",)])
def test_wrong_words_are_one_line_and_4(tmp_path, words):
    """A missing file or option is a usage error without a traceback."""
    done = preflight("launch", *words, cwd=tmp_path)

    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_written_files_pass_the_check(tmp_path):
    """`launch write` for this machine, then `launch check` of what it wrote."""
    done = preflight("launch", "write", "--launcher=torchrun", "--out=made", "--", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    written = done.stdout.split()

    checked = preflight("launch", "check", *written, "--hosts=local", cwd=tmp_path)

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_run_with_launch_files_has_their_findings(tmp_path, pair):
    """--launch puts the files' findings into the report, and a fail into the exit code."""
    words = ["--profile=quick", "--report-dir=out", *(f"--launch={name}" for name in pair(0, 0))]
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


def test_a_pull_request_shows_the_line(tmp_path, pair):
    """As workflow commands, as SARIF, and beside the text where GitHub runs it."""
    files = pair(0, 0)
    github = preflight("launch", "check", *files, "--format=github", cwd=tmp_path)
    sarif = preflight("launch", "check", *files, "--format=sarif", cwd=tmp_path)

    assert github.stdout.startswith("::error file=node0.yaml,line=4,title=launch.ranks_are_distinct::")
    assert json.loads(sarif.stdout)["runs"][0]["results"][0]["ruleId"] == "launch.ranks_are_distinct"
    assert github.returncode == sarif.returncode == 1
    assert preflight("launch", "check", *files, "--format=xml", cwd=tmp_path).returncode == 4


def test_no_secret_is_recorded(tmp_path):
    """Neither of the launch's command and variables, nor of ours."""
    (tmp_path / "run.sh").write_text("export HF_TOKEN=hush1\ntorchrun --nnodes 1 train.py --api-key hush2\n")
    words = ["--env=WANDB_API_KEY=hush3", "--profile=quick", "--report-dir=out", "--launch=run.sh"]
    preflight("run", *words, cwd=tmp_path)

    recorded = "".join(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert "hush" not in recorded
    assert "[hidden]" in recorded


FILES = {"a.sh": "torchrun --nnodes 2 --node_rank $1 --nproc_per_node 4 --master_addr n1 train.py\n"}


@pytest.mark.parametrize(
    ("texts", "words", "message"),
    [
        (FILES, {"launcher": "accelerate"}, "a.sh:1 starts the job with torchrun"),
        (FILES, {"launcher": "torchrun", "ranks_per_node": "2"}, "start 4 on a node"),
    ],
)
def test_options_that_contradict_the_files_are_refused(texts, words, message):
    """With the line that says otherwise."""
    options = Options(ranks_per_node=words.get("ranks_per_node", "auto"))
    with pytest.raises(UsageError, match=message):
        with_files(options, read_texts(texts), launcher=words["launcher"])


@pytest.mark.parametrize(
    ("launcher", "got"), [(None, "torchrun"), ("torchrun", "torchrun"), ("deepspeed", "deepspeed")]
)
def test_the_launcher_comes_from_the_files(launcher, got):
    """DeepSpeed's engine runs under torchrun's agents too."""
    assert with_files(Options(), read_texts(FILES), launcher=launcher).launcher == got


def test_a_launcher_that_was_asked_for_stands_in_for_files_that_start_nothing_here():
    """A batch script starts nothing here; by name, torchrun does."""
    files = read_texts({"j.sh": "#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun --nnodes 2 t.py\n"})
    assert with_files(Options(), files, launcher=None).starting.refusal
    assert with_files(Options(), files, launcher="torchrun").starting == Starting()


def test_the_checks_look_for_rank_0_where_the_files_do():
    """Its address and port are looked at as variables are; one that is only a placeholder is not."""
    assert variables(read_texts(FILES)) == {"MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
    assert variables(read_texts({"a.sh": FILES["a.sh"].replace("n1", "MASTER_IP")})) == {}
