"""Do lines of MPI and its mpirun lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ('MCA pmix base: parameter "pmix_base_verbose" (current value: "error", data source: default, level: 8)', ""),
    (
        "Assertion failed in file ../../src/mpid/ch4/src/intel/ch4_shm_coll.c at line 2246: comm->shm_numa_layout[node].base_addr",
        "mpi-shared-memory-heap",
    ),
    ("Assertion failed in file src/mpid/ch4/src/init_comm.c at line 72: in_use == 0", "mpi-error"),
    ("Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.", ""),
    ("ORTE has lost communication with a remote daemon.", "mpi-daemon-lost"),
    ("PRTE has lost communication with a remote daemon.", "mpi-daemon-lost"),
    ("[mpiexec@n1] check_exit_codes: unable to run bstrap_proxy on n3.cluster (pid 12, exit code 256)", "mpi-hydra"),
    (
        '[proxy:0:1@n2] HYDU_sock_connect (sock.c:145): unable to connect from "n2" to "n1" (Connection refused)',
        "mpi-hydra",
    ),
    ("  Remote daemon: [prterun-n1-77@0,1] on node n2", "mpi-daemon-lost"),
    ("prterun was unable to reliably start one or more daemons.", "mpi-oob"),
    ("An PRTE daemon has unexpectedly failed after launch and before", "mpi-oob"),
    ("PRTE detected that the daemon is bound, but was unable to determine the binding of a new process.", ""),
    ("Your job failed to map. Either no mapper was available, or none", "mpi-placement"),
    ("A request was made to bind that would require binding", "mpi-placement"),
    ("At least one of the requested hosts is not included in the current", "mpi-placement"),
    ("MPI_INIT has failed because at least one MPI process is unreachable", "mpi-transport"),
    ("No components were able to be opened in the pml framework.", "mpi-transport"),
    ("[n2:77] PML ucx cannot be selected", "mpi-transport"),
    ("PRTE detected a mismatch in versions between two processes.  This", "mpi-version"),
    ("[n2:77] *** An error occurred in MPI_Allreduce", "mpi-error"),
    ("[n2:77] *** MPI_ERR_TRUNCATE: message truncated", "mpi-error"),
    ("[n1:77] PMIX ERROR: ERROR in file ../src/mca/gds/ds12/gds_ds12_lock_pthread.c at line 169", ""),
    ("A sequential map was requested, but not enough node entries", "mpi-placement"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
