"""Four guides that beginners follow, on two real hosts: is each step told when it is wrong, and the right one let go?

The files are those of the guides, for two machines. One process asks again and again, and the hosts only where the step
is about them, so that a step costs a moment.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import pytest

from tests.lab.lab import Lab

ENV = """export RANK={rank}
export MASTER_ADDR={master}
export MASTER_PORT={port}
export WORLD_SIZE={world}
export LOCAL_RANK={local}
python train_pretrain.py --ddp --batch_size 48
"""
TORCHRUN = """head_node_ip={master}
config=configs/sana.yaml
output_dir=output
job_name=sana
torchrun --nnodes {nnodes} --nproc_per_node={each} --rdzv_id {id} --rdzv_backend {backend} --rdzv_endpoint {endpoint} \\
          tools/train.py \\
          --config_path=$config \\
          --work_dir=$output_dir/$job_name  \\
          --name=$job_name \\
          --resume_from=latest
"""
ACCELERATE = """compute_environment: LOCAL_MACHINE
debug: true
distributed_type: {kind}
downcast_bf16: 'no'
machine_rank: {rank}
main_process_ip: {master}
main_process_port: {port}
main_training_function: main
mixed_precision: 'no'
num_machines: {machines}
num_processes: {world}
rdzv_backend: c10d
same_network: false
use_cpu: false
"""
ACCELERATE_COMMAND = """export ACCELERATE_USE_CPU=true
accelerate launch --config_file launch/default_config_{file}.yaml \\
                 --main_process_ip {typed} \\
                 --main_process_port {port} \\
                 --machine_rank {rank} \\
                 --num_processes {world} \\
                 --num_machines {machines} \\
                 train.py
"""
DEEPSPEED = """compute_environment: LOCAL_MACHINE
debug: false
deepspeed_config:
{indent}deepspeed_multinode_launcher: standard
{indent}gradient_accumulation_steps: 1
{indent}offload_optimizer_device: cpu
{indent}zero_stage: 2
distributed_type: DEEPSPEED
machine_rank: {rank}
main_process_ip: '{master}'
main_process_port: {port}
mixed_precision: bf16
num_machines: {machines}
num_processes: {world}
rdzv_backend: static
same_network: false
use_cpu: false
"""
DEEPSPEED_COMMAND = """export NCCL_DEBUG=INFO PATH=/opt/env/bin:$PATH
export NCCL_SOCKET_IFNAME={interface}
export NCCL_IB_DISABLE={disable}
export NCCL_IB_GID_INDEX=3
accelerate launch --config_file launch/node_{file}.yaml examples/train.py \\
  --dataset_base_path {data} \\
  --output_path ./models
