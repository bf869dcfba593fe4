"""The start files of four guides that beginners follow, on two real hosts: do they rehearse as people have them?"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.e2e.test_rehearse import REAL, Rehearsed, ranks_of
from tests.lab.lab import Lab

BIN = Path(sys.executable).parent
AMPHION = """compute_environment: LOCAL_MACHINE
debug: true
distributed_type: MULTI_GPU
downcast_bf16: 'no'
machine_rank: 0
main_process_ip: node1
main_process_port: 29500
main_training_function: main
mixed_precision: 'no'
num_machines: 2
num_processes: 2
rdzv_backend: c10d
same_network: false
use_cpu: false
"""
AMPHION_START = """accelerate launch --config_file default_config.yaml \\
                 --main_process_ip node1 \\
                 --main_process_port 29500 \\
                 --machine_rank {rank} \\
                 --num_processes 2 \\
                 --num_machines 2 \\
                 train.py
"""
DIFFSYNTH = """compute_environment: LOCAL_MACHINE
debug: false
deepspeed_config:
  deepspeed_multinode_launcher: standard
  gradient_accumulation_steps: 1
  gradient_clipping: 1.0
  offload_optimizer_device: cpu
  offload_param_device: cpu
  zero3_init_flag: true
  zero_stage: 2
distributed_type: DEEPSPEED
downcast_bf16: 'no'
enable_cpu_affinity: false
machine_rank: {rank}
main_process_ip: 'node1'
main_process_port: 12345
main_training_function: main
mixed_precision: bf16
num_machines: 2
num_processes: 2
rdzv_backend: static
same_network: false
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
"""
DIFFSYNTH_START = """export NCCL_DEBUG=INFO
export NCCL_DEBUG_SUBSYS=ALL
export NCCL_SOCKET_IFNAME=eth0
export NCCL_IB_DISABLE=0
export NCCL_IB_GID_INDEX=3
accelerate launch --config_file config_{rank}.yaml examples/wanvideo/model_training/train.py \\
  --dataset_base_path data/example_video_dataset \\
  --model_paths '[
    [
        "/public/a-00001-of-00002.safetensors",
        "/public/a-00002-of-00002.safetensors"
    ],
    "/public/vae.pth"
]' \\
  --learning_rate 1e-5
"""
MINIMIND = """export RANK={rank}
export MASTER_ADDR=node1
export MASTER_PORT=29500
export WORLD_SIZE=2
export LOCAL_RANK=0
python train_pretrain.py --ddp --batch_size 48
"""
SANA = """head_node_ip=node1
config=configs/sana.yaml
output_dir=output
job_name=sana
torchrun --nnodes 2 --nproc_per_node=1 --rdzv_id 4711 --rdzv_backend c10d --rdzv_endpoint $head_node_ip:29500 \\
          tools/train.py \\
          --config_path=$config \\
          --work_dir=$output_dir/$job_name  \\
          --name=$job_name \\
          --resume_from=latest
"""
GUIDES = {
    "amphion": (AMPHION_START, {"default_config.yaml": AMPHION}),
    "diffsynth": (
        DIFFSYNTH_START,
        {f"config_{rank}.yaml": DIFFSYNTH.replace("{rank}", str(rank)) for rank in range(2)},
    ),
    "minimind": (MINIMIND, {}),
    "sana": (SANA, {}),
}


@pytest.fixture(scope="module")
def lab(lab_is_possible):
    """Two hosts whose sessions find the programs of the job, as in an activated environment."""
    with Lab.create(2) as made:
        for host in made.hosts:
            host.restart_sshd({"PATH": f"{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
        yield made


@pytest.mark.parametrize("guide", GUIDES)
def test_the_start_of_a_guide_goes(lab, guide):
    """A file for each node, started in its folder; the program is there and never runs."""
    if guide == "diffsynth" and find_spec("deepspeed") is None:
        pytest.skip("needs DeepSpeed")
    start, files = GUIDES[guide]
    folder = lab.shared / guide
    for name in ("train.py", "train_pretrain.py", "tools/train.py", "examples/wanvideo/model_training/train.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(REAL)
    for rank in range(2):
        (folder / f"run_{rank}.sh").write_text(start.replace("{rank}", str(rank)))
    for name, text in files.items():
        (folder / name).write_text(text)
    rehearsed = Rehearsed(lab, folder, "run_0.sh", "run_1.sh")
    assert (rehearsed.code, rehearsed.bad()) == (0, []), rehearsed
    assert sorted(rank[0] for rank in ranks_of(rehearsed)) == [0, 1]
    assert {rank[2] for rank in ranks_of(rehearsed)} == {"done"}
