"""Are versions that start no job as the files ask for it named, on their nodes alone?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from preflight.node.sources.metadata import installed
from tests.launch.nodes import cluster_of, node
from tests.launch.samples import judged

ACCELERATE = (
    "accelerate launch --multi_gpu --num_machines 2 --num_processes 16 --machine_rank 0 --main_process_ip 10.0.0.1 "
    "--main_process_port 29500 train.py\n"
)
BATCH = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n{}"
    "srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_id=1 --rdzv_endpoint=node0:29500 train.py\n"
)
LIGHTNING = "import lightning as L\ntrainer = L.Trainer(devices=4, num_nodes=2{})\n"


def named(texts, package, *versions):
    """The nodes that are named for a version, as their site-packages tell it."""
    nodes = []
    for index, version in enumerate(versions):
        with tempfile.TemporaryDirectory() as site:
            folder = Path(site) / f"{package.replace('-', '_')}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n\n")
            held = {name: found for name, (found, _) in installed([site]).items()}
        nodes.append(node(index, packages=held))
    held = cluster_of(*nodes)
    return [one.nodes for one in judged(texts, held) if one.check == "launch.versions_start_the_job"]


def test_accelerate_that_hands_on_no_port_is_named():
    """On the node that has it; over one machine it starts the job."""
    assert named({"run.sh": ACCELERATE}, "accelerate", "0.2.1", "1.2.1") == [("node1",)]
    assert named({"run.sh": ACCELERATE}, "accelerate", "0.3.0", "1.2.1") == []
    alone = ACCELERATE.replace("--num_machines 2 --num_processes 16", "--num_machines 1 --num_processes 8")
    assert named({"run.sh": alone}, "accelerate", "0.2.1", "0.2.1") == []


@pytest.mark.parametrize(
    ("version", "line", "more", "nodes"),
    [
        ("2.0.8", "", "", [("node1", "node2")]),
        ("2.1.0", "", "", []),
        ("2.0.8", "unset SLURM_JOB_NAME\n", "", []),
        ("2.0.8", "#SBATCH --job-name=interactive\n", "", []),
        ("2.0.8", "", ", plugins=[LightningEnvironment()]", []),
    ],
)
def test_lightning_that_takes_slurms_tasks_for_its_ranks_is_named(version, line, more, nodes):
    """Where torchrun starts it inside Slurm, and neither the script nor the program says otherwise."""
    texts = {"job.sbatch": BATCH.format(line), "train.py": LIGHTNING.format(more)}
    assert named(texts, "pytorch-lightning", version, version) == nodes
    assert named({**texts, "train.py": "import torch\n"}, "pytorch-lightning", version, version) == []
