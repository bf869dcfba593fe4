"""Is a step of srun exactly what it should be, and are Slurm's words told as what is wrong with that node?"""

from __future__ import annotations

import pytest

from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport import LOADER, Reach
from preflight.reach.transport.slurm import Slurm
from preflight.said.errors import UsageError

INSIDE = {"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "gpu[007-009,12],login-a", "PATH": "/bin"}
SLURM = Slurm(INSIDE)


@pytest.mark.parametrize(
    ("rest", "pieces"),
    [
        ("", ["gpu[007-009,12]", "login-a"]),
        ("gpu[007-008]", ["gpu[007-008]"]),
        ("r[1-2]n[1,3],x", ["r[1-2]n[1,3]", "x"]),
    ],
)
def test_the_nodes_are_those_of_the_allocation_in_its_order(rest, pieces):
    """Folded as Slurm writes them; what stands after the colon is some of them."""
    assert [found.name for found in SLURM.named(rest)] == pieces


def test_a_folded_list_becomes_hosts(monkeypatch):
    """Each with the name that Slurm knows it by, padded as it is written."""
    for name, value in INSIDE.items():
        monkeypatch.setenv(name, value)
    hosts = parse_hosts("slurm")
    assert [host.name for host in hosts] == ["gpu007", "gpu008", "gpu009", "gpu12", "login-a"]
    assert {(host.transport, host.name == host.address) for host in hosts} == {("slurm", True)}


@pytest.mark.parametrize("nodes", ["a\x1b[1-2]", "a,b\x1b]0;x", "c\u202ed", "a b", ""])
def test_a_list_of_nodes_that_holds_no_names_is_refused(monkeypatch, nodes):
    """It is printed before anything is reached (--dry-run), and a terminal would obey what is in it."""
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_JOB_NODELIST", nodes)
    with pytest.raises(UsageError) as error:
        parse_hosts("slurm")
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("environment", "rest", "said"),
    [
        ({}, "", "start it under sbatch or salloc"),
        ({"SLURM_JOB_NODELIST": "a[1-2]"}, "", "no allocation"),  # left in a shell, without a job
        (INSIDE, "debug/4", "asks for an allocation"),
    ],
)
def test_without_an_allocation_it_says_what_to_do(environment, rest, said):
    """No step could be started, and srun would wait for an allocation of its own."""
    with pytest.raises(ValueError, match=said):
        Slurm(environment).named(rest)


def test_a_step_is_of_one_task_beside_the_others_and_free_of_the_jobs_own_options():
    """What sbatch or the user left for the job's srun (labels, GPUs of a task) would change ours."""
    words = SLURM.argv(Host("gpu007", "gpu007", transport="slurm"), Reach(python="/opt/py", wrap=("nice",)))
    start = words.index("srun")
    assert words[0] == "env"
    assert {"--unset=SLURM_LABELIO", "--unset=SLURM_GPUS_PER_TASK", "--unset=SRUN_CPUS_PER_TASK"} <= set(words[1:start])
    assert words[start:] == [
        "srun", "--nodes=1", "--ntasks=1", "--overlap", "--cpu-bind=none", "--mpi=none", "--kill-on-bad-exit=0",
        "--quiet", "--nodelist=gpu007", "--mem=0", "--jobid=17", "--", "nice",
        "/opt/py", "-I", "-S", "-B", "-c", LOADER,
    ]  # fmt: skip


