"""Right launch files of every format, to be broken in one place by the tests and mutated by the fuzz."""

from __future__ import annotations

import random

from preflight.launch.rules.check import check_texts

CONFIG = {
    "compute_environment": "LOCAL_MACHINE",
    "debug": "false",
    "distributed_type": "MULTI_GPU",
    "downcast_bf16": "'no'",
    "gpu_ids": "all",
    "machine_rank": "0",
    "main_process_ip": "10.0.0.1",
    "main_process_port": "29500",
    "main_training_function": "main",
    "mixed_precision": "bf16",
    "num_machines": "2",
    "num_processes": "16",
    "rdzv_backend": "static",
    "same_network": "true",
    "use_cpu": "false",
}


def config(machine_rank=0, **changes):
    """An accelerate file of two machines with eight GPUs each; a change of None leaves the key out."""
    held = {**CONFIG, "machine_rank": str(machine_rank), **changes}
    return "".join(f"{key}: {value}\n" for key, value in held.items() if value is not None)


def torchrun(node_rank=0, *, nodes=2, address="10.0.0.1", port=29500, more="", program="train.py --lr 1"):
    """A start script of one node with a static rendezvous."""
    return (
        "#!/bin/bash\nexport OMP_NUM_THREADS=4\n"
        f"torchrun --nnodes={nodes} --nproc_per_node=8 \\\n  --node_rank={node_rank} --master_addr={address} \\\n"
        f"  --master_port={port} {more} {program}\n"
    )


def exports(rank=0, *, size=2, address="10.0.0.1", port=29500, local=0, program="train.py"):
    """A script that sets the variables of one rank by hand."""
    return (
        f"export RANK={rank}\nexport MASTER_ADDR={address}\nexport MASTER_PORT={port}\n"
        f"export WORLD_SIZE={size}\nexport LOCAL_RANK={local}\npython {program}\n"
    )


SBATCH = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8 --rdzv_id=$SLURM_JOB_ID \\
  --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500 train.py
"""

HOSTFILE = "worker-1 slots=8\nworker-2 slots=8\n"
DEEPSPEED = "deepspeed --hostfile=hostfile --master_addr=10.0.0.1 --master_port=29500 train.py --deepspeed ds.json\n"
BATCHES = """{
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 1,
  "zero_optimization": {"stage": 2}
}
"""

PYTORCHJOB = """apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: train
spec:
  runPolicy:
    schedulingPolicy:
      minAvailable: 2
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: &pod
        spec:
          containers:
          - name: pytorch
            image: pytorch/pytorch
            command: [torchrun, --nnodes=2, --nproc_per_node=8, train.py]
            resources:
              requests:
                nvidia.com/gpu: 8
              limits:
                nvidia.com/gpu: 8
            volumeMounts:
            - name: shm
              mountPath: /dev/shm
          volumes:
          - name: shm
            emptyDir:
              medium: Memory
    Worker:
      replicas: 1
      template: *pod
"""

INDEXED = """apiVersion: v1
kind: Service
metadata:
  name: train
spec:
  clusterIP: None
  selector:
    job-name: train
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      subdomain: train
      restartPolicy: Never
      containers:
      - name: train
        image: pytorch/pytorch
        env:
        - name: MASTER_ADDR
          value: train-0.train
        command:
        - bash
        - -c
        - |
          torchrun --nnodes=2 --nproc_per_node=1 --node_rank=$JOB_COMPLETION_INDEX \\
            --master_addr=$MASTER_ADDR --master_port=29500 train.py
"""

MPI = """#!/bin/bash
export NCCL_SOCKET_IFNAME=eth0
mpirun --allow-run-as-root -np 16 -H node1:8,node2:8 --bind-to none -mca btl_tcp_if_include eth0 \\
  -x NCCL_SOCKET_IFNAME -x MASTER_ADDR=node1 -x LD_LIBRARY_PATH \\
  bash -c 'export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE; python train.py --lr 1'
"""
SERVERS = """#!/bin/bash
export VLLM_HOST_IP=10.0.0.1
ray start --head --node-ip-address=10.0.0.1 --port=6379 --num-gpus=8
ray job submit --address=http://127.0.0.1:8265 --runtime-env-json='{"env_vars": {"A": "1"}}' -- python3 train.py --n 2
docker run --gpus all --network=host --shm-size=16g -e NCCL_DEBUG=INFO image \\
  vllm serve m/M -tp 8 --pipeline-parallel-size 2 --nnodes 2 --node-rank 0 --master-addr 10.0.0.1
NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 FORCE_TORCHRUN=1 llamafactory-cli train x.yaml
"""
COMPOSE = """services:
  trainer:
    image: pytorch/pytorch
    network_mode: host
    shm_size: 16gb
    ulimits:
      memlock: -1
    environment:
      - NCCL_SOCKET_IFNAME=eth0
    command: >
      torchrun --nnodes 2 --nproc_per_node 8
      --node_rank 0 --master_addr 10.0.0.1 t.py
