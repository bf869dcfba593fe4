"""Does a run go through a real Slurm, are its failures told rightly, and do the examples work there as they stand?"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import faults, slurm
from tests.lab.fixtures import do_without
from tests.lab.lab import Lab

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """Three nodes of a Slurm of their own; tests leave every node idle."""
    reason = slurm.why_not()
    if reason:
        do_without(reason, required=slurm.is_required())
    with Lab.create(3) as lab, slurm.SlurmLab(lab) as made:
        yield made


def preflight(verb, folder, *words):
    """The words of a run through Slurm that writes its report there."""
    return ["preflight", verb, "--hosts=slurm", f"--python={sys.executable}", f"--report-dir={folder}", *words]


def report_of(folder):
    """What the run reported."""
    return json.loads((folder / "report.json").read_text())


def messages(folder, verdict):
    """What it said of each check of this verdict."""
    return {found["check"]: found for found in report_of(folder)["findings"] if found["verdict"] == verdict}


def test_facts_mesh_and_training_pass_through_an_allocation(cluster, tmp_path):
    """Nodes in Slurm's order, ranks started by one step of srun; nothing is left on a node, and exit 0 is salloc's."""
    before = cluster.lab.residue()
    words = preflight("train", tmp_path / "run", "--launcher=srun")
    done = cluster.run(["salloc", "--quiet", "--nodes=3", *words])
    assert done.returncode == 0, done.stdout + done.stderr
    report = report_of(tmp_path / "run")
    assert list(report["nodes"]) == ["node1", "node2", "node3"]
    assert (report["training"]["launcher"], report["training"]["world_size"]) == ("srun", 3)
    assert cluster.lab.left_since(before) == {}


def test_a_limit_that_only_slurms_daemon_has_is_found(cluster, tmp_path):
    """A login has it not; what slurmd may not have, no task of its may: the node is told by its steps."""
    cluster.stop_slurmd("node2")
    cluster.start_slurmd("node2", limits=["--nofile=512:512"])
    cluster.wait_until_idle()
    done = cluster.run(["salloc", "--quiet", "--nodes=3", *preflight("run", tmp_path / "run", "--profile=quick")])
    over_ssh = ["preflight", "run", "--hosts=node[1-3]", f"--python={sys.executable}", "--profile=quick"]
    login = cluster.run([*over_ssh, f"--report-dir={tmp_path / 'ssh'}"])
    cluster.stop_slurmd("node2")
    cluster.start_slurmd("node2")
    cluster.wait_until_idle()
    assert (done.returncode, login.returncode) == (0, 0), done.stdout + done.stderr + login.stdout
    (found,) = messages(tmp_path / "run", "warn").values()
    assert (found["check"], found["nodes"]) == ("limits.enough_files_may_be_open", ["node2"])
    assert messages(tmp_path / "ssh", "warn") == {}


def test_a_node_that_is_not_of_the_allocation_is_told(cluster, tmp_path):
    """As its own error, with what to do; the others are read."""
    words = preflight("run", tmp_path / "run", "--profile=quick")
    words[2] = "--hosts=slurm:node[1-3]"
    done = cluster.run(["salloc", "--quiet", "--nodelist=node[1-2]", *words])
    found = messages(tmp_path / "run", "error")["reach.every_node_answers"]
    assert (done.returncode, found["nodes"]) == (3, ["node3"]), done.stdout + done.stderr
    assert "the node is not in the allocation" in found["message"]
    assert found["fix"].startswith("`srun --overlap --nodes=1")


def test_nodes_are_asked_for_and_given_back(cluster, tmp_path):
    """By a partition and a number; a partition that is none is an error, not a check that failed."""
    words = preflight("run", tmp_path / "run", "--profile=quick")
    words[2] = "--hosts=slurm:debug/2"
    done = cluster.run(words)
    words[2] = "--hosts=slurm:nowhere/2"
    refused = cluster.run(words)
    assert (done.returncode, list(report_of(tmp_path / "run")["nodes"])) == (0, ["node1", "node2"]), done.stderr
    assert (refused.returncode, "Slurm gave no 2 nodes of nowhere" in refused.stderr) == (3, True), refused.stderr
    cluster.wait_until_idle()


def started(cluster, folder, *words):
    """A training through Slurm whose ranks are under way."""
    argv = ["salloc", "--quiet", "--nodelist=node[1-2]", *preflight("train", folder, "--launcher=srun")]
    run = cluster.lab.start(
        [*argv, *words], env=cluster.variables(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    end = time.monotonic() + 60
    while not any("rank.sh" in line for line in cluster.processes("node2")):
        assert time.monotonic() < end, "no rank was started"
        assert run.poll() is None, run.stdout.read()
        time.sleep(0.1)
    return run


def test_a_job_that_is_cancelled_says_so(cluster, tmp_path):
    """It is nobody's signal 15."""
    run = started(cluster, tmp_path / "run")
    cluster.check("scancel", "--state=RUNNING", "--partition=debug")
    said, _ = run.communicate(timeout=60)
    assert run.returncode == 3, said
    assert "Slurm cancelled the job" in json.dumps(messages(tmp_path / "run", "error"))
    cluster.wait_until_idle()


