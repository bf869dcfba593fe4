"""Does a run go through a real Slurm, are its failures told rightly, and do the examples work there as they stand?"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import faults, slurm
from tests.lab.fixtures import needs_lab
from tests.lab.lab import Lab
from tests.lab.reports import report_of

ALLOCATED = ("salloc", "--quiet", "--immediate=20")  # what waits longer has met what a test before it left
TELLS_ITS_SHARE = """
import os
if "WORLD_SIZE" in os.environ:
    names = ("RANK", "SLURM_CPUS_PER_TASK", "CUDA_VISIBLE_DEVICES", "PREFLIGHT_OWN_GPUS")
    share = [os.environ.get(name) for name in names]
    open('{log}', "a").write(" ".join(map(str, share)) + "\\n")
"""
SLURMD_LISTENS = ":6818"
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """Four nodes of a Slurm of their own; tests leave every node idle."""
    needs_lab(slurm.why_not())
    with Lab.create(4) as lab, slurm.SlurmLab(lab) as made:
        yield made


def preflight(verb, folder, *words):
    """The words of a run through Slurm that writes its report there."""
    return ["preflight", verb, "--hosts=slurm", f"--python={sys.executable}", f"--report-dir={folder}", *words]


def messages(folder, verdict):
    """What it said of each check of this verdict."""
    return {found["check"]: found for found in report_of(folder)["findings"] if found["verdict"] == verdict}


def test_facts_mesh_bench_and_training_pass_through_an_allocation(cluster, tmp_path):
    """Nodes in Slurm's order, ranks started by one step of srun; nothing is left on a node, and exit 0 is salloc's."""
    before = cluster.lab.residue()
    words = preflight("run", tmp_path / "run", "--launcher=srun")
    done = cluster.run([*ALLOCATED, "--nodelist=node[1-3]", *words])
    assert done.returncode == 0, done.stdout + done.stderr
    report = report_of(tmp_path / "run")
    assert list(report["nodes"]) == ["node1", "node2", "node3"]
    assert (report["mesh"]["ok"], report["mesh"]["edges"]) == (6, 6)
    assert [node["rack"] for node in report["nodes"].values()] == [f"switch leaf{number}" for number in (0, 0, 1)]
    measured = {result["op"] for result in report["bench"]["results"]}
    assert (report["bench"]["world_size"], report["bench"]["nodes"], measured) == (3, 3, {"all_reduce"})
    assert (report["training"]["launcher"], report["training"]["world_size"]) == ("srun", 3)
    assert cluster.lab.left_since(before) == {}


OWN = ("--ntasks-per-node=2", "--cpus-per-task=1", "--gpus-per-task=1")
OF_TORCHRUN = ("--ntasks-per-node=1", "--cpus-per-task=2", "--gpus-per-task=2")


@pytest.mark.parametrize(
    ("asked", "shares"),
    [
        (OWN, ["0 1 0 1", "1 1 1 1", "2 1 0 1", "3 1 1 1"]),
        (OF_TORCHRUN, [f"{rank} None 0,1 None" for rank in range(4)]),
    ],
    ids=["own", "of torchrun"],
)
def test_the_ranks_get_what_the_allocation_gives_a_task(cluster, tmp_path, asked, shares):
    """CPUs and a GPU of its own, as each task of the job; not where the job has one task on a node, for torchrun."""
    site, log = cluster.lab.shared / "site", cluster.lab.shared / "tasks"
    site.mkdir(exist_ok=True)
    log.write_text("")
    (site / "sitecustomize.py").write_text(TELLS_ITS_SHARE.format(log=log))
    more = ("--launcher=srun", "--ranks-per-node=2", "--backend=gloo", f"--env=PYTHONPATH={site}")
    words = preflight("train", tmp_path / "run", *more)
    done = cluster.run([*ALLOCATED, "--nodelist=node[1-2]", *asked, *words])
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(set(log.read_text().splitlines())) == shares


@pytest.mark.parametrize(
    "asked",
    [("--gpus=4",), ("--gpus-per-node=2",), ("--ntasks-per-node=2", "--gpus-per-task=1", "--cpus-per-task=1")],
    ids=["in all", "by node", "by task"],
)
def test_our_step_has_every_gpu_that_the_job_has_on_its_node(cluster, asked):
    """Also on one node of two, and not what one task of the job has: the facts are the node's."""
    words = ["preflight", "facts", "--hosts=slurm:node2", f"--python={sys.executable}", "--json"]
    done = cluster.run([*ALLOCATED, "--nodelist=node[1-2]", *asked, *words])
    assert done.returncode == 0, done.stderr
    variables = json.loads(done.stdout)["node2"]["subjects"]["environment"]["variables"]
    assert variables["CUDA_VISIBLE_DEVICES"]["value"] == "0,1"


