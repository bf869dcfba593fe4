"""Does every example work as it stands? Those of Slurm and Ray are run in test_slurm, test_ray and test_ray_jobs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TRIED = {
    "accelerate.sh", "accelerate.yaml", "github-actions.yml", "kubernetes.yaml", "prolog-slurmctld.sh", "ray-job.yaml",
    "ray_job.py", "slurm.sbatch", "torchrun.sh", "train.py", "verl.sh",
}  # fmt: skip
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def test_every_example_is_tried_here():
    """One that is added is added here too, and the page of gates speaks of it."""
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == TRIED
    gates = (ROOT / "docs/gates.md").read_text(encoding="utf-8")
    assert [name for name in TRIED - {"train.py", "accelerate.yaml"} if name not in gates] == []


@pytest.mark.parametrize(
    "name", ["torchrun.sh", "accelerate.yaml", "slurm.sbatch", "kubernetes.yaml", "ray-job.yaml", "verl.sh"]
)
def test_the_launch_files_among_them_are_right(name):
    """Our own rules find nothing wrong with what we hand out."""
    words = [sys.executable, "-m", "preflight", "launch", "check", str(EXAMPLES / name)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search("starts? of a job read", done.stdout)


@pytest.fixture
def copy(tmp_path):
    """The examples in a folder of their own, beside what they expect there."""
    for path in EXAMPLES.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def shell(folder, command, **environment):
    """What a shell makes of a command line, on this machine."""
    own = {"PATH": PATH, "HOSTS": "local", "PROFILE": "quick", "ACCELERATE_USE_CPU": "true", **environment}
    own["TMPDIR"] = str(folder)  # the examples' own torchrun leaves a folder there
    words = ["bash", "-c", command]
    env = {**os.environ, **own}
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.parametrize("name", ["torchrun.sh", "accelerate.sh"])
def test_a_job_starts_behind_its_check(copy, name):
    """Both ranks ran after a green report, and each saw the sum."""
    done = shell(copy, f"bash {name}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.index("GO  1 node") < done.stdout.index("rank 0 of 2: 1")
    assert "rank 1 of 2: 1" in done.stdout


@pytest.mark.parametrize("name", ["torchrun.sh", "accelerate.sh"])
def test_a_job_does_not_start_behind_a_red_report(copy, name):
    """The exit code is preflight's, and no rank ran."""
    done = shell(copy, f"bash {name}", HOSTS="no-such-host.invalid")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "rank 0" not in done.stdout


def test_the_init_container_judges_its_node(copy):
    """Its command, as the pod would start it; the volume it mounts is there."""
    _, job, *_ = yaml.safe_load_all((copy / "kubernetes.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    (first,) = pod["initContainers"]
    done = shell(copy, shlex.join(first["command"]).replace("/tmp/preflight", str(copy / "report")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {mount["name"] for mount in first["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_the_steps_of_the_workflow_run(lab3, copy):
    """In order, on this machine or in the lab; what pip installs is what README installs."""
    workflow = yaml.safe_load((copy / "github-actions.yml").read_text())
    (copy / "examples").symlink_to(copy, target_is_directory=True)
    (copy / "hostfile").write_text("".join(f"node{number} python={sys.executable}\n" for number in (1, 2)))
    summary = copy / "summary.md"
    for name, job in workflow["jobs"].items():
        for step in (step["run"] for step in job["steps"] if "run" in step):
            if step.startswith("pip "):
                assert f"{step.removeprefix('pip ')} " in (ROOT / "README.md").read_text(encoding="utf-8")
                continue
            command = step.replace("${{ github.run_id }}", "17").replace("run --", "run --profile=quick --")
            env = {"PATH": PATH, "GITHUB_STEP_SUMMARY": str(summary)}
            words = ["bash", "-c", command]
            done = lab3.run(words, env=env, cwd=copy) if name == "cluster" else shell(copy, command, **env)
            assert done.returncode == 0, f"{name}: {step}\n{done.stdout}{done.stderr}"
    assert json.loads((copy / "reports/17/report.json").read_text())["finished"]
    assert "GO" in summary.read_text()
