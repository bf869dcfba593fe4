"""A real Slurm: is a batch script rehearsed as it would run, submitted or in an allocation?"""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import slurm
from tests.lab.fixtures import needs_lab
from tests.lab.lab import Lab

BIN = Path(sys.executable).parent
HEAD = f"""#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --partition={{partition}}
#SBATCH --output=never-%j.out
export PATH={BIN}:$PATH
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=29500
"""
BY_TORCHRUN = (
    HEAD
    + "srun torchrun --nnodes=2 --nproc_per_node=1 --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d"
    + " --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT train.py\n"
)
BY_SRUN = HEAD + "srun python prepare.py\nsrun python train.py --epochs 3\n"
NEARLY = 0.9  # of the time that a rehearsal takes: it is nearly over
BOTH = [(0, "node1", "done"), (1, "node2", "done")]


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """Two nodes of a Slurm of their own with two partitions."""
    needs_lab(slurm.why_not())
    with Lab.create(2) as lab, slurm.SlurmLab(lab) as made:
        made.check("scontrol", "create", "PartitionName=short", "Nodes=ALL", "State=UP", "MaxTime=60")
        yield made


@pytest.fixture
def folder(cluster, request):
    """A folder that all nodes share."""
    made = cluster.lab.shared / ("rehearse-" + re.sub("[^a-z0-9]+", "-", request.node.name)[:60])
    made.mkdir()
    (made / "train.py").write_text("raise SystemExit('the real program was run')\n")
    (made / "prepare.py").write_text("print('prepared')\n")
    return made


class Rehearsed:
    """One finished rehearsal through Slurm."""

    def __init__(self, cluster, folder, text, *before, partition="debug"):
        (folder / "train.sbatch").write_text(text.replace("{partition}", partition))
        report = folder / "report"
        words = ["preflight", "rehearse", "--hosts=slurm", f"--python={sys.executable}", "--deadline=120"]
        argv = [*before, *words, f"--report-dir={report}", "train.sbatch"]
        self.done = cluster.run(argv, cwd=folder, timeout_s=200)
        self.report = json.loads((report / "report.json").read_text()) if (report / "report.json").is_file() else {}
        self.logs = "".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in report.glob("logs/*"))

    @property
    def ranks(self):
        return [(rank["rank"], rank["node"], rank["stage"]) for rank in self.report["rehearsal"]["ranks"]]

    def bad(self):
        return [
            (f["check"].removeprefix("rehearse."), f["verdict"], tuple(f["nodes"]), f["message"])
            for f in self.report.get("findings", ())
            if f["verdict"] in ("fail", "warn", "error") and not f.get("blocked_by")
        ]

    def __repr__(self):
        return f"{self.done.returncode}\n{self.done.stdout}\n{self.done.stderr}\n{self.logs}"


def nothing_is_left(cluster, before):
    """No job, no step, no process and no file."""
    left = cluster.lab.left_since(before, patience_s=5)
    # A slurmd that the test before started again listens a little later.
    assert [line for lines in left.values() for line in lines if ":6818" not in line] == []
    end = time.monotonic() + 5.0
    while {*(states := cluster.check("squeue", "--noheader", "--format=%T").split())} - {"COMPLETING"}:
        assert time.monotonic() < end, states
        time.sleep(0.2)


@pytest.mark.parametrize("text", [BY_TORCHRUN, BY_SRUN], ids=["torchrun", "srun"])
def test_a_batch_script_is_submitted_with_its_own_lines(cluster, folder, text):
    """It waits in its own partition, runs in a batch shell, and its ranks come from the steps of srun."""
    before = cluster.lab.residue()
    rehearsed = Rehearsed(cluster, folder, text, partition="short")
    assert rehearsed.done.returncode == 0, rehearsed
    assert rehearsed.ranks == BOTH, rehearsed
    assert not list(folder.glob("never-*"))
    nothing_is_left(cluster, before)