CANCELLED = "slurmstepd-gpu7: error: *** STEP 1.0 ON gpu7 CANCELLED AT 2026-11-22T03:05:39"
ABORTED = (
    "srun: Job step aborted: Waiting up to 4 seconds for job step to finish.\nsrun: error: gpu7: task 0: Terminated\n"
)
LOST = "srun: error: Node failure on gpu7\n"


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        (f"{CANCELLED} DUE TO TIME LIMIT ***\n{ABORTED}", "time limit is over (srun: DUE TO TIME LIMIT); ask for"),
        (f"{CANCELLED} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n", "for it lost another node"),
        (f"{CANCELLED} DUE TO PREEMPTION ***\n", "another job took"),
        (f"{CANCELLED} ***\n{ABORTED}", "Slurm canceled the job"),
        (LOST, "Slurm lost the node (srun: Node failure on); `scontrol show node gpu7`"),
        (LOST.replace("gpu7", "gpu8"), "Slurm ended the allocation, for it lost gpu8"),
        (
            "srun: error: Unable to create step for job 3: Requested node configuration is not available\n",
            "not in the all",
        ),
        (
            "srun: error: Task launch for StepId=5.1 failed on node gpu7: Communication connection failure\n",
            "no task there",
        ),
        ("srun: error: Unable to contact slurm controller (connect failure)\n", "slurmctld does not answer"),
        ("srun: error: Unable to confirm allocation for job 99: Invalid job id specified\n", "the allocation is over"),
        ("srun: error: Slurm job 99 has expired\nsrun: Check SLURM_JOB_ID", "the allocation is over (srun: job 99 has"),
        (
            "srun: error: Unable to create step for job 7: Memory required by task is not available\n",
            "started again (srun: Memory required by task is not available); `scontrol show step` lists them",
        ),
        (
            "srun: error: Unable to create step for job 4: Invalid generic resource (gres) specification\n",
            "(srun: Invalid generic resource); ask for GPUs by node: sbatch",
        ),
        ("srun: error: Munge decode failed: Expired credential\n", "credentials are refused"),
        ("env: 'srun': No such file or directory\n", "srun is not installed here"),
        ("srun: error: something new\n", "something new"),
    ],
)
def test_what_srun_says_is_told_as_what_is_wrong_with_the_node(stderr, told):
    """With what to do; another node's failure is not held against it."""
    assert told in SLURM.explain("gpu7", 1, stderr)


def test_a_node_that_the_job_had_is_not_one_that_was_never_its_own():
    """slurmctld takes a lost node out of a job that goes on without it; the variables still name it."""
    said = "srun: error: Unable to create step for job 4: Requested node configuration is not available\n"
    job = Slurm({"SLURM_JOB_ID": "4", "SLURM_JOB_NODELIST": "gpu[7-8]"})
    assert job.explain("gpu7", 1, said) == (
        "Slurm took the node out of the allocation: it is down, or was (srun: node configuration is not available);"
        " `scontrol show node gpu7` shows why"
    )
    assert job.explain("gpu9", 1, said).startswith("the node is not in the allocation (srun: ")


@pytest.mark.parametrize(
    ("code", "stderr"),
    [
        (97, "srun: error: gpu7: task 0: Exited with exit code 97\n"),
        (
            2,
            "slurmstepd: error: execve(): /opt/py: No such file or directory\nsrun: error: gpu7: task 0: Exited\n",
        ),
        (1, "Traceback (most recent call last):\nKeyError: 1\n"),
    ],
)
def test_a_python_that_was_started_ends_with_its_own_code(code, stderr):
    """The node was reached; what its Python said is told by the session."""
    assert SLURM.explain("gpu7", code, stderr) == ""


@pytest.mark.parametrize(("stderr", "again"), [("srun: error: Socket timed out on recv", True), ("Invalid job", False)])
def test_only_what_passes_is_tried_again(stderr, again):
    """A controller under load answers a moment later."""
    assert SLURM.is_worth_a_retry(stderr) is again


HET = {
    "SLURM_JOB_ID": "7",
    "SLURM_HET_SIZE": "2",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "login1",
    "SLURM_JOB_NODELIST_HET_GROUP_1": "r[1-2]n[08-11],gpu7",
}


def test_the_nodes_of_a_heterogeneous_job_are_those_of_all_components():
    """Each is reached by a step of its own component; one step is never of two."""
    slurm = Slurm(HET)
    assert [found.name for found in slurm.named("")] == ["login1", "r[1-2]n[08-11]", "gpu7"]
    for node, group in (("login1", 0), ("r2n09", 1), ("gpu7", 1)):
        assert f"--het-group={group}" in slurm.argv(Host(node, node, transport="slurm"), Reach())
    for node in ("r3n09", "r2n9", "r2n12", "gpu8"):
        assert not any("het-group" in word for word in slurm.argv(Host(node, node, transport="slurm"), Reach()))
    hosts = [Host(node, node, transport="slurm") for node in ("login1", "r1n08", "gpu7")]
    assert slurm.gathering(hosts, Reach()) is None
    step = slurm.gathering(hosts[1:], Reach())
    assert step is not None
    assert "--het-group=1" in step.argv