"""
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def held(host):
    """Another program has the port."""
    return host.hold_port(29500)


@contextlib.contextmanager
def filtered(host):
    """The packet filter drops the port, as a closed security group does."""
    host.check(["nft", "add table inet lab; add chain inet lab in { type filter hook input priority 0; }"])
    host.check(["nft", "add rule inet lab in tcp dport {29500, 12345} drop"])
    try:
        yield
    finally:
        host.check(["nft", "delete table inet lab"])


# What the guide's step says -> how it is got wrong (values of the files, a pair is one for each machine; or what is
# done to node1), and the rule that tells it.
GUIDES = {
    "env": (
        {"node_{number}.sh": ENV},
        {"rank": (0, 1), "port": 29500, "world": 2, "local": 0},
        {
            "RANK is each machine's own": ({"rank": (1, 1)}, "ranks_are_distinct"),
            "RANK begins with 0": ({"rank": (1, 2)}, "every_node_has_its_file"),
            "MASTER_ADDR is reached by all": ({"master": "10.77.0.99"}, "master_address_is_rank_0s"),
            "MASTER_ADDR is not the machine itself": ({"master": "127.0.0.1"}, "master_address_leads_to_rank_0"),
            "MASTER_ADDR is filled in": ({"master": "<主节点IP>"}, "master_address_is_an_address"),
            "MASTER_PORT is the same": ({"port": (29500, 29501)}, "fields_agree"),
            "the port is free": (held, "master_port_is_free"),
            "the firewall lets the port in": (filtered, "rank_0_is_reached"),
            "WORLD_SIZE is the same": ({"world": (2, 3)}, "fields_agree"),
        },
    ),
    "torchrun": (
        {"train_{number}.sh": TORCHRUN},
        {"nnodes": 2, "each": 1, "id": "sana-1", "backend": "c10d", "endpoint": "$head_node_ip:29500"},
        {
            "--nnodes is the number of machines": ({"nnodes": (2, 3)}, "nodes_are_the_hosts"),
            "--nproc_per_node is the same": ({"each": (1, 2)}, "processes_agree"),
            "--rdzv_id is one for all": ({"id": "$RANDOM"}, "rendezvous_id_is_the_same_everywhere"),
            "--rdzv_endpoint has the address of the main node": (
                {"endpoint": "$main_ip:29500"},
                "outside_variables_are_set",
            ),
            "--rdzv_endpoint is one for all": (
                {"endpoint": ("$head_node_ip:29500", "$head_node_ip:29501")},
                "fields_agree",
            ),
            "--rdzv_backend is c10d": ({"backend": ("c10d", "static")}, "static_rendezvous_has_node_ranks"),
            "the address is that of a machine": ({"master": "10.77.0.99"}, "master_address_is_rank_0s"),
            "the firewall lets the port in": (filtered, "rank_0_is_reached"),
        },
    ),
    "accelerate": (
        {"default_config_{number}.yaml": ACCELERATE, "start_{number}.sh": ACCELERATE_COMMAND},
        {
            "rank": (0, 1),
            "port": 29500,
            "kind": "MULTI_GPU",
            "machines": 2,
            "world": 2,
            "file": (1, 2),
            "typed": "{master}",
        },
        {
            "machine_rank is each machine's own": ({"rank": (0, 0)}, "ranks_are_distinct"),
            "each machine has its own file": ({"file": (1, 1)}, "ranks_are_distinct"),
            "main_process_ip is typed in": ({"typed": "${主节点IP}"}, "placeholders_are_filled_in"),
            "main_process_ip is that of a machine": (
                {"master": "10.77.0.99", "typed": "10.77.0.99"},
                "master_address_is_rank_0s",
            ),
            "main_process_port is the same": ({"port": (29500, 29501)}, "fields_agree"),
            "num_processes is that of all machines": ({"world": (2, 3)}, "num_processes_divides"),
            "num_machines is the same": ({"machines": (2, 3)}, "nodes_are_the_hosts"),
            "distributed_type is MULTI_GPU": ({"kind": ("MULTI_GPU", "NO")}, "fields_agree"),
            "the firewall lets the port in": (filtered, "rank_0_is_reached"),
        },
    ),
    "deepspeed": (
        {"node_{number}.yaml": DEEPSPEED, "train_{number}.sh": DEEPSPEED_COMMAND},
        {
            "rank": (0, 1),
            "port": 12345,
            "machines": 2,
            "world": 2,
            "indent": "  ",
            "interface": "eth0",
            "disable": 0,
            "file": (1, 2),
            "data": "./data",
        },
        {
            "machine_rank is each machine's own": ({"rank": (0, 0)}, "ranks_are_distinct"),
            "each machine has its own file": ({"file": (1, 1)}, "ranks_are_distinct"),
            "the address is filled in": ({"master": "10.233.xx.xx"}, "master_address_is_an_address"),
            "main_process_port is the same": ({"port": (12345, 12346)}, "fields_agree"),
            "num_machines is the number of machines": ({"machines": 4}, "nodes_are_the_hosts"),
            "num_processes is machines by GPUs": ({"world": 3}, "num_processes_divides"),
            "the lines below deepspeed_config are indented": ({"indent": ""}, "keys_are_indented"),
            "NCCL_SOCKET_IFNAME is an interface": ({"interface": "eth9"}, "variables_fit_the_nodes"),
            "the variables of NCCL agree": ({"disable": (0, 1)}, "exports_agree"),
            "git lfs pull was run": ({"data": "./pointers"}, "data_is_no_lfs_pointer"),
            "nc -zv reaches the port": (filtered, "rank_0_is_reached"),
        },
    ),
}


# Told by files and nodes together; all other rules find the files at fault by themselves.
OF_NODES = {
    "master_address_is_rank_0s",
    "master_port_is_free",
    "nodes_are_the_hosts",
    "rank_0_is_reached",
    "variables_fit_the_nodes",
}
HOSTS = ("--hosts=node[1-2]", f"--python={sys.executable}")


class Asked:
    """`launch check` of a guide's files, again and again in one process of the controller."""

    def __init__(self, lab):
        self.lab = lab
        self.process = lab.start(
            [sys.executable, "-m", "tests.e2e.asking"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __call__(self, folder, patterns, values, *words):
        """The exit code, and each finding that is no pass, by its rule."""
        (folder / "launch").mkdir(parents=True)
        for place, text in {"data": "a clip", "pointers": POINTER}.items():
            (folder / place).mkdir()
            (folder / place / "clip.mp4").write_text(text)
        given = {"master": self.lab["node1"].address, **values}
        for index in range(2):
            own = {name: value[index] if isinstance(value, tuple) else value for name, value in given.items()}
            own = {name: str(value).replace("{master}", str(own["master"])) for name, value in own.items()}
            for pattern, text in patterns.items():
                filled = text.format(number=index + 1, **own)
                (folder / "launch" / pattern.format(number=index + 1)).write_text(filled)
        self.process.stdin.write(" ".join([str(folder), *words]) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        findings = json.loads((folder / "found.json").read_text())["findings"]
        return code, {f["check"].removeprefix("launch."): f for f in findings if f["verdict"] != "pass"}


@pytest.fixture(scope="module")
def ask(lab_is_possible):
    """Two hosts for the four guides, and who asks there."""
    with Lab.create(2) as lab:
        yield Asked(lab)


# Where the job may run all the same: machines with other numbers of GPUs, an address that the user's own shell exports.
MAY_RUN = {"--nproc_per_node is the same", "--rdzv_endpoint has the address of the main node"}


@pytest.mark.parametrize("guide", GUIDES)
def test_each_step_of_a_guide_is_told_when_it_is_wrong_and_not_when_it_is_right(ask, tmp_path, guide):
    """By its rule, with what to do; the same files, put right, have nothing that keeps the job from starting."""
    patterns, right, steps = GUIDES[guide]
    untold = {}
    for place, (step, (wrong, rule)) in enumerate(steps.items()):
        is_of_files = isinstance(wrong, dict)
        hosts = HOSTS if rule in OF_NODES else ()
        with contextlib.nullcontext() if is_of_files else wrong(ask.lab["node1"]):
            code, found = ask(
                tmp_path / f"wrong{place}", patterns, {**right, **wrong} if is_of_files else right, *hosts
            )
        if code != int(step not in MAY_RUN) or rule not in found or not found[rule]["fix"]:
            untold[step] = (code, {name: (f["message"], f["fix"]) for name, f in found.items()})
    code, found = ask(tmp_path / "right", patterns, right, *HOSTS)
    assert untold == {}
    assert (code, [rule for rule, f in found.items() if f["verdict"] in ("fail", "error")]) == (0, [])