def test_in_an_allocation_the_script_runs_there(cluster, folder):
    """Under salloc nothing is submitted."""
    before = cluster.lab.residue()
    salloc = ("salloc", "--quiet", "--nodes=2", "--ntasks-per-node=1", "--immediate=20")
    rehearsed = Rehearsed(cluster, folder, BY_TORCHRUN, *salloc)
    assert rehearsed.done.returncode == 0, rehearsed
    assert rehearsed.ranks == BOTH, rehearsed
    nothing_is_left(cluster, before)


def test_ranks_of_the_batch_shell_are_named(cluster, folder):
    """Without srun a program is started once, on the first node, with the number of a task of many."""
    rehearsed = Rehearsed(cluster, folder, HEAD + "python train.py\n")
    assert rehearsed.done.returncode == 1, rehearsed
    assert [row[:3] for row in rehearsed.bad()] == [("every_rank_comes_once", "fail", ("node1",))], rehearsed.bad()
    assert "batch shell" in rehearsed.bad()[0][3]


def test_a_variable_that_a_quoted_body_does_not_know(cluster, folder):
    """srun hands on what is exported, and the single quotes keep this shell from putting it in."""
    body = (
        "head=$MASTER_ADDR\nsrun bash -c 'torchrun --nnodes=2 --node_rank=$SLURM_NODEID --master_addr=$head train.py'\n"
    )
    rehearsed = Rehearsed(cluster, folder, HEAD + body)
    assert rehearsed.done.returncode == 1, rehearsed
    (found,) = rehearsed.bad()
    assert found[0] in ("every_script_comes_to_its_ranks", "all_ranks_meet_and_train", "every_rank_comes_once"), found
    assert "train.sbatch:" in found[3]


def test_a_limit_of_the_batch_shell_alone_is_named(cluster, folder):
    """slurmd's unit file has a limit that no login has."""
    with cluster.limited("node2", "--nofile=512:512"):
        rehearsed = Rehearsed(cluster, folder, BY_SRUN)
    assert rehearsed.bad(), rehearsed
    assert [row[:3] for row in rehearsed.bad()] == [("limits_hold_inside_the_job", "fail", ("node2",))]


def started(cluster, folder):
    (folder / "train.sbatch").write_text(BY_TORCHRUN.replace("{partition}", "debug"))
    words = ["preflight", "rehearse", "--hosts=slurm", f"--python={sys.executable}", "train.sbatch"]
    return cluster.lab.start(words, env=cluster.variables(), cwd=folder, stdout=subprocess.DEVNULL)


def seconds_of(cluster, folder):
    """What a rehearsal takes that nobody disturbs."""
    began = time.monotonic()
    assert started(cluster, folder).wait(120) == 0
    return time.monotonic() - began


def killed(cluster, folder, moment):
    """The controller is killed at that moment, and nothing is left -> its exit code, and the seconds until then."""
    before = cluster.lab.residue()
    controller = started(cluster, folder)
    time.sleep(moment)
    controller.kill()
    code = controller.wait(10)
    ended = time.monotonic()
    nothing_is_left(cluster, before)
    return code, time.monotonic() - ended


@pytest.mark.parametrize("moment", [2.0, 6.0, 12.0])
def test_a_killed_controller_leaves_no_job_and_no_step(cluster, folder, moment):
    """While the job waits, while its ranks come, while they train."""
    killed(cluster, folder, moment)


@pytest.mark.long
def test_at_forty_moments_no_job_and_no_step_is_left(cluster, folder):
    """Any moment may be the last one."""
    rng = random.Random(11)
    longest = NEARLY * min(seconds_of(cluster, folder) for _ in range(3))  # the first is slower than all that follow
    found = [killed(cluster, folder, rng.uniform(0.5, longest)) for _ in range(40)]
    count = sum(code == -signal.SIGKILL for code, _ in found)
    print(f"{count} killed, nothing left after {max(s for _, s in found):.1f} s at most", file=sys.stderr)
    assert count > 30  # the others had come to their end before