def test_the_ranks_have_what_is_left_in_the_environment_for_srun(cluster, tmp_path):
    """No GPUs where the user wants a step without, and the prolog of its tasks; our own step copies no program."""
    log, prolog = cluster.lab.shared / "left", cluster.lab.shared / "prolog.sh"
    prolog.write_text(f'#!/bin/sh\necho "$SLURM_STEP_NUM_TASKS $CUDA_VISIBLE_DEVICES" >> {log}\n')
    prolog.chmod(0o755)
    left = {"SLURM_TASK_PROLOG": str(prolog), "SLURM_STEP_GRES": "none", "SLURM_BCAST": str(tmp_path / "copied")}
    words = preflight("train", tmp_path / "run", "--launcher=srun", "--ranks-per-node=2", "--backend=gloo")
    done = cluster.run([*ALLOCATED, "--nodelist=node[1-2]", "--ntasks-per-node=2", "--gres=gpu:2", *words], env=left)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in log.read_text().splitlines() if line.startswith("4")] == ["4 "] * 4
    assert list(tmp_path.glob("copied*")) == []


HOLDS_MEMORY = """
srun --nodes=2 --ntasks-per-node=1 --mem={all} sleep 60 &
until squeue --steps --noheader | grep -q sleep; do sleep 0.1; done
srun --overlap --mem={more} true 2>&1
srun --overlap --mem=0 true && echo the fix works
{preflight}; code=$?
kill $!; wait; exit $code
"""


def test_a_step_that_asks_for_memory_that_the_job_has_not_is_told_and_its_fix_works(cluster, tmp_path):
    """By a log of it; ours asks for none, and runs beside a step that holds all of it."""
    words = shlex.join(preflight("run", tmp_path / "run", "--profile=quick"))
    script = HOLDS_MEMORY.format(all=300, more=400, preflight=words)
    done = cluster.run([*ALLOCATED, "--nodelist=node[1-2]", "--mem=300", "bash", "-c", script])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the fix works" in done.stdout
    log = tmp_path / "job.log"
    log.write_text(done.stdout.partition("the fix works")[0])
    told = cluster.run(["preflight", "diagnose", str(log)])
    assert "cause: slurm-step-memory" in told.stdout, log.read_text() + told.stdout
    assert "srun --overlap --mem=0" in told.stdout


def test_a_heterogeneous_job_is_read_whole(cluster, tmp_path):
    """Nodes of both its components, each by a step of its own component."""
    words = preflight("run", tmp_path / "run", "--profile=quick")
    done = cluster.run(["salloc", "--quiet", "--nodes=1", ":", "--nodes=2", *words])
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(report_of(tmp_path / "run")["nodes"]) == 3
    cluster.wait_until_idle()
    by_srun = preflight("train", tmp_path / "train", "--launcher=srun")
    done = cluster.run(["salloc", "--quiet", "--nodes=1", ":", "--nodes=2", *by_srun])
    assert done.returncode == 3, done.stdout + done.stderr
    told = json.dumps(messages(tmp_path / "train", "error"))
    assert "no one step of a heterogeneous job has all its nodes; start the ranks with" in told
    cluster.wait_until_idle()


