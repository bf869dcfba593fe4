"""Do lines of collectives lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("[I ProcessGroupNCCL.cpp:844] [Rank 0] NCCL watchdog thread terminated normally", ""),
    (
        "RuntimeError: [/src/ProcessGroupUCC.cpp:488] [Rank 2][ProcessGroupUCC-0][READY]Collective timeout, error code -8: Operation timed out, system error code 0",
        "collective-timeout",
    ),
    (
        "[1633420000.1] [n1:5637:0] ucc_schedule.h:127  UCC  WARN  timeout 60 sec has expired on task 0x55, team id 1 size 4 rank 2 ctx_rank 2: Bcast Host",
        "collective-timeout",
    ),
    (
        "DeepEP dispatch forwarder timeout (RDMA meta), channel: 4, RDMA: 1, nvl: 6, src RDMA lane: 0, dst NVL: 3, meta: 0, 0, 0, 0",
        "deepep-timeout",
    ),
    ("Warning: DeepEP timeout for dispatch receive, rank 3, local_expert_idx 1, src_rank 7", "deepep-timeout"),
    ("RuntimeError: DeepEP error: timeout (dispatch CPU)", "deepep-timeout"),
    (
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600027 milliseconds before timing out.",
        "collective-timeout",
    ),
    ("RuntimeError: Rank 2 failed to pass monitoredBarrier in 30000 ms", "monitored-barrier"),
    ("RuntimeError: Gloo connectFullMesh failed with [gloo/transport/tcp/pair.cc:144] no error", "gloo-connect"),
    ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "rank-failed-elsewhere"),
    ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 12 got signal: 1", "session-hangup"),
    ("KeyboardInterrupt", "ended-from-outside"),
    ("RuntimeError: DataLoader worker (pid 254328) is killed by signal: Hangup. ", "session-hangup"),
    ("RuntimeError: DataLoader worker (pid 254328) is killed by signal: Terminated. ", "rank-failed-elsewhere"),
    ("RuntimeError: DataLoader worker (pid 254328) is killed by signal: Interrupt. ", "ended-from-outside"),
    ("Did not get subsequent heartbeat. Waited 45.00 seconds.", "standstill"),
    (
        "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout",
        "store-wait-timeout",
    ),
    (
        "Process killed by signal with name SIGKILL. It was terminated by the runtime due to failure in other processes on the same node.",
        "rank-failed-elsewhere",
    ),
    (
        "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.",
        "monitored-barrier",
    ),
    ("RuntimeError: barrier failed -- missing ranks: 3, 5", "monitored-barrier"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
