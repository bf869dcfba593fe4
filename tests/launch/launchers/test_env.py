"""Are scripts that set RANK and MASTER_ADDR by hand read as torch reads their variables, and written so?"""

from __future__ import annotations

import os
import subprocess

import pytest

from preflight.launch.write import write_files
from tests.launch.nodes import cluster, cluster_of, node
from tests.launch.plans import launch, launches, values
from tests.launch.samples import exports
from tests.launch.test_job import FOUR, job, processes


def test_the_variables_of_a_rank_are_its_plan():
    """Wherever they are set before the program."""
    shared = "export MASTER_ADDR=n1 MASTER_PORT=29511 WORLD_SIZE=4 CUDA_VISIBLE_DEVICES=0,1\n"
    found = launch(f"{shared}RANK=1 LOCAL_RANK=1 python t.py\n")
    assert (found["launcher"], found["rank"]["line"]) == ("env", 2)
    assert values(found) == {
        "rank": 1,
        "world_size": 4,
        "local_rank": 1,
        "master_address": "n1",
        "master_port": 29511,
        "rendezvous": "env",
        "device_ids": "0,1",
        "program": "t.py",
    }


@pytest.mark.parametrize(
    ("words", "program"), [("-u t.py", "t.py"), ("-W ignore -X dev t.py", "t.py"), ("-u -m pkg.train --x", "pkg.train")]
)
def test_pythons_own_options_are_not_the_program(words, program):
    """Those with a value take the next word along."""
    assert values(launch(f"RANK=0 WORLD_SIZE=2 python {words}\n"))["program"] == program


@pytest.mark.parametrize("text", ["python t.py\n", "RANK=0 python -V\n", "RANK=0 python -\n", "RANK=0 python\n"])
def test_a_python_that_is_no_rank_is_no_start(text):
    """Nothing says that several belong together, or there is no program."""
    assert launches({"n.sh": text}) == []


def test_a_variable_that_is_not_exported_does_not_reach_the_rank():
    """torch does not see it: it is not in the plan."""
    text = exports(0).replace("export MASTER_PORT", "MASTER_PORT")
    assert "master_port" not in values(launch(text))


@pytest.mark.parametrize("wrapper", ["srun", "mpirun -np 2"])
def test_a_scheduler_hands_the_ranks_out(wrapper):
    """One command starts all of them, and numbers them by variables of its own."""
    found = launch(f"#!/bin/bash\n#SBATCH --nodes=2\n{wrapper} bash -c 'RANK=$SLURM_PROCID python t.py'\n")
    assert found["launcher"] == wrapper.split()[0]
    assert (values(found)["nodes"], values(found)["rank"]) == (2, "$SLURM_PROCID")


def test_what_is_written_starts_every_rank_with_its_variables(tmp_path):
    """The script is run: each process of the second node prints what torch would read."""
    (tmp_path / "python").write_text('#!/bin/sh\necho "$RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $1"\n')
    (tmp_path / "python").chmod(0o755)
    texts = write_files("env", cluster(2, gpus=2), folder="/x", program=("it's me.py",))
    done = subprocess.run(
        ["bash", "-c", texts["node2.sh"]],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(done.stdout.splitlines()) == [
        "2 0 4 10.0.0.1:29500 it's me.py",
        "3 1 4 10.0.0.1:29500 it's me.py",
    ]


def test_a_rank_that_fails_fails_the_script(tmp_path):
    """With its code, also where another rank of the node ends well."""
    (tmp_path / "python").write_text("#!/bin/sh\nexit $((LOCAL_RANK * 7))\n")
    (tmp_path / "python").chmod(0o755)
    text = write_files("env", cluster_of(node(0, gpus=2), node(1, gpus=2)), folder="/x")["node1.sh"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert subprocess.run(["bash", "-c", text], env={"PATH": path}, check=False).returncode == 7


def test_what_is_written_is_read_as_it_was_meant():
    """Ranks 0 to 3 over two nodes, each once."""
    found = [values(start) for start in launches(write_files("env", cluster(2, gpus=2), folder="/x"))]
    assert [(start["rank"], start["local_rank"]) for start in found] == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert {start["world_size"] for start in found} == {4}


def test_direct_sets_what_torch_reads():
    """One process a rank, with the env:// variables."""
    first, second = processes("direct", "node2")
    assert (first["name"], second["name"]) == ("rank2", "rank3")
    assert second["argv"] == ["{python}", "{script}"]
    variables = {name: value for name, value in second["environment"].items() if "PREFLIGHT" not in name}
    assert variables == {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29511",
        "OMP_NUM_THREADS": "1",
    }


def test_every_rank_of_the_job_is_one_process_of_its_own():
    """Numbered through over the nodes, and counted anew on each."""
    told = [process["environment"] for node in ("node1", "node2") for process in processes("direct", node)]
    assert [variables["RANK"] for variables in told] == ["0", "1", "2", "3"]
    assert [variables["LOCAL_RANK"] for variables in told] == ["0", "1", "0", "1"]
    assert {(variables["MASTER_ADDR"], variables["MASTER_PORT"]) for variables in told} == {("10.0.0.1", "29511")}
    assert {variables["WORLD_SIZE"] for variables in told} == {str(FOUR.world_size)}


@pytest.mark.parametrize(("node", "ranks"), [("node1", ["0", "1", "2"]), ("node2", ["3"])])
def test_nodes_may_start_different_numbers_of_ranks(node, ranks):
    """Nothing but the variables says how many there are."""
    uneven = job("node1", "node1", "node1", "node2")
    told = [process["environment"] for process in processes("direct", node, uneven)]
    assert [variables["RANK"] for variables in told] == ranks
    assert {variables["LOCAL_WORLD_SIZE"] for variables in told} == {str(len(ranks))}
