"""Is a batch script told of that leaves the other nodes of its job to nobody, by what its program asks Slurm for?"""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts

HEAD = "#!/bin/bash\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n{}python train.py\n"
OWN = "rank = int(os.environ['SLURM_NODEID'])\n"
SIZE = "world = int(os.environ['SLURM_JOB_NUM_NODES'])\n"


@pytest.mark.parametrize(
    ("nodes", "before", "program", "is_told"),
    [
        (2, "", OWN + SIZE, True),
        (2, "", "rank, world = int(os.environ['SLURM_PROCID']), int(os.environ['SLURM_NTASKS'])\n", True),
        (2, "srun ", OWN + SIZE, False),
        (1, "", OWN + SIZE, False),
        (2, "", OWN, False),
        (2, "", "os.environ['SLURM_NODEID'] = '0'\n" + SIZE, False),
        (2, "", "print(os.environ.get('SLURM_NODEID'), os.environ.get('SLURM_NNODES'))\n", False),
    ],
)
def test_a_program_that_takes_slurms_numbers_is_started_on_every_node(nodes, before, program, is_told):
    """In the batch script the number is 0, and the size that of the job: it waits for ranks that nobody starts."""
    found, _ = check_texts({"j.sbatch": HEAD.format(nodes, before), "train.py": f"import os\n{program}"})
    assert ("launch.every_node_is_started" in {one.check for one in found}) is is_told
