"""Ranks 0 to N-1, each once, each where the launcher reads it."""

from __future__ import annotations

from tests.launch.nodes import cluster
from tests.launch.samples import config, exports, failed, judged, pair, rules, torchrun


def test_right_pairs_are_silent():
    """Two files of ranks 0 and 1 that agree break no rule, in any format."""
    assert rules(pair(config)) == []
    assert rules(pair(torchrun)) == []
    assert failed(pair(exports)) == []


def test_two_files_of_one_rank_fail_on_both_lines():
    """The finding points at the rank in both files and names the free one."""
    (found,) = judged({"a0.yaml": config(0), "a1.yaml": config(0)})[:1]
    assert found.check == "launch.ranks_are_distinct"
    assert [(where.file, where.line) for where in found.where] == [("a0.yaml", 6), ("a1.yaml", 6)]
    assert found.fix == "a1.yaml:6: machine_rank: 1"
    assert "ranks_are_distinct" in failed({"a0.sh": torchrun(1), "a1.sh": torchrun(1)})
    assert "ranks_are_distinct" in failed({"a0.sh": exports(0), "a1.sh": exports(0)})


def test_a_missing_rank_fails_with_two_files_only():
    """Rank 2 of 3 stands nowhere; a single file is not judged for its siblings."""
    changes = {"num_machines": "3", "num_processes": "24"}
    assert failed(pair(config, **changes)) == ["every_node_has_its_file"]
    assert failed({"node0.yaml": config(0, **changes)}) == []


def test_a_rank_beyond_the_nodes_fails():
    """machine_rank 2 of 2 machines."""
    assert failed({"n.yaml": config(2)}) == ["rank_is_in_range"]
    assert failed({"n.sh": exports(2)}) == ["rank_is_in_range"]


def test_a_static_rendezvous_wants_node_ranks():
    """Without --node_rank both nodes are node 0; c10d hands ranks out."""
    without = torchrun().replace("--node_rank=0", "")
    assert failed({"n.sh": without}) == ["static_rendezvous_has_node_ranks"]
    c10d = without.replace("--master_addr=10.0.0.1", "--rdzv_backend=c10d --rdzv_endpoint=10.0.0.1:29500 --rdzv_id=1")
    assert rules({"n.sh": c10d}) == []


def test_rank_where_node_rank_is_read():
    """RANK in front of torchrun or llamafactory-cli is not read by them."""
    assert failed({"n.sh": "export RANK=1\n" + torchrun().replace("--node_rank=0", "")}) == [
        "rank_is_read_where_it_is_set"
    ]
    line = "FORCE_TORCHRUN=1 NNODES=2 RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 llamafactory-cli train x.yaml\n"
    assert failed({"n.sh": line}) == ["rank_is_read_where_it_is_set"]
    assert rules({"n.sh": line.replace("RANK=1", "NODE_RANK=1")}) == []


def test_a_local_rank_for_all_processes_of_a_node():
    """A loop that starts a process for each GPU counts LOCAL_RANK."""
    loop = (
        "export MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 WORLD_SIZE=2\nfor i in 0 1; do\nRANK=$i"
        " LOCAL_RANK={} python t.py &\ndone\n"
    )
    assert failed({"n.sh": loop.replace("{}", "0")}) == ["local_rank_is_not_fixed"]
    assert rules({"n.sh": loop.replace("{}", "$i")}) == []


def test_world_size_as_the_number_of_machines_is_told():
    """One process a node with LOCAL_RANK=0: a warning, for nodes may have one GPU."""
    (found,) = [found for found in judged(pair(exports)) if found.check.endswith("world_size_counts_processes")]
    assert str(found.verdict) == "warn"
    found = [found for found in judged(pair(exports), cluster(gpus=1)) if found.check.endswith("counts_processes")]
    assert found == []  # the nodes say that they have one GPU each: none stays idle


def test_ranks_handed_over_by_the_environment_are_left_alone():
    """NODE_RANK=${NODE_RANK:-0} in two files is no clash."""
    script = "NODE_RANK=${NODE_RANK:-0}\n" + torchrun().replace("--node_rank=0", "--node_rank=$NODE_RANK")
    assert rules({"a0.sh": script, "a1.sh": script}) == []


def test_one_loop_over_ssh_is_a_set():
    """`ssh node$i "torchrun --node_rank $i"` is right, the same rank for both is not."""
    line = "torchrun --nnodes 2 --node_rank {} --master_addr node0 --master_port 29500 t.py"
    loop = f'for i in 0 1; do ssh node$i "{line}" & done\n'
    assert rules({"n.sh": loop.replace("{}", "$i")}) == []
    assert failed({"n.sh": loop.replace("{}", "0")}) == ["ranks_are_distinct"]


