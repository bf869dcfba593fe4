"""The user's files start another program in place of theirs, or say why they do not."""

from __future__ import annotations

import pytest

from preflight.launch.read import read_texts
from preflight.launch.start import starting_of
from preflight.said.errors import UsageError
from tests.launch.samples import FORMATS, config, mutated
from tests.shares import shares

EXPORTS = "export MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 WORLD_SIZE=4\n"


def test_accelerate_files_go_to_accelerate_as_they_are():
    """One start a machine by machine_rank; what the command overrides stays in the command."""
    files = {
        "b.yaml": config(1),
        "a.yaml": config(0),
        **{
            f"{name}.sh": f"export NCCL_DEBUG=INFO\naccelerate launch --config_file {name}.yaml --mixed_precision bf16"
            " --main_process_port 12345 train.py\n"
            for name in "ba"
        },
    }
    found = starting_of(read_texts(files))
    assert found.launcher == "accelerate"
    assert [start.config for start in found.starts] == [files["a.yaml"], files["b.yaml"]]
    assert [start.options for start in found.starts] == [("--mixed_precision=bf16",)] * 2
    assert found.starts[0].has_node_rank
    assert found.starts[0].environment == {"NCCL_DEBUG": "INFO"}
    assert not found.numbers_freely


def test_a_template_is_one_start_for_every_node():
    """Its node rank comes from outside: ours fills it in."""
    found = starting_of(
        read_texts({"a.sh": "torchrun --nnodes 2 --node_rank $1 --nproc_per_node 8 --master_addr n1 t.py\n"})
    )
    (start,) = found.starts
    assert (start.processes, start.address, start.has_node_rank) == (8, "n1", False)
    assert found.of(0) is found.of(1) is start


def test_a_c10d_rendezvous_numbers_its_nodes_as_it_likes():
    """The id and the timeouts are the file's; the port is ours."""
    command = (
        "torchrun --nnodes 2 --rdzv_id j1 --rdzv_backend c10d --rdzv_endpoint n1:29500 --rdzv_conf join_timeout=9 t"
    )
    found = starting_of(read_texts({"a.sh": f"{command}\n"}))
    assert found.numbers_freely
    assert (found.starts[0].rendezvous_id, found.starts[0].options) == ("j1", ("--rdzv-conf=join_timeout=9",))


def test_ranks_by_hand_are_the_ranks_that_the_files_set():
    """A loop over local ranks is a start of several; the file of rank 0 is the first node's."""
    loop = "for i in 0 1; do\n  RANK=$(({first} + i)) LOCAL_RANK=$i python train.py &\ndone\n"
    texts = {f"n{first}.sh": EXPORTS + loop.format(first=first) for first in (2, 0)}
    found = starting_of(read_texts(texts))
    assert found.launcher == "env"
    assert [start.ranks for start in found.starts] == [(0, 1), (2, 3)]
    assert found.starts[0].world_size == 4
    assert "RANK" not in found.starts[0].environment


def test_a_hostfile_tells_how_many_each_node_starts():
    """Of uneven slots too."""
    texts = {"hostfile": "n1 slots=4\nn2 slots=2\n", "run.sh": "deepspeed --hostfile=hostfile train.py\n"}
    assert [start.processes for start in starting_of(read_texts(texts)).starts] == [4, 2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun --nnodes 2 t.py\n", "srun starts it"),
        ("#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks=2\nsrun python t.py\n", "srun starts it"),
        ("accelerate launch --cpu --num_processes 2 t.py\n", "a world of one"),
        ("torchrun --nnodes 2 --rdzv_backend etcd-v2 --rdzv_endpoint e:2379 t.py\n", "a server of its own"),
    ],
)
def test_what_cannot_be_started_here_says_why(text, why):
    """With its place; never a start that is another than the user's."""
    found = starting_of(read_texts({"a.sh": text}))
    assert found.starts == ()
    assert why in found.refusal
    assert found.refusal.startswith("a.sh:")


def test_files_that_start_nothing_leave_the_launcher_alone():
    """Only variables: they are the job's, whichever way it starts."""
    assert starting_of(read_texts({"env.sh": "export NCCL_DEBUG=INFO\n"})) == starting_of(read_texts({}))


@pytest.mark.parametrize("share", shares(6))
@pytest.mark.parametrize("name", FORMATS)
def test_broken_files_start_nothing_strange(name, share):
    """Whatever could be read of a damaged file: a start or a refusal, never a traceback."""
    file, text = FORMATS[name]
    for seed in share.of(range(200)):
        try:
            files = read_texts({file: mutated(text, seed)})
        except UsageError:
            continue
        found = starting_of(files)
        assert not (found.starts and found.refusal)


@pytest.mark.parametrize(("words", "nodes"), [("", 1), ("--nnodes 2", 2), ("--nnodes 1:4", 0), ("--nnodes $N", 0)])
def test_the_number_of_nodes_is_the_files(words, nodes):
    """torchrun counts on one by itself; a range and what only a run tells leave it open."""
    assert starting_of(read_texts({"a.sh": f"torchrun {words} --nproc_per_node 2 t.py\n"})).nodes == nodes


BRANCHES = 'if [ "$1" = head ]; then\n  RANK=0 python t.py\nelse\n  RANK=1 python t.py\nfi\n'
SSH = 'for i in 0 1; do\n  ssh n$i "RANK=$i MASTER_ADDR=n0 MASTER_PORT=29500 WORLD_SIZE=2 python t.py" &\ndone\n'


@pytest.mark.parametrize("text", [EXPORTS + BRANCHES, SSH])
def test_a_script_for_several_nodes_is_a_start_for_each(text):
    """A branch for the head and one for the others; a loop over hosts."""
    assert [start.ranks for start in starting_of(read_texts({"a.sh": text})).starts] == [(0,), (1,)]


def test_the_ranks_of_one_node_are_no_template():
    """A file that says RANK=0 is the first node's alone."""
    assert starting_of(read_texts({"a.sh": EXPORTS + "RANK=0 python t.py\n"})).nodes == 1
    assert starting_of(read_texts({"a.sh": EXPORTS + "RANK=$1 python t.py\n"})).nodes == 0


def test_a_start_of_deepspeed_needs_gpus():
    """The first of those that do is named."""
    need = config(1, distributed_type="DEEPSPEED") + "deepspeed_config:\n  zero_stage: 2\n"
    assert starting_of(read_texts({"a.yaml": config(0), "b.yaml": config(1)})).needs_gpus == ""
    assert starting_of(read_texts({"b.yaml": need})).needs_gpus == "b.yaml:1"
