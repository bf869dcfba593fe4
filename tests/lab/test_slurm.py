"""Is the Slurm of a lab a real one, and gone with whoever made it?"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import slurm
from tests.lab.fixtures import needs_lab

MAKES = """
import sys, time
from tests.lab.lab import Lab
from tests.lab.slurm import SlurmLab
lab = Lab.create(2)
cluster = SlurmLab(lab)
print(cluster.folder, cluster.check("srun", "--nodes=2", "hostname"), sep="\\n", flush=True)
time.sleep(60)
"""
GONE_SECONDS = 10


@pytest.mark.lab
def test_a_slurm_is_gone_with_the_process_that_made_it(lab_is_possible):
    """Killed, it cannot end its daemons; they hold a lab's network and memory no longer than that."""
    needs_lab(slurm.why_not())
    maker = subprocess.Popen([sys.executable, "-c", MAKES], stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    folder = maker.stdout.readline().strip()
    names = {maker.stdout.readline().strip(), maker.stdout.readline().strip()}
    assert (names, daemons(folder)) == ({"node1", "node2"}, {"munged", "slurmctld", "slurmd"})
    maker.send_signal(signal.SIGKILL)
    maker.communicate(timeout=10)
    end = time.monotonic() + GONE_SECONDS
    while daemons(folder) and time.monotonic() < end:
        time.sleep(0.05)
    assert daemons(folder) == set()
    shutil.rmtree(Path(folder).parents[1])  # of the lab, whose maker could not


def daemons(folder):
    """The names of the processes that use the Slurm of this folder."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if folder.encode() in (process / "environ").read_bytes():
                found.add((process / "comm").read_text().strip())
        except OSError:
            continue
    return found & {"munged", "slurmctld", "slurmd"}
