"""Two real hosts: files as guides show them are judged, and start the reference job in place of their program."""

from __future__ import annotations

import json
import sys

import pytest

from tests.e2e import thresholds

# One YAML a machine, the command over it, and what tells accelerate that these machines have no GPU.
ACCELERATE = """compute_environment: LOCAL_MACHINE
debug: true
distributed_type: MULTI_GPU
downcast_bf16: 'no'
machine_rank: {rank}
main_process_ip: {master}
main_process_port: 29500
main_training_function: main
mixed_precision: 'no'
num_machines: 2
num_processes: 2
rdzv_backend: c10d
same_network: false
use_cpu: false
"""
ACCELERATE_COMMAND = """export ACCELERATE_USE_CPU=true
accelerate launch --config_file default_config_{number}.yaml \\
                 --main_process_ip {master} \\
                 --main_process_port 29500 \\
                 --machine_rank {rank} \\
                 --num_processes 2 \\
                 --num_machines 2 \\
                 train.py
"""
TORCHRUN = """head_node_ip={master}
job_name=sana
torchrun --nnodes 2 --nproc_per_node=1 --rdzv_id {id} --rdzv_backend c10d --rdzv_endpoint $head_node_ip:29500 \\
          tools/train.py \\
          --config_path=$config \\
          --work_dir=output/$job_name  \\
          --name=$job_name \\
          --resume_from=latest
"""
ENV = """export RANK={rank}
export MASTER_ADDR={master}
export MASTER_PORT=29500
export WORLD_SIZE=2
export LOCAL_RANK=0
python train_pretrain.py --ddp --batch_size 48
"""
DEEPSPEED = """compute_environment: LOCAL_MACHINE
debug: false
deepspeed_config:
  deepspeed_multinode_launcher: standard
  gradient_accumulation_steps: 1
  offload_optimizer_device: cpu
  zero_stage: 2
distributed_type: DEEPSPEED
machine_rank: {rank}
main_process_ip: '{master}'
main_process_port: 12345
mixed_precision: bf16
num_machines: 2
num_processes: {world}
rdzv_backend: static
same_network: false
use_cpu: false
"""
DEEPSPEED_COMMAND = """export NCCL_DEBUG=INFO PATH=/opt/env/bin:$PATH
export NCCL_SOCKET_IFNAME=eth0
export NCCL_IB_DISABLE=0
export NCCL_IB_GID_INDEX=3
accelerate launch --config_file node_{number}.yaml examples/train.py \\
  --dataset_base_path {data} \\
  --output_path ./models
"""
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.fixture(scope="module")
def lab2(lab_is_possible):
    """Two hosts for all tests of this file."""
    from tests.lab.lab import Lab

    with Lab.create(2) as lab:
        yield lab


class Trained:
    """One finished `preflight train --launch` against the lab, from the folder of the files."""

    def __init__(self, lab, folder, hosts="node[1-2]"):
        argv = [sys.executable, "-m", "preflight", "train", f"--hosts={hosts}", f"--python={sys.executable}"]
        words = ["--report-dir=report", "--launch=launch/*", thresholds.for_busy_machine(folder / "report")]
        done = lab.run([*argv, *words], timeout_s=200, cwd=folder)
        self.output = done.stdout + done.stderr
        self.code = done.returncode
        self.report = json.loads((folder / "report" / "report.json").read_text())
        self.training = self.report["training"]
        self.logs = {path.name: path.read_text() for path in (folder / "report" / "logs").iterdir()}

    def of(self, verdict):
        return [finding for finding in self.report["findings"] if finding["verdict"] == verdict]

    def failed(self):
        """Every fail as its rule and the lines that it points at."""
        return {f["check"]: [(w["file"], w["line"]) for w in f["where"]] for f in self.of("fail")}


@pytest.fixture
def files(lab2, tmp_path):
    """Writes the files of both nodes from patterns by name; a pair of values is one for each node."""

    def write(patterns, **values):
        (tmp_path / "launch").mkdir(exist_ok=True)
        for index in range(2):
            own = {name: value[index] if isinstance(value, tuple) else value for name, value in values.items()}
            for name, text in patterns.items():
                filled = text.format(master=lab2["node1"].address, number=index + 1, **own)
                (tmp_path / "launch" / name.format(number=index + 1)).write_text(filled)
        return tmp_path

    return write


# the guide's files -> (what is wrong in one place, the rule that says so, the line), and the right value
GUIDES = {
    "accelerate": (
        {"default_config_{number}.yaml": ACCELERATE, "start_{number}.sh": ACCELERATE_COMMAND},
        {"rank": (0, 0)},
        {"rank": (0, 1)},
        "launch.ranks_are_distinct",
        ("launch/start_1.sh", 5),
    ),
    "torchrun": (
        {"train_{number}.sh": TORCHRUN},
        {"id": "$RANDOM"},
        {"id": "sana-1"},
        "launch.rendezvous_id_is_the_same_everywhere",
        ("launch/train_1.sh", 3),
    ),
    "env": (
        {"node_{number}.sh": ENV},
        {"rank": (1, 1)},
        {"rank": (0, 1)},
        "launch.ranks_are_distinct",
        ("launch/node_1.sh", 1),
    ),
}


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_with_one_mistake_is_told_by_its_line(lab2, files, guide):
    """Exit 1, the only fail has the file and line, and the job that could not have worked is not tried."""
    patterns, broken, _, rule, place = GUIDES[guide]
    run = Trained(lab2, files(patterns, **broken))

    assert run.code == 1, run.output
    assert list(run.failed()) == [rule], run.output
    assert place in run.failed()[rule]
    assert run.training is None
    assert all(rule in f["message"] for f in run.of("error")), run.output


