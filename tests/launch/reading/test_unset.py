"""Are variables that nothing sets told, and those that a launcher, scheduler or platform sets left alone?"""

from __future__ import annotations

import pytest

from preflight.launch.read import read_texts
from preflight.launch.rules.check import check_texts
from preflight.launch.seats import ranks_table

START = "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_id=a --rdzv_backend=c10d --rdzv_endpoint={} t.py\n"
STATIC = "torchrun --nnodes=4 --nproc_per_node=8 --node_rank={} --master_addr=10.0.0.1 t.py\n"
ACCELERATE = "accelerate launch --num_machines 4 --num_processes 32 --machine_rank {} --main_process_ip 10.0.0.1 t.py\n"


def told(text):
    """The messages about variables that nothing sets."""
    found = check_texts({"n.sh": text})[0]
    return [one.message for one in found if "is set nowhere" in one.message and str(one.verdict) in ("warn", "fail")]


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (START.format("$HOST_NODE_ADDR"), "HOST_NODE_ADDR", "localhost"),
        (START.format("$head_node_ip:29500"), "head_node_ip", "localhost"),
        (START.format("$DSTACK_MASTER_IP:29500"), "DSTACK_MASTER_IP", "localhost"),
        (START.format("${nodes_list[0]}:29500"), "nodes_list", "localhost"),
        (START.format("$SLURM_LEADER:29500"), "SLURM_LEADER", "localhost"),
        (START.format("10.77.0.1:$port"), "port", "no number"),
        ("set -u\n" + START.format("$HOST_NODE_ADDR"), "HOST_NODE_ADDR", "unbound variable"),
        ("set -euo pipefail\n" + START.format("$HOST_NODE_ADDR"), "HOST_NODE_ADDR", "unbound variable"),
        (STATIC.format("$THE_RANK"), "THE_RANK", "no number"),
        (STATIC.format("$SLURM_NODE_ID"), "SLURM_NODE_ID", "no number"),
        (ACCELERATE.format("${MACHINE_RANK}"), "MACHINE_RANK", "no number"),
        ("torchrun --nproc_per_node=8 t.py --config_path=$config\n", "config", "empty word"),
        ("# HOST_NODE_ADDR=node1 in the shell\n" + START.format("$HOST_NODE_ADDR"), "HOST_NODE_ADDR", "localhost"),
        ("source ~/venv/bin/activate\n" + START.format("$HOST_NODE_ADDR"), "HOST_NODE_ADDR", "localhost"),
    ],
)
def test_a_variable_that_nothing_sets_is_told_with_its_consequence(text, name, words):
    """And no ranks are made up for such a start."""
    (message,) = told(text)
    assert message.startswith(f"${name} ")
    assert words in message
    assert name == "config" or ranks_table(read_texts({"n.sh": text}).plans) == ()


@pytest.mark.parametrize(
    "text",
    [
        START.format("$MASTER_ADDR:$MASTER_PORT"),
        START.format("$SLURM_LAUNCH_NODE_IPADDR:29500"),
        START.format("$DSTACK_MASTER_NODE_IP:29500"),
        START.format("${HOST_NODE_ADDR:-node1:29500}"),
        START.format("$1"),
        "read -r HOST_NODE_ADDR < head\n" + START.format("$HOST_NODE_ADDR"),
        "for HOST_NODE_ADDR in a b; do\n" + START.format("$HOST_NODE_ADDR") + "done\n",
        ". ./cluster.env\n" + START.format("$HOST_NODE_ADDR"),
        "eval $(cluster-env)\n" + START.format("$HOST_NODE_ADDR"),
        STATIC.format("$SLURM_NODEID"),
        STATIC.format("$OMPI_COMM_WORLD_RANK"),
        STATIC.format("$NODE_RANK"),
        STATIC.format("$((SLURM_NODEID + 1))"),
        STATIC.format("$(cat rank)"),
        "torchrun --nproc_per_node=8 t.py --data=$DATA_DIR\n",
        "torchrun --nproc_per_node=8 --rdzv_endpoint=$HOST_NODE_ADDR t.py\n",
    ],
)
def test_what_something_sets_or_does_not_matter_is_left_alone(text):
    """A scheduler, an argument, another file, a default; and one node needs no address."""
    assert told(text) == []


def test_a_pod_that_asks_for_a_variable_of_no_operator_is_told():
    """LeaderWorkerSet calls it LWS_LEADER_ADDRESS."""
    text = """apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: a}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        containers:
        - name: a
          image: a
          command: [torchrun, --nnodes=2, --nproc_per_node=8, --node_rank=$(LWS_WORKER_INDEX), ADDR, t.py]
"""
    wrong, right = "--master_addr=$(LWS_LEADER_ADDR)", "--master_addr=$(LWS_LEADER_ADDRESS)"
    assert any("LWS_LEADER_ADDR " in message for message in told_of(text.replace("ADDR, t", f"{wrong}, t")))
    assert told_of(text.replace("ADDR, t", f"{right}, t")) == []


def told_of(text):
    """The same of a manifest."""
    return [one.message for one in check_texts({"a.yaml": text})[0] if "is set nowhere" in one.message]


def test_a_near_name_that_is_set_is_the_fix():
    """A misspelt name is a failure: the one that is meant stands in the script."""
    text = "nodes_array=($(scontrol show hostnames))\n" + START.format("${nodes_arry[0]}:29500")
    (found,) = [one for one in check_texts({"n.sh": text})[0] if "is set nowhere" in one.message]
    assert (str(found.verdict), found.fix) == ("fail", "$nodes_array")


def test_the_fix_makes_the_script_stop_where_nothing_sets_it():
    """With `:?` nobody starts it with an empty address, and it is told no more."""
    assert told(START.format("${HOST_NODE_ADDR:?}")) == []
