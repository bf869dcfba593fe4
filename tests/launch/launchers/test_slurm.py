"""Are #SBATCH lines and the options of srun read as Slurm reads them, and is the script that is written right?"""

from __future__ import annotations

import subprocess

import pytest

from preflight.launch.job import ALL_RANKS, Job, Placement
from preflight.launch.launchers import start_job
from preflight.launch.launchers.slurm import (
    SRUN,
    STEP,
    gpus_of_node,
    in_components,
    job_variables,
    read_directives,
    tasks_of_node,
    with_step,
)
from preflight.launch.read import read_texts
from preflight.launch.text.marks import Marks
from preflight.launch.write import write_files
from tests.launch.nodes import cluster
from tests.launch.plans import launch, values
from tests.launch.samples import SBATCH


def directives(*lines: str):
    return read_directives("#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in lines), "job.sbatch")


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("--nodes=2", {"nodes": "2"}),
        ("--nodes 2 --ntasks-per-node 4", {"nodes": "2", "ntasks_per_node": "4"}),
        ("-N2 -n 8 -t1:00", {"nodes": "2", "ntasks": "8", "time": "1:00"}),
        ("-N=2", {"nodes": "2"}),
        ("--job-name='my job' # a comment", {"job_name": "my job"}),
        ("--exclusive", {"exclusive": "true"}),
        ("--output='unfinished", {"output": "'unfinished"}),
    ],
)
def test_a_line_holds_options_in_any_spelling(line, options):
    """Letters with or without a blank, quotes and comments as in a shell."""
    assert {name: held.value for name, held in directives(line).options.items()} == options


def test_lines_behind_the_first_command_are_not_read():
    """sbatch stops there; of two lines of one option the later one counts."""
    text = "#!/bin/bash\n# why\n#SBATCH --nodes=2\n\n#SBATCH --nodes=3\nmodule load cuda\n#SBATCH --nodes=4\n"
    found = read_directives(text, "job.sbatch").options["nodes"]
    assert (found.value, found.file, found.line) == ("3", "job.sbatch", 5)
    assert read_directives("#!/bin/bash\n##SBATCH --nodes=2\nls\n", "job.sbatch") is None


@pytest.mark.parametrize(
    ("lines", "gpus"),
    [
        (["--gpus-per-node=8"], 8),
        (["--gpus-per-node=h100:4"], 4),
        (["--gres=gpu:8"], 8),
        (["--gres=gpu:h100:4"], 4),
        (["--gres=gpu"], 1),
        (["--gres=craynetwork:2,gpu:4(S:0-1)"], 4),
        (["--gres=shard:4"], None),
        (["--gpus=16"], None),
        ([], None),
    ],
)
def test_the_gpus_of_a_node_are_told_in_several_ways(lines, gpus):
    """A number for the whole job says nothing of one node."""
    assert getattr(gpus_of_node(directives("--nodes=2", *lines)), "value", None) == gpus


def test_slurms_variables_follow_from_the_lines():
    """Those of which nothing is said are not made up."""
    found = job_variables(directives("--nodes=2", "--ntasks-per-node=4", "--gres=gpu:8"))
    assert {name: held.text for name, held in found.items()} == {
        "SLURM_NNODES": "2",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NTASKS": "8",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_GPUS_ON_NODE": "8",
    }
    assert all(held.exported for held in found.values())
    asked = job_variables(directives("--gpus-per-node=8"))
    assert asked["SLURM_GPUS_PER_NODE"].text == "8"


@pytest.mark.parametrize(
    ("step", "nodes"),
    [("srun", 1), ("srun --het-group=0", 1), ("srun --het-group=1", 3), ("srun --het-group=0,1", 4)],
)
def test_a_step_of_a_heterogeneous_job_has_what_its_group_asks_for(step, nodes):
    """The first group where none is named, and the nodes of all that are named."""
    text = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=3\n"
    slurm = with_step(read_directives(text, "x.sh"), tuple(step.split()), Marks("x.sh"), 5)
    assert slurm.number("nodes").value == nodes


@pytest.mark.parametrize(
    ("lines", "step", "tasks"),
    [
        (["--ntasks-per-node=4"], "", 4),
        (["--tasks-per-node=4"], "", 4),
        (["--ntasks=8"], "", 4),
        (["--ntasks=7"], "", None),
        ([], "", None),
        (["--ntasks-per-node=4"], "--ntasks-per-node=1", 1),
        ([], "-n 2", 1),
    ],
)
def test_the_tasks_of_a_node_are_those_of_the_step(lines, step, tasks):
    """An option of srun wins over the script's; a number that does not divide leaves it open."""
    text = "".join(f"#SBATCH {line}\n" for line in ["--nodes=2", *lines]) + f"srun {step} torchrun --nnodes=2 t.py\n"
    (plan,) = read_texts({"job.sbatch": text}).plans
    assert getattr(tasks_of_node(plan), "value", None) == tasks