def test_two_ranks_that_are_doubled_are_given_a_free_one_each():
    """0 and 1 twice each, of four: 2 for the one, 3 for the other."""
    texts = {f"n{place}.sh": torchrun(place % 2, nodes=4) for place in range(4)}
    fixes = [found.fix for found in judged(texts) if found.check == "launch.ranks_are_distinct"]
    assert ["--node_rank=2" in fixes[0], "--node_rank=3" in fixes[1]] == [True, True]


def accelerate(number, name=None, more=""):
    """A script of one node over the file of its number."""
    return f"accelerate launch --config_file {name or f'c{number}.yaml'} {more} train.py\n"


def test_two_scripts_over_one_file_are_one_rank():
    """Each of them is the machine_rank of the file: the other machine is waited for."""
    files = {"a_1.sh": accelerate(1, "c.yaml"), "a_2.sh": accelerate(2, "c.yaml"), "c.yaml": config()}
    (found,) = judged(files)
    assert found.message == "a_1.sh, a_2.sh name one file, c.yaml: each of them is machine_rank 0"
    ranks = {
        name: text.replace("train", f"--machine_rank {rank} train") for rank, (name, text) in enumerate(files.items())
    }
    assert failed({**ranks, "c.yaml": config()}) == []


def test_a_file_that_is_not_there_while_its_sibling_is_fails():
    """accelerate stops on that node; the others wait for it."""
    files = {"a_1.sh": accelerate(1), "a_2.sh": accelerate(2), "c1.yaml": config()}
    assert failed(files) == ["config_files_are_there"]
    assert failed({**files, "c2.yaml": config(1)}) == []


def test_ranks_that_a_rendezvous_hands_out_may_be_doubled():
    """`--rdzv_backend c10d` on the command line numbers the machines itself."""
    files = {f"a_{n}.sh": accelerate(n, more="--rdzv_backend c10d") for n in (1, 2)}
    assert failed({**files, "c1.yaml": config(), "c2.yaml": config()}) == []
    static = {name: text.replace("c10d", "static") for name, text in files.items()}
    assert failed({**static, "c1.yaml": config(), "c2.yaml": config()}) == ["ranks_are_distinct"]


BATCH = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1) MASTER_PORT=29500 WORLD_SIZE=$SLURM_NTASKS
srun bash -c {}
"""


def test_a_rank_is_worked_out_in_the_task():
    """Between double quotes the batch script fills it in, where it is 0; between single quotes each task does."""
    command = "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID python train.py"
    assert rules({"n.sh": BATCH.format(f"'{command}'")}) == []
    assert failed({"n.sh": BATCH.format(f'"{command}"')}) == ["local_rank_is_not_fixed"]
    assert failed({"n.sh": BATCH.format(f"'{command}'").replace("WORLD_SIZE=$SLURM_NTASKS", "WORLD_SIZE=2")}) == [
        "world_size_counts_processes"
    ]


def test_accelerate_takes_its_number_in_the_task_too():
    """machine_rank from the batch script, and one that is written down, are one number for all nodes."""
    command = (
        "accelerate launch --num_machines 2 --num_processes 16 --machine_rank $SLURM_NODEID --main_process_ip"
        " $MASTER_ADDR --main_process_port 29500 train.py"
    )
    text = BATCH.replace("--ntasks-per-node=8", "--ntasks-per-node=1").format(f"'{command}'")
    assert failed({"n.sh": text}) == []
    assert failed({"n.sh": text.replace("'", '"')}) == ["static_rendezvous_has_node_ranks"]
    (found,) = judged({"n.sh": text.replace("--machine_rank $SLURM_NODEID ", "")})
    assert found.fix.endswith("or --machine_rank $SLURM_NODEID inside `bash -c '...'`")
    assert failed({"n.sh": text.replace("$SLURM_NODEID", "0")}) == ["static_rendezvous_has_node_ranks"]
    step = 'srun -N1 -w "$node"'
    assert failed({"n.sh": text.replace("$SLURM_NODEID", "0").replace("srun", step)}) == []


def test_a_rank_of_one_node_names_the_number_of_nodes():
    """A number of nodes that was left at 1 is no wrong rank."""
    (found,) = [one for one in judged({"n.sh": torchrun(1, nodes=1)}) if one.check == "launch.rank_is_in_range"]
    assert found.fix == "2 nodes or more, in every file"