@pytest.mark.parametrize("guide", GUIDES)
def test_a_right_guide_starts_the_reference_job(lab2, files, guide):
    """Real agents from the user's own files, a rank on each host, exit 0, and nothing left.

    Whatever the order of --hosts: the files number the nodes, or the names do, as a c10d rendezvous sorts them.
    """
    patterns, _, right, _, _ = GUIDES[guide]
    before = lab2.residue()
    run = Trained(lab2, files(patterns, **right), hosts="node2,node1" if guide == "torchrun" else "node[1-2]")

    assert run.code == 0, run.output
    assert run.training["launcher"] == guide
    assert [(rank["rank"], rank["node"]) for rank in run.training["ranks"]] == [(0, "node1"), (1, "node2")]
    assert {"training-rank0-node1.log", "training-rank1-node2.log"} <= set(run.logs)
    assert run.training["losses"][-1] < 0.8 * run.training["losses"][0]
    assert lab2["node1"].address in run.logs["training-launch-node2.log"]
    assert "launch.world_size_counts_processes" not in {f["check"] for f in run.of("warn")}  # no GPU stays idle here
    assert lab2.left_since(before) == {}


def test_a_deepspeed_guide_is_judged_and_not_started_on_the_cpu(lab2, files):
    """One mistake is told by its line; the right files end with 0 and say that the job was not started, and why."""
    patterns = {"node_{number}.yaml": DEEPSPEED, "train_{number}.sh": DEEPSPEED_COMMAND}
    right = {"rank": (0, 1), "world": 2, "data": "data/set"}
    folder = files(patterns, **{**right, "world": 3})
    broken = Trained(lab2, folder)
    assert broken.code == 1, broken.output
    assert broken.failed() == {
        "launch.num_processes_divides": [(f"launch/node_{n}.yaml", line) for n in (1, 2) for line in (14, 13)]
    }

    run = Trained(lab2, files(patterns, **right))
    skipped = {f["check"]: f["message"] for f in run.of("skip")}
    assert run.code == 0, run.output
    assert run.training is None
    why = skipped["training.every_rank_joined_where_planned"]
    assert why.startswith("the reference job was not started: launch/train_1.sh:5: without GPUs accelerate's DeepSpeed")
    assert run.report["plan"]["reference_job"] == why

    (folder / "data" / "set").mkdir(parents=True)
    (folder / "data" / "set" / "clip.mp4").write_text(POINTER)
    pointers = Trained(lab2, folder)
    assert pointers.failed() == {"launch.data_is_no_lfs_pointer": [("launch/train_1.sh", 6), ("launch/train_2.sh", 6)]}


PROGRAM = """import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor(dist.get_rank())
dist.all_reduce(total)
print(f"sum of {dist.get_world_size()} ranks: {total.item()}", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("launcher", ["accelerate", "torchrun", "env"])
def test_written_files_are_right_and_start_the_job(lab2, tmp_path, launcher):
    """`launch write` for these hosts: its printed lines start the program, and the reference job runs through them."""
    argv = [sys.executable, "-m", "preflight", "launch", "write", f"--launcher={launcher}", "--hosts=node[1-2]"]
    (tmp_path / "train.py").write_text(PROGRAM)
    done = lab2.run([*argv, f"--python={sys.executable}", "--out=launch", "--", "train.py"], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for host in lab2.hosts:  # each has a /tmp of its own
        host.check(["mkdir", "-p", str(tmp_path / "launch")])
        for path in (tmp_path / "train.py", *(tmp_path / "launch").iterdir()):
            host.write_file(str(path), path.read_text())
    started = [lab2.start(["sh", "-c", line], cwd="/", stdout=-1, stderr=-2, text=True) for line in starts(done.stderr)]
    said = [each.communicate(timeout=120)[0] for each in started]
    assert ["sum of 2 ranks: 1" in text for text in said] == [True, True], said

    run = Trained(lab2, tmp_path)

    assert run.code == 0, run.output
    assert [f["check"] for f in run.of("warn") if f["check"].startswith("launch.")] == []
    assert run.training["launcher"] == launcher
    assert [rank["node"] for rank in run.training["ranks"]] == ["node1", "node2"]


def starts(text):
    """The lines that are printed to start the job, as they stand there."""
    return [line.strip() for line in text.splitlines() if line.startswith("  ssh ")]


def checked(lab, folder):
    """One `launch check --hosts` of the files in the folder: the exit code, and the findings by rule."""
    argv = [sys.executable, "-m", "preflight", "launch", "check", "--hosts=node[1-2]", f"--python={sys.executable}"]
    done = lab.run([*argv, "--json=-", "launch/*"], cwd=folder)
    found = json.loads(done.stdout)["findings"]
    return done.returncode, {f["check"]: f for f in found if f["verdict"] in ("fail", "error")}


def test_a_filtered_master_port_is_told_with_its_rule_before_a_job_waits_for_it(lab2, files):
    """The very port is tried with data: node, port and rule, once, and nothing is said where the rule is gone."""
    patterns, _, right, _, _ = GUIDES["env"]
    folder = files(patterns, **right)
    node1 = lab2["node1"]
    node1.check(["nft", "add table inet lab; add chain inet lab in { type filter hook input priority 0; }"])
    node1.check(["nft", "add rule inet lab in tcp dport 29500 drop"])
    try:
        code, found = checked(lab2, folder)
        finding = found["launch.rank_0_is_reached"]
        assert (code, finding["nodes"]) == (1, ["node1"])
        assert "port 29500 of node1" in finding["message"]
        assert finding["message"].count("nft on node1, inet lab in: tcp dport 29500 drop") == 1
        assert "29500" in finding["fix"]
    finally:
        node1.check(["nft", "delete table inet lab"])
    assert checked(lab2, folder) == (0, {})
