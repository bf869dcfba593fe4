"""Are servers over several nodes read and judged: `vllm serve`, SGLang's launch_server?"""

from __future__ import annotations

import pytest

from tests.launch.plans import launch, values
from tests.launch.samples import failed, rules

VLLM = "vllm serve m/M --tensor-parallel-size 8 --pipeline-parallel-size 2 --nnodes 2 --node-rank {rank}"
VLLM += " --master-addr {address}\n"
SGLANG = "python3 -m sglang.launch_server --model-path m/M --tp 16 --dist-init-addr 10.0.0.1:20000 --nnodes 2"
SGLANG += " --node-rank {rank}\n"


def test_the_shape_of_a_server_is_read():
    """Tensor x pipeline parallel processes, shared out to the nodes; the model stands where a program would."""
    found = values(launch(VLLM.format(rank=1, address="10.0.0.1")))
    assert (found["nodes"], found["node_rank"], found["world_size"], found["processes_per_node"]) == (2, 1, 16, 8)
    assert (found["program"], found["master_address"]) == ("m/M", "10.0.0.1")
    found = values(launch(SGLANG.format(rank=0)))
    assert (found["master_address"], found["master_port"], found["processes_per_node"]) == ("10.0.0.1", 20000, 8)


def test_letters_and_modules_are_the_same_options():
    """-tp 4, --tp=4, and the server started as a module."""
    for text in ("vllm serve m -tp 4 -pp 2\n", "python -m vllm.entrypoints.openai.api_server --model m -tp=4 -pp=2\n"):
        assert values(launch(text))["world_size"] == 8


@pytest.mark.parametrize("text", [VLLM, SGLANG])
def test_one_start_for_each_node_is_silent(text):
    """The guides' own commands."""
    assert rules({f"n{rank}.sh": text.format(rank=rank, address="10.0.0.1") for rank in (0, 1)}) == []


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        ({f"n{n}.sh": VLLM.format(rank=0, address="10.0.0.1") for n in (0, 1)}, "ranks_are_distinct"),
        ({"n.sh": "vllm serve m -tp 8 -pp 2 --nnodes 3 --node-rank 0 --master-addr a\n"}, "processes_divide_by_nodes"),
        ({"n.sh": "vllm serve m -tp 8 -pp 2 --nnodes 2 --master-addr a\n"}, "static_rendezvous_has_node_ranks"),
        ({"n.sh": "vllm serve m -tp 8 -pp 2 --nnodes 2 --node-rank 0\n"}, "master_address_is_given"),
        ({"n.sh": "python -m sglang.launch_server --tp 16 --nnodes 2 --node-rank 0\n"}, "master_address_is_given"),
        (
            {"n.sh": "CUDA_VISIBLE_DEVICES=0,1 vllm serve m -tp 4 --distributed-executor-backend mp\n"},
            "processes_match_devices",
        ),
        (
            {f"n{n}.sh": f"export VLLM_HOST_IP=10.0.0.1\n{VLLM.format(rank=n, address='10.0.0.1')}" for n in (0, 1)},
            "own_addresses_differ",
        ),
        (
            {"n.sh": "export VLLM_HOST_IP=127.0.0.1\nray start --address=10.0.0.1:6379\nvllm serve m -tp 16\n"},
            "own_addresses_differ",
        ),
    ],
)
def test_what_keeps_the_nodes_of_a_server_apart(files, rule):
    """Ranks, addresses, counts that do not divide, and a node's own address that is another's."""
    assert failed(files) == [rule]


def test_tensor_parallelism_over_the_network_is_a_warning():
    """It works, and every layer waits."""
    text = "vllm serve m -tp 16 --nnodes 2 --node-rank 0 --master-addr a\n"
    assert rules({"n.sh": text}) == ["tensor_parallel_stays_in_a_node"]


@pytest.mark.parametrize(
    ("size", "backend", "found"),
    [
        (16, "mp", ["processes_match_devices"]),
        (8, "mp", []),
        (16, "ray", []),
        (32, "ray", ["processes_match_devices"]),
    ],
)
def test_a_server_of_one_node_has_the_gpus_of_one_node(size, backend, found):
    """Ray brings in those of the other nodes, and multiprocessing starts processes where it stands."""
    head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n#SBATCH --ntasks-per-node=1\n"
    line = f"vllm serve m --tensor-parallel-size {size} --distributed-executor-backend {backend}\n"
    assert failed({"job.sh": head + line}) == found