def test_a_shell_within_a_step_and_a_node_that_is_drained_meanwhile_change_nothing(cluster, tmp_path):
    """`srun --pty` has variables of its own step; slurmctld drains a node when its job has ended, not before."""
    report = cluster.lab.shared / "pty"  # nodes have a /tmp of their own
    words = preflight("run", report, "--profile=quick")
    done = cluster.run([*ALLOCATED, "--nodes=2", "srun", "--pty", "--nodes=1", "--ntasks=1", *words])
    assert (done.returncode, len(report_of(report)["nodes"])) == (0, 2), done.stdout + done.stderr
    drains = "scontrol update nodename=node2 state=drain reason=test"
    words = shlex.join(preflight("run", tmp_path / "drain", "--profile=quick"))
    try:
        done = cluster.run([*ALLOCATED, "--nodelist=node[1-2]", "sh", "-c", f"{drains}; exec {words}"])
    finally:
        cluster.check("scontrol", "update", "nodename=node2", "state=resume")
    assert (done.returncode, len(report_of(tmp_path / "drain")["nodes"])) == (0, 2), done.stdout + done.stderr
    cluster.wait_until_idle()


def test_the_tasks_of_a_step_find_each_other(cluster):
    """Nobody sets their ranks and their meeting place; every task leaves with the verdict, which is srun's."""
    report = cluster.lab.shared / "step"  # nodes have a /tmp of their own
    words = ["preflight", "run", "--hosts=torchrun", "--profile=quick", f"--report-dir={report}"]
    with faults.mtu(cluster.lab["node3"], 1400):
        argv = [*ALLOCATED, "--nodelist=node[2-4]", "srun", "--ntasks-per-node=1", *words]
        done = cluster.run(argv)
    assert done.returncode == 1, done.stdout + done.stderr
    assert list(report_of(report)["nodes"]) == ["node2", "node3", "node4"]
    assert messages(report, "fail")["network.mtu_is_the_same_on_every_node"]["nodes"] == ["node3"]
    assert done.stderr.count("exit code 1; rank 0 has the report") == 2


