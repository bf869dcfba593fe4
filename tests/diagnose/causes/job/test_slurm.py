"""Do lines of the daemons of Slurm lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("slurm_load_partitions error: Unable to contact slurm controller (connect failure)", "slurm-controller"),
    (
        "srun: error: Task launch for StepId=7.0 failed on node n7: Socket timed out on send/recv operation",
        "slurmd-silent",
    ),
    ("slurmstepd: error: Could not open stdout file /home/u/logs/7.out: No such file or directory", "slurm-output"),
    ("srun: error: Could not open stdout file: No such file or directory", "slurm-output"),
    ("srun: error: timeout waiting for task launch, started 3 of 4 tasks", "slurmd-silent"),
    ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", "slurm-controller"),
    ("sbatch: error: Batch job submission failed: I/O error writing script/environment to file", "slurm-controller"),
    ("srun: error: Task launch for 36.0 failed on node n1: Job credential expired", "slurm-credential"),
    (
        "slurmstepd: debug: Could not open stdout file '/home/u/7.out': No such file or directory. Retrying after successful path creation.",
        "",
    ),
    ("slurmctld: Reconfigure signal (SIGHUP) received", ""),
    ("slurmd: Caught SIGHUP. Triggering reconfigure.", ""),
    ("  pmix_psec_base_open failed", "pmi-missing"),
    ("srun: error: Task launch for StepId=7.0 failed on node n7: Job prolog failed", "slurm-prolog"),
    ("salloc: Prolog failure on node n7", "slurm-prolog"),
    (
        "srun: error: Task launch for StepId=7.0 failed on node n7: Can't find an address, check slurm.conf",
        "slurm-node-config",
    ),
    ("[2025-07-01T12:05:29.971] error: Node n7 has low real_memory size (1547000 < 2060000)", "slurm-node-config"),
    ("slurmctld: fatal: Duplicated NodeHostName n7 in config file", "slurm-node-config"),
    ("slurmd: fatal: Unable to determine this slurmd's NodeName", "slurm-node-config"),
    (
        "srun: error: Task launch for StepId=7.0 failed on node n7: Incompatible versions of client and server code",
        "slurm-node-config",
    ),
    ("srun: error: Task launch for StepId=7.0 failed on node n7: Slurmd could not set UID or GID", "slurm-user"),
    ("sbatch: error: Batch job submission failed: Unable to resolve user ID to user name", "slurm-user"),
    ("slurmctld: error: slurmd error running JobId=7 on node(s)=n7: Kill task failed", "epilog-drain"),
    (
        "[2025-07-01T12:05:29.971] error: Node n7 appears to have a different slurm.conf than the slurmctld.  This could cause issues with communication and functionality.",
        "",
    ),
    ("slurmd: Prolog completed for JobId=7", ""),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
