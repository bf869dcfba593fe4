"""Do lines of the rendezvous lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("KeyError: 'PDSH_SSH_ARGS_APPEND'", "launcher-variable-missing"),
    (
        "ValueError: The port number of the rendezvous endpoint 'None:None' must be an integer between 0 and 65536.",
        "variable-missing",
    ),
    (
        "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined.",
        "not-all-joined",
    ),
    (
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
        "rendezvous-connection",
    ),
    ("torch.distributed.elastic.rendezvous.api.RendezvousClosedError", "rendezvous-closed"),
    (
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR expected, but not set",
        "variable-missing",
    ),
    ("/bin/dash: 1: scontrol: not found", "master-not-a-member"),
    ("RuntimeError: rank 3 already exists in the group", "same-rank-twice"),
    (
        "n1:1:2 [0] bootstrap.cc:100 NCCL WARN Bootstrap Root : rank 3 of 16 ranks has already checked in",
        "same-rank-twice",
    ),
    ("NCCL WARN Bootstrap Root : mismatch in rank count from procs 16 : 8", "world-size-mismatch"),
    ("AttributeError: 'NoneType' object has no attribute 'is_failed'", "rendezvous-closed"),
    ("RuntimeError: matmul: both inputs must have the same rank", "program-error"),
    ("two processes were started with the same node_rank", "same-rank-twice"),
    (
        "[c10d] TCP client failed to connect/validate to host n1:29500 - timed out (try=9, timeout=60000ms): Connection refused",
        "rendezvous-connection",
    ),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
