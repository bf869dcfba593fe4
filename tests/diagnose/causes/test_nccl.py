"""Do lines of NCCL lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 10", "duplicate-gpu"),
    ("ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister", "nccl-symbol-missing"),
    ("n1:1:2 [0] graph/topo.h:230 NCCL WARN Could not find NET with id 0", "nccl-topology"),
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
    ("ncclUnhandledCudaError: Call to CUDA function failed.", "nccl-error-unknown"),
    (
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "nccl-remote-error",
    ),
    ("NCCL WARN Cuda failure 'invalid argument'", "nccl-cuda-call"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
