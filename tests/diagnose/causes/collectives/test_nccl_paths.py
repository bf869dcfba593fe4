"""Do such lines lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    (
        "n1:1:2 [0] src/graph/paths.cc:91 NCCL WARN Failed to find reverse path from remNode 0/200000 nlinks 3 to node 0/700000",
        "nccl-topology",
    ),
    ("E1228 10:31:02.11 41102 nvlink_transport.cpp:617] NvlinkTransport: cuMemCreate failed: 800", "nccl-imex"),
    ("mscclpp.CuError: (800, 'Call to cuMemCreate failed (Cu failure: operation not permitted)')", "nccl-imex"),
    ("n1:1:2 [0] NCCL WARN Rank 3 has no transport for send peer 4 on channel 0/0", "nccl-no-transport"),
    ("n1:1:2 [0] graph/topo.h:230 NCCL WARN Could not find NET with id 0", "nccl-topology"),
    (
        "NCCL WARN NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [0]mlx5_2:1/RoCE.",
        "nccl-net-mismatch",
    ),
    ("NCCL WARN NET/IB : Remote RoCE device is incompatible with the local [0]mlx5_0:1/IB.", "nccl-net-mismatch"),
    ("NCCL WARN Failed to initialize any NET plugin", "nccl-plugin-failed"),
    ("n1:1:25 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'", "nccl-peer-import"),
    (
        "[CUDA_ERROR_NOT_PERMITTED] operation not permitted in expression cuMemCreate(&handle, size, &prop, 0)",
        "nccl-imex",
    ),
    ("[rank0]: Failed to window register segment with ptr 0x7f2a40000000, size 2097152", "nccl-symmetric"),
    (
        "[0] tcpxResult_t tcpxCommProgress(tcpxComm*):1231 NCCL WARN 0xad:0xae, nic 0, enp12s0, 10.0.0.1<39><-10.0.0.2<46> rx rx ctrl timeout cnt 73, nanos 10000000585",
        "tcpx-waits",
    ),
    ("n1:1:2 [0] transport.cc:33 NCCL WARN No transport found for rank 0[1000] -> rank 1[2000]", "nccl-no-transport"),
    (
        "n1:1:2 [0] ipcsocket.cc:236 NCCL WARN UDS: Sending data over socket /tmp/nccl-socket-1-4a failed : Connection refused (111)",
        "nccl-local-socket",
    ),
    ("n1:1:2 [0] graph/search.cc:880 NCCL WARN Could not find gpu rank 7", "nccl-topology"),
    ("n1:1:2 [0] graph/xml.cc:85 NCCL WARN XML Parse : Unexpected EOF", "nccl-topology"),
    (
        "n1:1:2 [0] init.cc:9 NCCL WARN Detected mixed local Net device counts across ranks (min 4, max 8).",
        "nccl-net-mismatch",
    ),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
