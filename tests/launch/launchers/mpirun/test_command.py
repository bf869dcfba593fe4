"""Is a command behind mpirun read as one start for all nodes, and started?"""

from __future__ import annotations

import pytest

from preflight.launch.field import value_of
from preflight.launch.job import ALL_RANKS
from preflight.launch.launchers import start_job
from preflight.launch.launchers.mpirun.command import MPIRUN
from preflight.launch.read import read_texts
from preflight.launch.start import starting_of
from tests.launch.plans import launch
from tests.launch.samples import failed, rules
from tests.launch.test_job import job

MEET = "export MASTER_ADDR=a MASTER_PORT=29500\n"
OF_A_RANK = "RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE python t.py"


@pytest.mark.parametrize("program", ["mpirun", "mpiexec", "/usr/lib/openmpi/bin/mpirun"])
def test_a_python_behind_it_is_a_start_of_all_nodes(program):
    """With the variables of the job around it."""
    text = f"export MASTER_ADDR=n1 MASTER_PORT=29500\n{program} -np 4 python t.py\n"
    assert launch(text)["launcher"] == "mpirun"


def test_a_launcher_behind_it_is_not_started_here():
    """Its agents would be started by mpirun, one a node."""
    text = "export MASTER_ADDR=n1 MASTER_PORT=29500\nmpirun -np 2 torchrun --nnodes 2 t.py\n"
    found = starting_of(read_texts({"n.sh": text}))
    assert (found.starts, found.refusal) == ((), "n.sh:2: mpirun starts it")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("mpirun -np 4 -x RANK=$OMPI_COMM_WORLD_RANK python t.py", "local_rank_is_not_fixed"),
        ("export RANK=0\nmpirun -np 4 -x RANK python t.py", "local_rank_is_not_fixed"),
        ("mpirun -np 16 -H a:4,b:4 python t.py", "mpi_slots_are_enough"),
        ("mpirun -np 8 -H a:8,b:8 python t.py", "mpi_slots_are_enough"),
        ("mpirun -np 16 -H a:8,b:4 python t.py", "mpi_slots_are_enough"),
        (
            f"{MEET}mpirun -np 16 -H a:8,b:8 -x MASTER_PORT bash -c '{OF_A_RANK}'",
            "mpi_hands_variables_on",
        ),
        ("export NCCL_SOCKET_IFNAME=eth1\nmpirun -np 2 -H a:1,b:1 python t.py", "mpi_hands_variables_on"),
        (
            "mpirun -np 16 -N 8 torchrun --nnodes 2 --node_rank $R --master_addr a --nproc_per_node 8 t.py",
            "tasks_are_counted_once",
        ),
    ],
)
def test_what_mpirun_does_otherwise_than_meant(text, rule):
    """Ranks that are all alike, slots that are too few or left empty, variables that stay behind, agents twice."""
    assert rules({"n.sh": text + "\n"}) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        (
            "export MASTER_ADDR=a MASTER_PORT=29500\nmpirun -np 16 -H a:8,b:8 -x MASTER_ADDR -x MASTER_PORT"
            " bash -c 'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE python t.py'"
        ),
        "export NCCL_DEBUG=INFO\nmpirun -np 2 -H a:1,b:1 -x NCCL_DEBUG python t.py",
        "export NCCL_DEBUG=INFO\nmpiexec -n 2 -hosts a,b -ppn 1 python t.py",
        "mpirun -np 2 -N 1 -H a,b torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint a:29500 --rdzv_id 1 t.py",
        "mpirun -np 8 --oversubscribe -H a:4 python t.py",
        "mpirun -np 12 -H a:8,b:4 python t.py",
        f"mpirun -np 16 -H a:8,b:8 bash -c '{MEET.strip()}; bash -c \"{OF_A_RANK}\"'",
        (
            "mpirun -np 16 -H a:8,b:8 bash -c 'export MASTER_ADDR=a MASTER_PORT=29500;"
            " RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE python t.py'"
        ),
    ],
)
def test_right_commands_are_silent(text):
    """As the guides of Open MPI, MPICH and Horovod show them."""
    assert rules({"n.sh": text + "\n"}) == []


def test_a_hostfile_of_mpi_is_none_of_deepspeeds():
    """Without slots, or with a colon: Open MPI and Hydra read both, and DeepSpeed is not asked."""
    for hosts in ("a\nb\n", "a:8\nb:8\n", "a slots=8 max-slots=8\nb slots=8\n"):
        assert rules({"n.sh": "mpirun -np 16 -ppn 8 -f hosts python t.py\n", "hosts": hosts}) == []


