"""Do lines of NCCL lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("[rank1]: NCCL error in: ncclCommInitRank, invalid usage", "nccl-error-unknown"),
    ("n1:1:2 [2] NCCL WARN HIP failure: 'invalid argument'", "nccl-cuda-call"),
    (
        "n1:1:2 [0] transport/net_ib.cc:139 NCCL WARN communicator encountered a fatal error (detected in ncclIbTest)",
        "nccl-remote-error",
    ),
    ("  Communicator ranks have different AllGather operation counts", "ras-names-ranks"),
    ("  1 job process is considered dead (unreachable via the RAS network)", "ras-names-ranks"),
    ("  Process 60004 on node 10.4.109.13 managing GPU 0", "ras-names-ranks"),
    (
        "  Rank 2 has launched up to operation 7 -- GPU 2 managed by process 9 on node 10.4.109.13",
        "ras-names-ranks",
    ),
    ("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 10", "duplicate-gpu"),
    ("ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister", "nccl-symbol-missing"),
    (
        "Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(OpType=ALLREDUCE",
        "nccl-mismatched-call",
    ),
    (
        "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 4 params, while rank 1 has inconsistent 2 params.",
        "uneven-parameters",
    ),
    (
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
        "unused-parameters",
    ),
    ("ncclUnhandledCudaError: Call to CUDA function failed.", "nccl-gpu-error"),
    (
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "nccl-remote-error",
    ),
    ("NCCL WARN Cuda failure 'invalid argument'", "nccl-cuda-call"),
    ("NCCL WARN [Service thread] Could not receive type from localRank 3, res=3, closed=0", "nccl-remote-error"),
    ("NCCL WARN socketPollConnect: exceeded retries (20000)", "connection-refused"),
    ("NCCL WARN socketStartConnect: exceeded timeouts (3)", "connect-timed-out"),
    ("NCCL WARN NET/IB : mlx5_3:1 Got async error event: port error", "link-down"),
    ("NCCL WARN NET/OFI Could not find any optimal provider", "efa-no-provider"),
    ("NCCL WARN socketStartConnect: Connect to fe80::1%eth0<17943> failed : Invalid argument", "wrong-interface"),
    ("n1:1:25 [0] init.cc:40 NCCL WARN Cuda failure 101 'invalid device ordinal'", "invalid-device-ordinal"),
    ("error msg: Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH, Expected all_reduce", "nccl-mismatched-call"),
    ("n1:1:2 [0] init.cc:9 NCCL WARN Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI", "duplicate-gpu"),
    (
        "n1:1:2 [0] init.cc:1589 NCCL WARN Invalid config blocking attribute value -2147483648",
        "nccl-symbol-missing",
    ),
    ("n1:1:2 [0] NCCL WARN Trying to recv to self without a matching send", "nccl-mismatched-call"),
    ("n1:1:2 [0] NCCL WARN Net : string is null", ""),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