"""
SETS = """apiVersion: kubeflow.org/v2beta1
kind: MPIJob
spec:
  slotsPerWorker: 8
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - command: [mpirun, -np, "16", -x, NCCL_DEBUG=INFO, python, t.py]
    Worker:
      replicas: 2
      template:
        metadata: {labels: {sidecar.istio.io/inject: "false"}}
        spec:
          containers:
          - resources: {limits: {nvidia.com/gpu: 8, rdma/hca: 1}}
            securityContext: {capabilities: {add: [IPC_LOCK]}}
            volumeMounts: [{name: shm, mountPath: /dev/shm}]
          volumes: [{name: shm, emptyDir: {medium: Memory}}]
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        containers:
        - args: [torchrun, --nnodes=2, --node_rank=$(LWS_WORKER_INDEX), --master_addr=$(LWS_LEADER_ADDRESS), t.py]
"""
SKYPILOT = """name: train
resources:
  accelerators: H100:8
num_nodes: 2
envs:
  NCCL_DEBUG: INFO
run: |
  HEAD=$(echo "$SKYPILOT_NODE_IPS" | head -n1)
  torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc_per_node=$SKYPILOT_NUM_GPUS_PER_NODE \\
    --node_rank=$SKYPILOT_NODE_RANK --master_addr=$HEAD --master_port=8008 train.py
"""
AZUREML = """$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
code: src
command: >-
  python train.py --epochs ${{inputs.epochs}}
inputs:
  epochs: 3
environment_variables:
  NCCL_DEBUG: WARN
compute: azureml:gpu
distribution:
  type: pytorch
  process_count_per_instance: 8
resources:
  instance_count: 2
"""
TRAINERS = """#!/bin/bash
export MASTER_ADDR=10.0.0.1 MASTER_PORT=7501 NODE_RANK=0
composer -n 8 --world_size 16 --node_rank $NODE_RANK scripts/train/train.py yamls/mpt-7b.yaml
fabric run --devices=8 --num-nodes=2 --node-rank=$NODE_RANK --main-address=$MASTER_ADDR train.py --lr 1
"""
FORMATS = {
    "accelerate": ("node0.yaml", config()),
    "torchrun": ("node0.sh", torchrun()),
    "environment": ("rank0.sh", exports()),
    "slurm": ("job.sbatch", SBATCH),
    "hostfile": ("hostfile", HOSTFILE),
    "batches": ("ds.json", BATCHES),
    "kubernetes": ("job.yaml", PYTORCHJOB + "---\n" + INDEXED),
    "mpirun": ("mpi.sh", MPI),
    "servers": ("serve.sh", SERVERS),
    "compose": ("compose.yaml", COMPOSE),
    "sets": ("sets.yaml", SETS),
    "skypilot": ("task.yaml", SKYPILOT),
    "azureml": ("aml.yml", AZUREML),
    "trainers": ("train.sh", TRAINERS),
}
SNIPPETS = (
    "$RANDOM", "${A:-b}", "$(hostname)", "'", '"', "\\", "\n", "{{ x }}", ": [", "&a *a", "!!python/object:x", "-1",
    "99999999999999999999", "\u00e9", "\x1b", "((", "<<EOF\n", "`", "| ", "<<: *x", "0x1F", "1:30", "{",
    "]", "\t", "#", "=",
    "for i in 1 2; do\n", "\U000f0001", "--nnodes", "null", "1e999",
)  # fmt: skip


def mutated(text, seed):
    """The text with a few characters, words or lines deleted, doubled, swapped or strewn in."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 6)):
        lines = text.split("\n")
        at = chance.randrange(len(text) + 1)
        kind = chance.randrange(6)
        if kind == 0:
            text = text[:at] + chance.choice(SNIPPETS) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + chance.randint(1, 12) :]
        elif kind == 2 and lines:
            del lines[chance.randrange(len(lines))]
            text = "\n".join(lines)
        elif kind == 3:
            line = chance.randrange(len(lines))
            text = "\n".join([*lines[:line], lines[line], *lines[line:]])
        elif kind == 4:
            chance.shuffle(lines)
            text = "\n".join(lines)
        else:
            text = text[:at] + chr(chance.choice([chance.randrange(128), chance.randrange(0x3000)])) + text[at:]
    return text


def judged(texts, cluster=None):
    """The findings of launch files given as texts, pass over nothing."""
    return check_texts(texts, cluster)[0]


def rules(texts, cluster=None):
    """The names of the rules that a set of files breaks."""
    return sorted({found.check.removeprefix("launch.") for found in judged(texts, cluster)})


def failed(texts, cluster=None):
    """The names of the rules that fail, warnings left out."""
    return sorted(
        {found.check.removeprefix("launch.") for found in judged(texts, cluster) if str(found.verdict) == "fail"}
    )


def pair(make, **changes):
    """The files of both nodes, made by `config`, `torchrun` or `exports`."""
    suffix = "yaml" if make is config else "sh"
    return {f"node{rank}.{suffix}": make(rank, **changes) for rank in (0, 1)}