def test_the_reference_job_is_started_by_one_command():
    """On the first node; every node holds a file at the same path that gives a rank its number and its variables."""
    made = job("a", "a", "b", "b")
    started = start_job("mpirun", made, 29501)
    first, second = started["a"][0], started["b"][0]
    assert first["name"] == ALL_RANKS
    assert first["environment"]["HOSTS"] == "a:2,b:2"
    assert (second["argv"], second["shared"]) == ([], first["shared"])
    assert "OMPI_COMM_WORLD_RANK" in second["shared"]["rank.sh"]
    assert second["environment"]["MASTER_PORT"] == "29501"


def test_it_blames_the_rank_that_mpirun_names():
    """Open MPI's last words, and the mark before each line."""
    said = "  Process name: [[58477,1],2]\n  Exit code:    1\n"
    (found,) = MPIRUN.blames.failed.finditer(said)
    assert (found["rank"], found["exit"]) == ("2", "1")
    assert [MPIRUN.blames.line.match(line)["rank"] for line in ("[1,3]<stdout>:x", "[3] x")] == ["3", "3"]


def test_a_list_of_hosts_for_a_loop_is_no_hostfile():
    """Only what reads hostfiles has a say in how they are written."""
    start = "torchrun --nnodes=2 --node_rank=$N --master_addr=10.0.0.1 t.py"
    loop = f'N=0\nwhile read -r host; do\n  ssh -n $host "{start}" &\n'
    texts = {"hosts.txt": "10.0.0.1\n10.0.0.2\n", "go.sh": f"{loop}  N=$((N + 1))\ndone < hosts.txt\nwait\n"}
    assert "hostfile_lines_are_read" not in rules(texts)
    assert "hostfile_lines_are_read" in rules(
        {"hosts.txt": texts["hosts.txt"], "go.sh": "deepspeed --num_gpus 8 t.py\n"}
    )


def test_a_script_of_each_process_is_read_as_mpirun_starts_it():
    """With mpirun's nodes and variables around it."""
    start = f"{MEET}mpirun -np 16 -H a:8,b:8 -x MASTER_ADDR -x MASTER_PORT bash node.sh\n"
    node = "export WORLD_SIZE=$OMPI_COMM_WORLD_SIZE RANK=$OMPI_COMM_WORLD_RANK\npython t.py\n"
    assert rules({"run.sh": start, "node.sh": node}) == []
    node = node.replace("=$OMPI_COMM_WORLD_RANK", "=$OMPI_COMM_WORLD_LOCAL_RANK")
    assert rules({"run.sh": start, "node.sh": node}) == ["ranks_are_distinct"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("-np 2 -H a:1,b:1", []),
        ("-np 16 -H a:8,b:8", ["tasks_are_counted_once"]),
        ("-np 16 -N 8 -H a:8,b:8", ["tasks_are_counted_once"]),
        ("-np $N -H a:8,b:8", []),
    ],
)
def test_another_launcher_is_started_once_on_a_node(options, found):
    """Where no option counts those of a node, they are shared out over the nodes that it waits for."""
    agent = "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_id=7 --rdzv_endpoint=a:29500 fit.py"
    assert failed({"run.sh": f"mpirun {options} {agent}\n"}) == found


@pytest.mark.parametrize(
    ("words", "nodes", "each", "world"),
    [
        ("-n 4 -a 3 -r 2", 2, 6, 12),
        ("-n4 -a3 -r2", 2, 6, 12),
        ("--nrs=4 --tasks_per_rs=3 --rs_per_host=2", 2, 6, 12),
        ("--nrs 4 --tasks_per_rs 3 --rs_per_host 2", 2, 6, 12),
        ("-n 4 -r 2", 2, 2, 4),
        ("-n 5 -r 2", None, 2, 5),
        ("-n 4 -n 9", None, None, 4),
        ("-a 3", None, None, None),
    ],
)
def test_jsrun_starts_resource_sets(words, nodes, each, world):
    """So many sets of so many tasks, some of them on each host; the nodes are known where that comes out even."""
    inner = "RANK=$OMPI_COMM_WORLD_RANK MASTER_ADDR=n1 MASTER_PORT=29500 python train.py"
    (plan,) = read_texts({"run.lsf": f"#!/bin/bash\njsrun {words} bash -c '{inner}'\n"}).plans
    assert [value_of(one) for one in (plan.nodes, plan.processes_per_node, plan.world_size)] == [nodes, each, world]
