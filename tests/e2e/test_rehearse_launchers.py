"""Real hosts: each launcher's own start, rehearsed: do its ranks come to our hook, each at its place?"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest

from tests.e2e.test_rehearse import BOTH, NUMBER, REAL, Rehearsed, ranks_of, write
from tests.lab.lab import Lab

BIN = Path(sys.executable).parent
HEAD = f"#!/bin/bash\nset -e\ncd {{folder}}\nexport PATH={BIN}:$PATH\n"
YAML = """compute_environment: LOCAL_MACHINE
debug: true
distributed_type: MULTI_GPU
downcast_bf16: 'no'
machine_rank: {rank}
main_process_ip: node1
main_process_port: 29500
main_training_function: main
mixed_precision: 'no'
num_machines: {machines}
num_processes: {processes}
rdzv_backend: {backend}
same_network: true
use_cpu: false
"""
C10D = "torchrun --nnodes 2 --nproc_per_node=1 --rdzv_id 7 --rdzv_backend c10d --rdzv_endpoint node1:29500 train.py\n"
MODULE = (
    "python -m torch.distributed.run --nnodes 2 --nproc_per_node=1 --node_rank {n} --master_addr node1 -m trainer\n"
)


@pytest.fixture(scope="module")
def lab(lab_is_possible):
    """Two hosts that log in to each other and to themselves, as launchers over ssh need."""
    with Lab.create(2) as made:
        yield made


@pytest.fixture
def folder(lab, request):
    """A shared folder with a program that must never run."""
    made = lab.shared / request.node.name.replace("[", "-").replace("]", "")[:60]
    made.mkdir()
    (made / "train.py").write_text(REAL)
    (made / "trainer.py").write_text(REAL)
    return made


def goes(lab, folder, *words, ranks=BOTH):
    """The rehearsal ends well, with these ranks, and nothing is left."""
    before = lab.residue()
    rehearsed = Rehearsed(lab, folder, *words)
    assert (rehearsed.code, rehearsed.bad()) == (0, []), rehearsed
    assert sorted(ranks_of(rehearsed)) == sorted(ranks)
    assert lab.left_since(before, patience_s=5) == {}
    return rehearsed


@pytest.mark.parametrize("line", [C10D, MODULE], ids=["c10d", "module"])
def test_torchrun(lab, folder, line):
    """With a rendezvous of its own, and as a module that starts a module."""
    text = HEAD.format(folder=folder) + line.replace("{n}", NUMBER)
    rehearsed = Rehearsed(lab, folder, write(folder, text))
    assert (rehearsed.code, rehearsed.bad()) == (0, []), rehearsed
    assert sorted({rank[:1] for rank in ranks_of(rehearsed)}) == [(0,), (1,)]


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_accelerate_on_two_nodes(lab, folder, backend):
    """The user's own YAML, one for each node, and one script for each."""
    for rank in range(2):
        (folder / f"{rank}.yaml").write_text(YAML.format(rank=rank, machines=2, processes=2, backend=backend))
        write(folder, HEAD + f"accelerate launch --config_file {rank}.yaml train.py\n", f"run_{rank}.sh")
    rehearsed = goes_anyhow(lab, folder, "run_0.sh", "run_1.sh")
    assert {rank["world_size"] for rank in rehearsed.report["rehearsal"]["ranks"]} == {2}


def goes_anyhow(lab, folder, *words):
    """The same where the nodes agree among themselves on their ranks."""
    rehearsed = Rehearsed(lab, folder, *words)
    assert (rehearsed.code, rehearsed.bad()) == (0, []), rehearsed
    assert sorted(rank for rank, _, _ in ranks_of(rehearsed)) == [0, 1]
    assert {stage for _, _, stage in ranks_of(rehearsed)} == {"done"}
    return rehearsed


def test_accelerate_on_one_node(lab, folder):
    """Two ranks of one node."""
    (folder / "one.yaml").write_text(YAML.format(rank=0, machines=1, processes=2, backend="static"))
    text = HEAD + "accelerate launch --config_file one.yaml train.py\n"
    goes(lab, folder, write(folder, text), "--hosts=node1", ranks=[(0, "node1", "done"), (1, "node1", "done")])