def test_a_node_that_dies_in_mid_run_is_named(cluster, tmp_path):
    """It loses its power: no packet says so, and Slurm waits longer than we do. The other node lost nothing."""
    run = started(cluster, tmp_path / "run")
    with cluster.crash("node2"):
        said, _ = run.communicate(timeout=100)
    assert run.returncode == 3, said
    told = messages(tmp_path / "run", "error")["training.every_rank_joined_where_planned"]["message"]
    assert re.search(r"node2: the connection ended in mid-run \((Slurm lost the node|it acknowledged nothing)", told), (
        told
    )
    assert "node1: " not in told


@pytest.fixture
def shared(cluster):
    """The examples in a folder that every node may write."""
    folder = cluster.lab.shared / "job"
    folder.mkdir(exist_ok=True)
    for path in EXAMPLES.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def submit(cluster, folder, *words):
    """Run the batch script to its end -> its exit code, and its output."""
    argv = ["sbatch", "--parsable", "--output=job.out", f"--chdir={folder}", *words, str(folder / "slurm.sbatch")]
    job = cluster.check(*argv).strip()
    end = time.monotonic() + 120
    while not (found := re.search(r"JobState=(?:COMPLETED|FAILED) .*?ExitCode=(\d+)", cluster.job(job))):
        assert time.monotonic() < end, cluster.job(job)
        time.sleep(0.2)
    return int(found[1]), (folder / "job.out").read_text()


def test_a_batch_script_starts_its_job_on_good_nodes_only(cluster, shared):
    """Its ranks run behind a green report; with a node that differs the job ends, and its name is in a file."""
    code, said = submit(cluster, shared, "--nodes=2")
    assert code == 0, said
    assert "rank 1 of 2" in said
    with faults.mtu(cluster.lab["node2"], 1400):
        code, said = submit(cluster, shared, "--nodes=3")
    assert (code, "rank 0 of" in said) == (1, False), said
    listed = [path.read_text().splitlines()[1:] for path in shared.glob("preflight-*/nodes-bad.txt")]
    assert sorted(listed) == [[], ["node2"]]


def test_the_prolog_drains_a_bad_node_and_slurm_requeues_the_job(cluster, shared):
    """On slurmctld, before the first task: a good job starts, a bad node is drained with the report as its reason."""
    cluster.set_prolog(shared / "prolog-slurmctld.sh", reports=shared / "reports")
    try:
        assert cluster.run(["salloc", "--quiet", "--nodes=3", "true"]).returncode == 0
        with faults.mtu(cluster.lab["node2"], 1400):
            cluster.check("sbatch", "--parsable", "--nodes=3", "--output=/dev/null", "--wrap=true")
            end = time.monotonic() + 60
            while "preflight: " not in cluster.state("node2"):
                assert time.monotonic() < end, cluster.log()
                time.sleep(0.3)
            time.sleep(1)
            queued = cluster.check("squeue", "--noheader", "--format=%T %r").split()[0]
    finally:
        cluster.set_prolog(None)
        cluster.check("scancel", "--partition=debug")
        cluster.run(["scontrol", "update", "nodename=node2", "state=resume"])
        cluster.wait_until_idle()
    assert queued == "PENDING"
