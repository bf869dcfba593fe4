"""Are the job files of SkyPilot and AzureML read as what they start on every node?"""

from __future__ import annotations

import pytest

from tests.launch.plans import launch, values
from tests.launch.samples import failed, judged, rules

SKY = """resources:
  accelerators: {gpus}
num_nodes: 2
envs:
  NCCL_SOCKET_IFNAME: eth0
run: |
  HEAD=$(echo "$SKYPILOT_NODE_IPS" | head -n1)
  torchrun --nnodes={nodes} --nproc_per_node={each} {rank} \\
    --master_addr=$HEAD --master_port=8008 train.py
"""
RANK = "--node_rank=$SKYPILOT_NODE_RANK"
AZURE = """$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: {command}
inputs:
  epochs: 1
distribution:
  type: pytorch
  process_count_per_instance: {each}
resources:
  instance_count: 2
"""


def sky(gpus="H100:8", nodes="$SKYPILOT_NUM_NODES", each="$SKYPILOT_NUM_GPUS_PER_NODE", rank=RANK):
    """A SkyPilot task."""
    return SKY.format(gpus=gpus, nodes=nodes, each=each, rank=rank)


def test_a_task_of_skypilot_knows_its_nodes_and_gpus():
    """The counts that SkyPilot gives are those of the task; envs are the job's variables."""
    found = launch(sky(), name="task.yaml")
    assert (values(found)["nodes"], values(found)["processes_per_node"]) == (2, 8)
    assert found["environment"]["NCCL_SOCKET_IFNAME"] == "eth0"
    assert rules({"task.yaml": sky()}) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"nodes": "4"}, "nodes_are_counted_right"),
        ({"rank": ""}, "static_rendezvous_has_node_ranks"),
        ({"each": "16"}, "processes_match_devices"),
        ({"gpus": "{H100: 4}", "each": "8"}, "processes_match_devices"),
    ],
)
def test_a_task_that_does_not_fit_itself_fails(changes, rule):
    """Other nodes than SkyPilot starts, no rank, more processes than GPUs."""
    assert failed({"task.yaml": sky(**changes)}) == [rule]


def test_the_script_of_a_task_is_read_as_bash_reads_it():
    """A blank behind a backslash, in the line of the YAML file."""
    found = judged({"task.yaml": sky().replace("\\\n", "\\ \n")})
    assert [(one.check, one.where[0].line) for one in found] == [("launch.commands_are_continued", 8)]


def test_a_job_of_azureml_gives_every_process_its_rank():
    """${{inputs.epochs}} is filled in by AzureML, and makes no template of the file."""
    text = AZURE.format(command="python train.py --epochs ${{inputs.epochs}}", each=8)
    found = launch(text, name="job.yml")
    assert (values(found)["nodes"], values(found)["processes_per_node"]) == (2, 8)
    assert rules({"job.yml": text}) == []


@pytest.mark.parametrize("name", ["epochs", "elsewhere"])
def test_an_input_is_the_value_that_the_job_gives_it(name):
    """A number is no text in its place; one that the job does not hold is unknown, and so no fault."""
    nodes = "${{inputs." + name + "}}"
    command = f"torchrun --nnodes {nodes} --node_rank $NODE_RANK --master_addr $MASTER_ADDR t.py"
    text = AZURE.format(command=command, each=1)
    assert failed({"job.yml": text}) == (["nodes_are_counted_right"] if name == "epochs" else [])


def test_a_launcher_that_azureml_starts_for_every_gpu_fails():
    """process_count_per_instance belongs to plain programs; with a launcher it is 1."""
    command = "torchrun --nnodes 2 --nproc_per_node 8 --node_rank $NODE_RANK --master_addr $MASTER_ADDR t.py"
    assert failed({"job.yml": AZURE.format(command=command, each=8)}) == ["tasks_are_counted_once"]
    assert failed({"job.yml": AZURE.format(command=command, each=1)}) == []


def test_the_jobs_of_a_pipeline_are_read():
    """Each entry under `jobs` is a job of its own."""
    job = AZURE.format(command="torchrun --nnodes 4 --node_rank $NODE_RANK --master_addr $MASTER_ADDR t.py", each=1)
    inner = "".join(f"    {line}\n" for line in job.splitlines()[1:])
    text = f"$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json\njobs:\n  train:\n{inner}"
    assert failed({"pipeline.yml": text}) == ["nodes_are_counted_right"]


@pytest.mark.parametrize("text", ["run: echo hi\nresources: {cpus: 2}\n", "$schema: azureml\ncommand: python -V\n"])
def test_a_job_file_without_a_launcher_is_not_judged(text):
    """One skip that says so."""
    assert rules({"job.yml": text}) == ["file_is_judged"]


BEAKER = """version: v2
tasks:
- name: train
  replicas: 4
  leaderSelection: true
  hostNetworking: true
  image: {beaker: trainer}
  command: [/bin/sh, -c]
  arguments: ['accelerate launch --num_machines 4 --num_processes 32 --machine_rank $BEAKER_REPLICA_RANK
    --main_process_ip $BEAKER_LEADER_REPLICA_HOSTNAME --main_process_port 29400 t.py']
  envVars:
  - {name: WANDB_WATCH, value: false}
  resources: {gpuCount: 8}
"""


def test_an_experiment_of_beaker_is_read():
    """Replicas are the nodes, and Beaker gives each its rank and the leader's name."""
    found = launch(BEAKER, name="experiment.yaml")
    assert (found["launcher"], values(found)["nodes"]) == ("accelerate", 4)
    assert rules({"experiment.yaml": BEAKER}) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("replicas: 4", "replicas: 2", "nodes_are_counted_right"),
        ("  leaderSelection: true\n", "", "variables_are_set"),
        ("  hostNetworking: true\n", "", "containers_share_the_network"),
        ("--machine_rank $BEAKER_REPLICA_RANK\n", "--machine_rank 0\n", "static_rendezvous_has_node_ranks"),
    ],
)
def test_an_experiment_that_does_not_fit_itself_fails(old, new, rule):
    """Other replicas than the command counts, and a leader that nobody chooses or reaches."""
    assert old in BEAKER
    assert rule in failed({"experiment.yaml": BEAKER.replace(old, new)})