def test_accelerate_that_starts_one_process_is_named(lab, folder):
    """Without a file it starts a single process on CPU, which trains alone."""
    write(folder, HEAD + "accelerate launch --cpu train.py\n")
    rehearsed = Rehearsed(lab, folder, "run.sh")
    assert rehearsed.code == 1, rehearsed
    ((check, verdict, nodes, message),) = rehearsed.bad()
    assert (check, verdict, nodes) == ("every_rank_comes_once", "fail", ("node1", "node2")), message
    assert "train.py on node[1-2] would train alone: accelerate started it as one process" in message
    assert "run.sh:5" in message


MPIRUN = f"mpirun --allow-run-as-root --hostfile hosts -np 2 {{exports}} {sys.executable} train.py\n"
needs_mpirun = pytest.mark.skipif(which("mpirun") is None, reason="needs Open MPI")


def by_mpirun(folder, exports, before="export MASTER_ADDR=node1 MASTER_PORT=29500\n"):
    """A script that mpirun starts on both nodes."""
    (folder / "hosts").write_text("node1 slots=1\nnode2 slots=1\n")
    return write(folder, HEAD.format(folder=folder) + before + MPIRUN.format(exports=exports))


@needs_mpirun
def test_mpirun(lab, folder):
    """It is started on the first node alone, numbers its ranks, and is asked to hand the hook on."""
    goes(lab, folder, by_mpirun(folder, "", before=""))


@needs_mpirun
def test_mpirun_that_hands_on_what_it_is_told_to(lab, folder):
    """Beside the user's own -x nothing else can be asked for: the hook must be among them."""
    goes(lab, folder, by_mpirun(folder, "-x MASTER_ADDR -x MASTER_PORT -x PYTHONPATH"))


@needs_mpirun
def test_mpirun_that_would_start_the_real_program_is_not_run(lab, folder):
    """The words to add are said, and it is not measured."""
    rehearsed = Rehearsed(lab, folder, by_mpirun(folder, "-x MASTER_ADDR"))
    assert rehearsed.code == 3, rehearsed
    assert {row[:3] for row in rehearsed.bad()} == {("every_rank_comes_once", "error", ("node1",))}
    assert "add -x PYTHONPATH at run.sh:6" in rehearsed.bad()[0][3]
    assert "the real program was run" not in repr(rehearsed)


@needs_mpirun
def test_a_variable_that_mpirun_does_not_hand_on(lab, folder):
    """It is there on the node of the script, and nowhere else."""
    rehearsed = Rehearsed(lab, folder, by_mpirun(folder, "-x PYTHONPATH -x MASTER_ADDR"))
    assert rehearsed.code == 1, rehearsed
    ((check, verdict, nodes, message),) = rehearsed.bad()
    assert (check, verdict, nodes) == ("every_rank_is_given_the_same", "fail", ("node2",))
    assert "MASTER_PORT is set on node1 and not on node2" in message


@pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs DeepSpeed")
@pytest.mark.parametrize("how", ["--launcher pdsh", f"--no_ssh --node_rank {NUMBER}"], ids=["pdsh", "no_ssh"])
def test_deepspeed(lab, folder, how):
    """Its runner logs in to every node of its hostfile, itself among them; or it is started on each node."""
    if "pdsh" in how and which("pdsh") is None:
        pytest.skip("needs pdsh")
    (folder / "hosts").write_text("node1 slots=1\nnode2 slots=1\n")
    text = HEAD + (f"export DS_ACCELERATOR=cpu\ndeepspeed {how} --hostfile hosts --master_addr node1 train.py\n")
    goes(lab, folder, write(folder, text))


def test_through_a_wrapper(lab, folder):
    """What enters a container stands before the whole: hook, script and ranks are inside."""
    text = HEAD + C10D
    wrap = "unshare --mount --propagation private"
    goes_anyhow(lab, folder, write(folder, text), f"--wrap={wrap}")


def test_a_script_for_each_node_with_its_number(lab, folder):
    """As people type it: `bash run.sh 0` on one node and `bash run.sh 1` on the other."""
    text = HEAD + "torchrun --nnodes=2 --nproc_per_node=1 --node_rank=$1 --master_addr=node1 train.py\n"
    write(folder, text)
    goes(lab, folder, "run.sh 0", "run.sh 1")
