"""Do the words in which Slurm refuses a request lead to what the user changes?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("sbatch: error: Batch job submission failed: Duplicate generic resource (GRES) specification", "slurm-options"),
    (
        "sbatch: error: Batch job submission failed: Pathname of a file, directory or other parameter too long",
        "slurm-options",
    ),
    ("srun: error: Unable to create step for job 7: Task distribution specification invalid", "slurm-options"),
    ("sbatch: error: Invalid --mail-type specification", "slurm-options"),
    ("srun: error: Hostlist is empty!", "slurm-options"),
    ("sbatch: error: Batch job submission failed: Circular job dependency", "slurm-options"),
    (
        "srun: error: Unable to create step for job 7: Cannot request more threads per core than the job allocation",
        "slurm-options",
    ),
    ("sbatch: error: Batch job submission failed: Requested node configuration is not available", "slurm-refused"),
    (
        "srun: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.",
        "slurm-inherited",
    ),
    ("sbatch: error: Batch script contains DOS line breaks (\\r\\n)", "batch-script"),
    ("sbatch: error: This does not look like a batch script.  The first", "batch-script"),
    ("salloc: error: --ntasks-per-core (2) can not be bigger than --threads-per-core (1)", "slurm-options"),
    (
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
        "slurm-access",
    ),
    ("sbatch: error: Batch job submission failed: User's group not permitted to use this partition", "slurm-access"),
    ("sbatch: error: Batch job submission failed: Invalid qos specification", "slurm-access"),
    ("sbatch: error: Batch job submission failed: Requested reservation is invalid", "slurm-access"),
    ("sbatch: error: Batch job submission failed: Access/permission denied", "slurm-access"),
    (
        "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        "slurm-limit",
    ),
    (
        "sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
        "slurm-limit",
    ),
    ("sbatch: error: Batch job submission failed: Time limit specification required, but not provided", "slurm-limit"),
    (
        "sbatch: error: Batch job submission failed: Required partition not available (inactive or drain)",
        "slurm-unavailable",
    ),
    (
        "sbatch: error: Batch job submission failed: Required node not available (down, drained or reserved)",
        "slurm-unavailable",
    ),
    ("sbatch: error: Batch job submission failed: Licenses currently unavailable", "slurm-unavailable"),
    ("sbatch: error: Batch job submission failed: Job dependency problem", "slurm-options"),
    ("sbatch: error: Batch job submission failed: Invalid job array specification", "slurm-options"),
    ("sbatch: error: Batch job submission failed: Task distribution specification invalid", "slurm-options"),
    ("sbatch: error: Batch job submission failed: More processors requested than permitted", "slurm-refused"),
    ("sbatch: error: Batch job submission failed: Invalid generic resource (gres) specification", "slurm-refused"),
    ("sbatch: error: Batch job submission failed: No suitable topology unit found", "slurm-refused"),
    (
        "srun: error: Unable to create step for job 7: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        "slurm-limit",
    ),
    ("sbatch: unrecognized option '--gpu-per-node=8'", "slurm-options"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
