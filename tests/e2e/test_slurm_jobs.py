"""Are the less usual jobs of a real Slurm told rightly: arrays, nodes lost before the step, a shell without a step?"""

from __future__ import annotations

import contextlib
import shlex
import sys
import time

import pytest

from tests.lab import slurm
from tests.lab.fixtures import needs_lab
from tests.lab.lab import Lab
from tests.lab.reports import reach

END_SECONDS = 90


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """Three nodes of a Slurm of their own; tests leave every node idle."""
    needs_lab(slurm.why_not())
    with Lab.create(3) as lab, slurm.SlurmLab(lab) as made:
        yield made


def preflight(folder, *words):
    """The words of a short run through Slurm that writes its report there."""
    argv = ["preflight", "run", "--hosts=slurm", "--profile=quick", f"--python={sys.executable}"]
    return [*argv, f"--report-dir={folder}", *words]


@contextlib.contextmanager
def comes_back(cluster, node):
    """A node that the block loses is in service again behind it."""
    try:
        yield
    finally:
        cluster.run(["scontrol", "update", f"nodename={node}", "state=resume"])  # refused where it is back by itself
        cluster.wait_until_idle()


def lost_before_the_step(cluster, folder, *options):
    """The run of an allocation of two nodes of which slurmctld loses the second one first."""
    loses = "scontrol update nodename=node2 state=down reason=test"
    script = f"{loses}; {shlex.join(preflight(folder))}; echo exit code $?"  # salloc's own code is another matter
    with comes_back(cluster, "node2"):
        argv = ["salloc", "--quiet", "--immediate=20", *options, "--nodelist=node[1-2]", "sh", "-c", script]
        return cluster.run(argv, timeout_s=END_SECONDS)


@pytest.mark.long
def test_an_allocation_that_ended_with_a_lost_node_is_told_as_over(cluster, tmp_path):
    """slurmctld ends the job on all nodes before our step begins; nobody's login is to blame."""
    done = lost_before_the_step(cluster, tmp_path / "run")
    assert "exit code 3\n" in done.stdout, done.stdout + done.stderr
    found = reach(tmp_path / "run")
    assert list(found) == ["node1", "node2"]
    for verdict, message, fix in found.values():
        assert (verdict, fix) == ("error", "ask for a new one, then run again"), message
        assert message.startswith("not reached: the allocation is over (srun: "), message


@pytest.mark.long
def test_a_node_that_slurm_takes_out_of_the_job_is_told_and_the_others_are_read(cluster, tmp_path):
    """A job that may lose nodes goes on, and its variables still name the lost one."""
    done = lost_before_the_step(cluster, tmp_path / "run", "--no-kill")
    assert "exit code 3\n" in done.stdout, done.stdout + done.stderr
    found = reach(tmp_path / "run")
    assert found["node1"][0] == "pass"
    verdict, message, fix = found["node2"]
    assert (verdict, fix) == ("error", "`scontrol show node node2` shows why, then run again")
    assert message.startswith("not reached: Slurm took the node out of the allocation: it is down, or was (srun: ")


def test_tasks_of_an_array_check_the_same_node_at_the_same_time(cluster):
    """Each has a report of its own; one may find the node held by the other and says so: it is no stranger."""
    folder = cluster.lab.shared / "array"
    folder.mkdir()
    before = cluster.lab.residue()
    words = shlex.join(preflight(f"{folder}/TASK")).replace("TASK", '"$SLURM_ARRAY_TASK_ID"')
    asked = ["--array=0-1", "--nodelist=node1", "--ntasks=1", "--cpus-per-task=1", "--mem=300"]
    cluster.check("sbatch", *asked, f"--output={folder}/%a.out", f"--wrap={words}")
    end = time.monotonic() + END_SECONDS
    while cluster.check("squeue", "--noheader").strip():
        assert time.monotonic() < end, cluster.log()
        time.sleep(0.2)
    said = [(folder / f"{task}.out").read_text() for task in range(2)]
    codes = [0 if "exit code 0" in text else 3 if "busy: run " in text else -1 for text in said]
    assert sorted(codes) in ([0, 0], [0, 3]), said
    assert [list(reach(folder / str(task))) for task in range(2)] == [["node1"], ["node1"]]
    assert cluster.lab.left_since(before) == {}


def test_the_shell_of_an_allocation_is_no_rank(cluster):
    """Nobody would meet there: one line says what would start the ranks."""
    words = ["preflight", "run", "--hosts=torchrun", "--profile=quick"]
    done = cluster.run(["salloc", "--quiet", "--immediate=20", "--nodes=2", *words])
    cluster.wait_until_idle()
    assert done.returncode == 4
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("salloc")]
    assert line.startswith(
        "preflight: --hosts: 'torchrun': no job around it: start `preflight run --hosts=torchrun` by"
    )
    assert "by srun" in line