def test_a_limit_that_only_slurms_daemon_has_is_found(cluster, tmp_path):
    """A login has it not; what slurmd may not have, no task of its may: told by the step, with slurmd's fix."""
    settings = tmp_path / "preflight.toml"
    settings.write_text("[limits]\nmemlock_min_bytes = 8388608\n")
    with contextlib.ExitStack() as planted:
        for host in cluster.lab.hosts[:3]:
            planted.enter_context(faults.rdma_tree(host))
        for node, limit in (("node2", "--memlock=65536:65536"), ("node3", "--nofile=512:512")):
            planted.enter_context(cluster.limited(node, limit))
        words = preflight("run", tmp_path / "run", "--profile=quick", f"--settings={settings}", "--backend=nccl")
        done = cluster.run([*ALLOCATED, "--nodelist=node[1-3]", *words])
        words = preflight("run", tmp_path / "ssh", "--profile=quick", f"--settings={settings}", "--backend=nccl")
        login = cluster.run([*words[:2], "--hosts=node[1-3]", *words[3:]])
    found = {(one["check"], *one["nodes"]): one for one in limits(tmp_path / "run")}
    memlock = found.pop(("limits.memlock_is_enough_for_rdma", "node2"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert memlock["message"].startswith("memlock: 65536 bytes in this slurm session"), memlock
    assert "slurmd.service.d" in memlock["commands"][0]["now"]
    assert list(found) == [("limits.enough_files_may_be_open", "node3")]
    assert limits(tmp_path / "ssh") == [], login.stdout


def limits(folder):
    """What is wrong with the limits of a node."""
    found = report_of(folder)["findings"]
    return [one for one in found if one["check"].startswith("limits.") and one["verdict"] in ("fail", "warn", "error")]


def test_a_node_that_is_not_of_the_allocation_is_told(cluster, tmp_path):
    """As its own error, with what to do; the others are read."""
    words = preflight("run", tmp_path / "run", "--profile=quick")
    words[2] = "--hosts=slurm:node[1-3]"
    done = cluster.run([*ALLOCATED, "--nodelist=node[1-2]", *words])
    found = messages(tmp_path / "run", "error")["reach.every_node_answers"]
    assert (done.returncode, found["nodes"]) == (3, ["node3"]), done.stdout + done.stderr
    assert "the node is not in the allocation" in found["message"]
    assert found["fix"] == "name nodes of SLURM_JOB_NODELIST, then run again"


@pytest.mark.parametrize(
    ("before", "said", "fix"),
    [
        (["env", "SLURM_JOB_ID=999"], "the allocation is over (srun: Invalid job id)", "ask for a new one"),
        (["env", "SLURM_JOB_ID=999", "PATH={bin}"], "srun is not installed here", "where Slurm's commands are"),
    ],
    ids=["variables left in a shell", "no srun"],
)
def test_what_keeps_this_machine_from_every_node_is_laid_to_no_switch(cluster, tmp_path, before, said, fix):
    """Nobody is reached; what to do is what the cause asks for."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("env", "scontrol"):
        (programs / name).symlink_to(shutil.which(name))
    (programs / "preflight").symlink_to(Path(sys.executable).with_name("preflight"))
    before = [word.format(bin=programs) for word in before]
    words = preflight("run", tmp_path / "run", "--profile=quick")
    done = cluster.run([*before, "SLURM_JOB_NODELIST=node[1-2]", *words])
    found = messages(tmp_path / "run", "error")["reach.every_node_answers"]
    assert (done.returncode, found["nodes"]) == (3, ["node1", "node2"]), done.stdout + done.stderr
    assert found["message"].startswith(f"not reached: {said}")
    assert fix in found["fix"]


def test_nodes_are_asked_for_and_given_back(cluster, tmp_path):
    """By a partition and a number, with their GPUs; a partition that is none is an error, not a check that failed."""
    words = preflight("run", tmp_path / "run", "--profile=quick")
    words[2] = "--hosts=slurm:debug/2"
    done = cluster.run(words)
    assert (done.returncode, list(report_of(tmp_path / "run")["nodes"])) == (0, ["node1", "node2"]), done.stderr
    for path in (tmp_path / "run" / "facts").iterdir():
        variables = json.loads(path.read_text())["subjects"]["environment"]["variables"]
        assert variables["CUDA_VISIBLE_DEVICES"]["value"] == "0,1", path
    cluster.wait_until_idle()


def test_nodes_that_slurm_cannot_give_are_named_at_once(cluster, tmp_path):
    """With the state and the reason that an operator gave; so is a partition that is none."""
    said = []
    with cluster.drained("node2", "bad dimm"):
        for request in ("debug/4", "nowhere/2"):
            words = preflight("run", tmp_path / "run", "--profile=quick")
            done = cluster.run([*words[:2], f"--hosts=slurm:{request}", *words[3:]])
            said.append((done.returncode, done.stderr.strip()))
    assert said == [
        (3, "preflight: Slurm has no 4 nodes of debug: 3 of its 4 nodes are in service: node2 is drained (bad dimm)"),
        (3, "preflight: Slurm has no 2 nodes of nowhere: no partition nowhere is known here: `sinfo` lists them"),
    ]


def test_a_node_whose_slurmd_is_gone_is_told_and_the_others_are_judged(cluster, tmp_path):
    """Slurm believes in it still: its task never starts, and the step of the others goes on without it."""
    words = preflight("run", tmp_path / "run", "--profile=quick")
    with cluster.without_slurmd("node2"):
        done = cluster.run([*ALLOCATED, "--nodelist=node[1-3]", *words])
    found = messages(tmp_path / "run", "error")["reach.every_node_answers"]
    assert (done.returncode, found["nodes"]) == (3, ["node2"]), done.stdout + done.stderr
    assert "slurmd starts no task there" in found["message"]
    assert report_of(tmp_path / "run")["mesh"]["ok"] == 2


def started(cluster, folder, *words):
    """A training through Slurm whose ranks are under way."""
    argv = [*ALLOCATED, "--nodelist=node[1-2]", *preflight("train", folder, "--launcher=srun")]
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
    lost = [found["message"] for found in messages(tmp_path / "run", "error").values() if "mid-run" in found["message"]]
    assert lost
    assert [message for message in lost if "Slurm canceled the job" not in message] == []
    cluster.wait_until_idle()


def stop_ranks(host):
    """Hold what the scripts of ranks have started there, if anything."""
    listed = [line.split(maxsplit=2) for line in host.check(["ps", "-e", "-o", "pid=,ppid=,args="]).splitlines()]
    scripts = {pid for pid, _, words in listed if "rank.sh" in words}
    ranks = [pid for pid, parent, _ in listed if parent in scripts]
    return bool(ranks) and host.check(["kill", "-STOP", *ranks]) == ""


def test_a_time_limit_that_ends_the_job_says_so(cluster, tmp_path):
    """As the cause on every node, with what to ask for."""
    run = started(cluster, tmp_path / "run")
    eventually(lambda: stop_ranks(cluster.lab["node2"]), cluster)  # it would be done before Slurm looks at the time
    (number,) = cluster.check("squeue", "--noheader", "--format=%i").split()
    cluster.check("scontrol", "update", f"jobid={number}", "endtime=now")
    said, _ = run.communicate(timeout=60)
    assert run.returncode == 3, said
    assert "the allocation's time limit is over" in json.dumps(messages(tmp_path / "run", "error")), said
    cluster.wait_until_idle()


def test_a_node_that_dies_in_mid_run_is_named(cluster, tmp_path):
    """It loses its power: no packet says so, and Slurm waits longer than we do. The other node lost nothing."""
    run = started(cluster, tmp_path / "run")
    with cluster.crash("node2"):
        said, _ = run.communicate(timeout=100)
    assert run.returncode == 3, said
    told = messages(tmp_path / "run", "error")["training.every_rank_joined_where_planned"]["message"]
    ended = r"the connection ended in mid-run \((Slurm lost the node|it acknowledged nothing)"
    assert re.search(rf"node2: ({ended}|it has said nothing for \d+ s)", told), told
    assert "node1: " not in told


@pytest.mark.parametrize("which", ["slurmctld", "slurmd"])
def test_a_daemon_of_slurm_that_is_started_again_in_mid_run_changes_nothing(cluster, tmp_path, which):
    """Steps that run go on without it, the verdict is what it would have been, and nothing is left."""
    before = cluster.lab.residue()
    run = started(cluster, tmp_path / "run")
    if which == "slurmctld":
        cluster.restart_slurmctld()
    else:
        cluster.restart_slurmd("node2")
    said, _ = run.communicate(timeout=100)
    assert run.returncode == 0, said
    assert report_of(tmp_path / "run")["training"]["world_size"] == 2
    cluster.wait_until_idle()
    left = [line for lines in cluster.lab.left_since(before).values() for line in lines]
    assert [line for line in left if "slurmd -D" not in line and not line.endswith(SLURMD_LISTENS)] == []


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
    (run,) = (path.parent for path in shared.glob("preflight-*/nodes-bad.txt") if "node2" in path.read_text())
    chosen = cluster.check("preflight", "report", str(run), "--need=2", "--format=nodelist").strip()
    again, said = submit(cluster, shared, "--nodes=2", f"--nodelist={chosen}")
    assert (chosen, again) == ("node[1,3]", 0), said


def test_a_job_that_is_requeued_is_checked_anew(cluster, shared):
    """By its own number, in the folder that the run before left half done; its end is told by the later run."""
    argv = ["sbatch", "--parsable", "--output=job.out", f"--chdir={shared}", "--nodes=2", str(shared / "slurm.sbatch")]
    job = cluster.check(*argv).strip()
    report = shared / f"preflight-{job}" / "report.json"
    eventually(report.exists, cluster)
    cluster.check("scontrol", "requeue", job)
    eventually(lambda: "Reason=BeginTime" in cluster.job(job), cluster)
    cluster.wait_until_idle()
    # Not in two minutes, as it would; but later than the second in which the nodes revoked what the job held.
    cluster.check("scontrol", "update", f"jobid={job}", "starttime=now+2")
    eventually(lambda: re.search("JobState=(COMPLETED|FAILED)", cluster.job(job)), cluster)
    assert "JobState=COMPLETED" in cluster.job(job), (shared / "job.out").read_text()
    assert "Restarts=1" in cluster.job(job)
    assert (json.loads(report.read_text())["verdict"], "rank 1 of 2" in (shared / "job.out").read_text()) == (
        "pass",
        True,
    )


def eventually(condition, cluster):
    """Wait until it holds, for a minute and a half."""
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end, cluster.check("scontrol", "--oneliner", "show", "job") + cluster.log()
        time.sleep(0.2)


def test_the_prolog_drains_a_bad_node_and_slurm_requeues_the_job(cluster, shared):
    """On slurmctld, before the first task: a good job starts, a bad node is drained with the report as its reason."""
    cluster.set_prolog(shared / "prolog-slurmctld.sh", reports=shared / "reports")
    try:
        assert cluster.run([*ALLOCATED, "--nodes=3", "true"]).returncode == 0
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