def test_a_script_that_is_not_slurms_has_no_tasks():
    """Nothing starts its command several times."""
    (plan,) = read_texts({"n.sh": "torchrun t.py\n"}).plans
    assert tasks_of_node(plan) is None


def test_a_batch_script_is_read_with_slurms_variables_filled_in():
    """What only the allocation tells stays as it is written."""
    found = values(launch(SBATCH, name="job.sbatch"))
    assert (found["nodes"], found["processes_per_node"], found["rendezvous_id"]) == (2, 8, "$SLURM_JOB_ID")
    assert found["master_address"].startswith("$(scontrol show hostnames")


def test_what_is_written_is_read_as_it_was_meant():
    """One script; a task a node starts torchrun, with the nodes' GPUs and no more CPUs than the smallest has."""
    texts = write_files("slurm", cluster(2), folder="/x", program=("train.py", "--name", "it's"))
    (text,) = texts.values()
    lines = {"--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=8", "--cpus-per-task=64"}
    assert lines == {line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")}
    found = values(launch(text, name="job.sbatch"))
    assert (found["nodes"], found["processes_per_node"], found["world_size"]) == (2, 8, 16)
    assert found["node_rank"] == "$SLURM_NODEID"
    assert "--gpus-per-node" not in write_files("slurm", cluster(2, gpus=0), folder="/x")["job.sbatch"]


def test_the_reference_job_is_one_step_that_the_first_node_starts():
    """A task for each rank, on the node that the hosts file says, line by line; the others hold what it runs."""
    spread = (Placement(0, "b", 0, 2), Placement(1, "b", 1, 2), Placement(2, "a", 0, 1))
    job = Job("train", {}, spread, "10.0.0.2", (), 60)
    started = start_job("srun", job, 29501)
    (first,), (second,) = started["b"], started["a"]
    assert (first["name"], second["argv"]) == (ALL_RANKS, [])
    assert first["argv"][3:] == ["srun", "--nodes=2", "--ntasks=3", "sh", "{shared:rank.sh}"]
    assert first["files"]["hosts"] == "b\nb\na\n"
    assert [process["environment"]["LOCAL_WORLD_SIZE"] for process in (first, second)] == ["2", "1"]
    assert "RANK=$SLURM_PROCID" in second["shared"]["rank.sh"]


def test_a_step_is_started_in_the_allocation_alone(tmp_path):
    """Options of the session's own step do not reach it; without a job it says so, and asks Slurm for nothing."""
    tool = tmp_path / "srun"
    tool.write_text('#!/bin/sh\necho "$*"; env | grep ^SLURM_ | sort\n')
    tool.chmod(0o700)
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOSTS": "h", "SLURM_NTASKS": "1", "SLURM_CPU_BIND": "quiet,none"}

    def step(**more):
        words = ["sh", "-c", STEP, "srun", "--ntasks=2", "sh", "rank.sh"]
        return subprocess.run(words, env={**variables, **more}, capture_output=True, text=True, check=False)

    inside, outside = step(SLURM_JOB_ID="17"), step()
    assert inside.stdout.splitlines() == [
        "--jobid=17 --overlap --label --kill-on-bad-exit=1 --distribution=arbitrary --ntasks=2 sh rank.sh",
        "SLURM_HOSTFILE=h",
        "SLURM_JOB_ID=17",
    ]
    assert (outside.returncode, "no SLURM_JOB_ID" in outside.stdout) == (1, True)
    share = {"PREFLIGHT_TASKS": "2", "PREFLIGHT_OF_A_TASK": "--cpus-per-task=4 -x *", "PREFLIGHT_OF_A_NODE": "-y"}
    as_many, others = (step(SLURM_JOB_ID="17", LOCAL_WORLD_SIZE=ranks, **share) for ranks in ("2", "8"))
    assert "arbitrary --cpus-per-task=4 -x * --ntasks=2 sh" in as_many.stdout
    assert "arbitrary -y --ntasks=2 sh" in others.stdout
    any_step = step(SLURM_JOB_ID="17", SLURM_HINT="of ours", PREFLIGHT_OF_A_STEP="SLURM_NETWORK=job_vni SLURM_EXACT=*")
    assert {"SLURM_NETWORK=job_vni", "SLURM_EXACT=*"} < set(any_step.stdout.splitlines())
    assert "SLURM_HINT" not in any_step.stdout


def test_the_rank_that_ended_first_is_told_by_its_number():
    """Between the labels of srun, which stops the others."""
    log = "0: step 3\n1: rank 1 ended with 137\nsrun: error: node2: task 1: Exited with exit code 137\n"
    (found,) = SRUN.blames.failed.finditer(log)
    assert (found["rank"], found["exit"]) == ("1", "137")
    assert SRUN.blames.line.match(" 12: text")["rank"] == "12"


def test_a_heterogeneous_job_has_no_step_of_all_ranks():
    """So it is refused before one is asked for, with what to do; srun would start nothing and blame the ranks."""
    assert "--launcher=torchrun" in in_components({"SLURM_HET_SIZE": "2"})
    assert in_components({"SLURM_JOB_ID": "17"}) == ""
