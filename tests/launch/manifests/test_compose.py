"""Are the services of a compose file read as containers that start a job?"""

from __future__ import annotations

import pytest

from tests.launch.plans import launch, values
from tests.launch.samples import failed, judged, rules

ONE = """services:
  trainer:
    image: pytorch/pytorch
    network_mode: host
    shm_size: 16gb
    ulimits:
      memlock: -1
    environment:
      NCCL_SOCKET_IFNAME: eth0
      NCCL_IB_HCA: mlx5
    command: torchrun --nnodes 2 --nproc_per_node 8 --node_rank 0 --master_addr 10.0.0.1 t.py
"""
TWO = """services:
  node0: &node
    image: pytorch/pytorch
    shm_size: 2gb
    environment:
      - MASTER_ADDR=node0
    command: [torchrun, --nnodes=2, --node_rank=0, --master_addr=node0, t.py]
  node1:
    image: pytorch/pytorch
    shm_size: 2gb
    command: [torchrun, --nnodes=2, --node_rank=1, --master_addr=node0, t.py]
"""


def test_a_service_is_a_start_with_its_variables():
    """Command and environment as text, list or mapping."""
    found = launch(ONE, name="compose.yaml")
    assert (found["launcher"], values(found)["nodes"], found["environment"]["NCCL_SOCKET_IFNAME"]) == (
        "torchrun",
        2,
        "eth0",
    )


def test_right_services_are_silent():
    """One container a host on the host's network, and two nodes of a test on one host behind the bridge."""
    assert rules({"compose.yaml": ONE}) == []
    assert rules({"compose.yaml": TWO}) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("    network_mode: host\n", "", "containers_share_the_network"),
        ("    shm_size: 16gb\n", "", "containers_have_shared_memory"),
        ("    ulimits:\n      memlock: -1\n", "", "containers_lock_memory"),
        ("NCCL_SOCKET_IFNAME: eth0", "NCCL_SOKET_IFNAME: eth0", "nccl_variables_are_known"),
        ("--nnodes 2 ", "--nnodes 1 --standalone ", ""),
    ],
)
def test_one_thing_missing_is_told(old, new, rule):
    """As for docker run, at the service."""
    assert old in ONE
    assert rules({"compose.yaml": ONE.replace(old, new)}) == ([rule] if rule else [])


def test_services_of_others_are_one_skip():
    """A database starts no job."""
    (found,) = judged({"docker-compose.yml": "services:\n  db:\n    image: postgres\n"})
    assert (str(found.verdict), "compose file" in found.message) == ("skip", True)


@pytest.mark.parametrize(
    ("rank", "rule"),
    [
        ("${NODE_RANK}", ""),
        ("$NODE_RANK", ""),
        ("${NODE_RANK:?set it}", ""),
        ("${NODE_RANK:-0}", ""),
        ("${NODE_RANK:-x}", "numbers_are_numbers"),
        ("${NODE_RANK-x}", "numbers_are_numbers"),
        ("x", "numbers_are_numbers"),
    ],
)
def test_what_compose_fills_in_is_not_known_here(rank, rule):
    """${NAME} comes from the shell that runs compose, or from .env."""
    text = ONE.replace("--node_rank 0", f"--node_rank {rank}").replace("NCCL_IB_HCA: mlx5", "NCCL_IB_HCA: ${HCA}")
    assert failed({"compose.yaml": text}) == ([rule] if rule else [])


STACK = """services:
  trainer:
    image: trainer
    command: torchrun --nnodes=4 --nproc_per_node=1 --rdzv_backend=c10d --rdzv_id=7 --rdzv_endpoint=t-1:29500 t.py
    networks: [ddp]
    deploy:
      mode: replicated
      replicas: 4
networks:
  ddp: {driver: overlay}
"""


def test_the_replicas_of_a_service_are_nodes_of_a_job():
    """As many as its command counts, and none is numbered by a command that all share."""
    assert rules({"stack.yaml": STACK}) == []
    assert failed({"stack.yaml": STACK.replace("replicas: 4", "replicas: 3")}) == ["nodes_are_counted_right"]
    static = STACK.replace(
        "--rdzv_backend=c10d --rdzv_id=7 --rdzv_endpoint=t-1:29500", "--node_rank=0 --master_addr=t-1"
    )
    assert "static_rendezvous_has_node_ranks" in failed({"stack.yaml": static})


def test_what_a_swarm_passes_over_is_told():
    """A stack has no host network and no shm_size; compose by itself has both."""
    stack = STACK.replace("    networks: [ddp]\n", "    networks: [ddp]\n    shm_size: 16gb\n")
    (found,) = judged({"stack.yaml": stack})
    assert (found.check, found.message) == (
        "launch.stack_options_count",
        "docker stack deploy ignores shm_size",
    )
    alone = stack.replace("      mode: replicated\n", "").replace("  ddp: {driver: overlay}", "  ddp: {}")
    assert rules({"stack.yaml": alone}) == []


def test_services_meet_at_one_of_them():
    """A name that no service has leads nowhere, unless the file names hosts beside them."""
    other = TWO.replace("--master_addr=node0", "--master_addr=nodeO").replace("MASTER_ADDR=node0", "MASTER_ADDR=nodeO")
    assert failed({"compose.yaml": other}) == ["services_find_rank_0"]
    named = other.replace("  node0: &node\n", "  node0: &node\n    container_name: nodeO\n")
    assert failed({"compose.yaml": named}) == []
