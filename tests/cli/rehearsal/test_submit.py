"""Is a batch script submitted with its own lines, and cancelled whatever happens?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from preflight.cli.rehearsal.submit import submitted, waiting_script
from preflight.launch.cast import Script
from preflight.said.errors import PreflightError

TEXT = """#!/bin/bash -l
#SBATCH --nodes=2
# a comment
#SBATCH --partition=gpu

module load cuda
#SBATCH --nodes=9
srun torchrun train.py
"""
SCRIPT = Script("job.sbatch", "/srv/job.sbatch", TEXT, ("/bin/bash", "-l"))
SBATCH = 'echo "$@" > {folder}/words; echo "7;cluster"\n'
SCONTROL = "echo 'JobId=7 JobState={state} Reason=None NodeList=node[1-2] BatchHost=node1'\n"


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Commands of Slurm that answer as told."""

    def make(state="RUNNING", sbatch=SBATCH):
        for name, text in {"sbatch": sbatch, "scontrol": SCONTROL, "scancel": "echo $1 > {folder}/cancelled\n"}.items():
            path = tmp_path / name
            path.write_text("#!/bin/sh\n" + text.format(folder=tmp_path, state=state))
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.delenv("SLURM_JOB_ID", raising=False)
        return tmp_path

    return make


def test_the_lines_before_the_first_command_are_kept():
    """As sbatch itself reads them; the commands are not."""
    text = waiting_script(SCRIPT)
    assert text.startswith("#!/bin/bash -l\n#SBATCH --nodes=2\n#SBATCH --partition=gpu\n")
    assert "--nodes=9" not in text
    assert "module load" not in text
    assert waiting_script(Script("x", "/x", "#SBATCH -N 2\nsrun x\n", ())).startswith("#!/bin/sh\n#SBATCH -N 2\n")


def test_its_allocation_is_ours_until_it_is_cancelled(slurm):
    """With a short time limit, and without files of output."""
    folder = slurm()
    with submitted(SCRIPT, seconds=60.0):
        assert (os.environ["SLURM_JOB_ID"], os.environ["SLURM_JOB_NODELIST"]) == ("7", "node[1-2]")
    assert "SLURM_JOB_ID" not in os.environ
    assert (folder / "cancelled").read_text() == "7\n"
    words = (folder / "words").read_text()
    assert "--time=4 --output=/dev/null --error=/dev/null" in words


def test_a_job_that_does_not_begin_is_cancelled(slurm):
    """With what Slurm says of it."""
    folder = slurm(state="FAILED")
    ended = pytest.raises(PreflightError, match="job 7 of Slurm ended before it began: FAILED")
    with ended, submitted(SCRIPT, seconds=60.0):
        pass
    assert (folder / "cancelled").exists()


KILLED = """
import os, signal
from preflight.cli.rehearsal.submit import submitted
from preflight.launch.cast import Script
import preflight.cli.rehearsal.submit as module
module._submitted = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
with submitted(Script("x", "/x", "srun x", ()), seconds=60.0): pass
"""


def test_a_job_ends_with_us_from_its_first_moment(slurm):
    """Killed while sbatch is still asked, we leave none."""
    folder = slurm(sbatch="sleep 1; echo 7\n")
    done = subprocess.run([sys.executable, "-c", KILLED], timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL
    end = time.monotonic() + 10.0
    while not ((folder / "cancelled").exists() and (folder / "cancelled").read_text()):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert (folder / "cancelled").read_text() == "7\n"


def test_a_refusal_is_told_in_slurms_words(slurm):
    """No job, nothing to cancel."""
    slurm(sbatch="echo 'sbatch: error: invalid partition specified: gpu' >&2; exit 1\n")
    with pytest.raises(PreflightError, match="invalid partition specified: gpu"), submitted(SCRIPT, seconds=60.0):
        pass
