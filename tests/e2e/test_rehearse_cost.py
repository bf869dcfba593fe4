"""What does a rehearsal cost, beside what the same script takes by itself to its first step?"""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.e2e.test_rehearse import NUMBER, Rehearsed, write
from tests.e2e.test_rehearse_launchers import HEAD
from tests.lab.lab import Lab

NODES = 4
MORE_SECONDS = 10.0
FIRST_STEP = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
model(torch.ones(2, 8)).sum().backward()
"""


@pytest.mark.long
@pytest.mark.exclusive  # it compares two times, one after the other
def test_four_nodes_cost_a_few_seconds_more_than_the_script_itself(lab_is_possible):
    """From the command to its end, against the script started on all nodes at once until all have made a step."""
    with Lab.create(NODES) as lab:
        folder = lab.shared / "cost"
        folder.mkdir()
        (folder / "train.py").write_text(FIRST_STEP)
        text = HEAD + (
            f"torchrun --nnodes={NODES} --nproc_per_node=1 --node_rank={NUMBER} --master_addr=node1 train.py\n"
        )
        write(folder, text)
        begun = time.monotonic()
        started = [
            lab.start(["ssh", host.name, "bash", str(folder / "run.sh")], stdout=subprocess.DEVNULL)
            for host in lab.hosts
        ]
        assert [process.wait(200) for process in started] == [0] * NODES
        alone = time.monotonic() - begun
        begun = time.monotonic()
        rehearsed = Rehearsed(lab, folder, "run.sh", f"--hosts=node[1-{NODES}]")
        seconds = time.monotonic() - begun
    assert rehearsed.code == 0, rehearsed
    print(f"alone {alone:.1f} s, rehearsed {seconds:.1f} s", file=sys.stderr)
    assert seconds < alone + MORE_SECONDS
