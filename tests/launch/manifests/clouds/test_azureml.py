"""A job of AzureML."""

from __future__ import annotations

import pytest

from tests.launch.plans import launch, values
from tests.launch.samples import failed, rules

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
