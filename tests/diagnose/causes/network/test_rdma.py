"""Do lines of InfiniBand, RoCE and EFA lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("rank 3: ibv_modify_qp err 61", "rdma-gid"),
    ("`ibv_modify_qp 110` of p2p.cc", "rdma-gid"),
    ("transport retry counter exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)", "rdma-transport-retry"),
    (
        "n1:1:1 [0] misc/ibvwrap.cc:123 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=13 opcode=0 len=0 vendor err 135",
        "rdma-rnr-retry",
    ),
    ("RNR retry counter exceeded on mlx5_0:1", "rdma-rnr-retry"),
    ("IBV_WC_RNR_RETRY_EXC_ERR", "rdma-rnr-retry"),
    (
        "n7:70:99 [3] misc/ibvwrap.cc:288 NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
        "rdma-gpu-memory",
    ),
    (
        "E1201 12:03:04.22 560 rdma_endpoint.cpp:360] [Handshake] Failed to modify QP to INIT, check local context port num: Invalid argument [22]",
        "rdma-queue-pair",
    ),
    (
        "n1:1:2 [4] register_rail_mr_buffer:617 NCCL WARN NET/OFI Unable to register memory (type = 2) for device 4. RC: -22, Error: Invalid argument",
        "rdma-gpu-memory",
    ),
    ("mlx5: n31.example.org: got completion with error:", "rdma-completion"),
    (
        "n1:1:2 [2] NCCL WARN NET/IB: Got completion from peer 10.0.0.4<41000> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_2",
        "rdma-transport-retry",
    ),
    (
        "[1700000000.11] [n3:7:0]  ib_md.c:1678 UCX  ERROR ibv_open_device(mlx5_0) failed: Permission denied",
        "rdma-device-not-opened",
    ),
    (
        "n1:1:2 [0] NCCL INFO Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.0.0.3, remote GID ::ffff:10.0.0.4, retrying 1/34 after 100 msec of sleep",
        "",
    ),
    (
        "NCCL WARN NET/IB : bnxt_re0:1 unknown event type 'GID table change' (18)",
        "rdma-gid-changed",
    ),
    (
        "NCCL WARN NET/IB : mlx5_1:1 async fatal event on QP (0x73): invalid request local work queue error",
        "rdma-local-error",
    ),
    ("n1:1:2 [0] transport/net_ib.cc:148 NCCL WARN NET/IB : Unable to open device mlx5_0", "rdma-device-not-opened"),
    (
        "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.3<5551> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
        "rdma-transport-retry",
    ),
    (
        "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.3<5551> with error 12, opcode 0, len 0, vendor err 129",
        "rdma-transport-retry",
    ),
    (
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.3<5551> with status=5 opcode=0 len=0 vendor err 244",
        "rdma-flushed",
    ),
    (
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.3<5551> with status=10 opcode=1 len=0 vendor err 136",
        "rdma-remote-access",
    ),
    ("misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable", "rdma-gid"),
    ("misc/ibvwrap.cc:280 NCCL WARN Call to ibv_create_qp failed", "rdma-queue-pair"),
    (
        "n1:1:2 [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_5:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:172.16.5.11, remote GID ::ffff:172.17.5.12",
        "rdma-rails-apart",
    ),
    (
        "[n1:82049:0] ib_md.c:349  UCX  ERROR ibv_reg_mr(address=0x7f72, length=4096, access=0xf) failed: Bad address",
        "rdma-gpu-memory",
    ),
    ("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address", "rdma-gpu-memory"),
    ("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "memlock-limit"),
    ("  what():  ibv_reg_mr failed (errno 14) (Ib failure: Bad address)", "rdma-gpu-memory"),
    ("src/modules/transport/ibgda/ibgda.cpp:2234: NULL value Unable to create ah.", "rdma-gid"),
    ("n1:1:2 [0] NCCL WARN NET/IB : mlx5_1:1 GID table changed", "rdma-gid-changed"),
    ("n1:1:2 [0] NCCL WARN NET/IB: Fatal error. Detected 2 failed devices out of 2 devices", "rdma-transport-retry"),
    (
        "[n7:39570:0:39570] ud_ep.c:270  Fatal: UD endpoint 0x3b9a060 to n9:70567: unhandled timeout error",
        "rdma-transport-retry",
    ),
    ("[n7:7845 :0]         wireup.c:56   UCX  ERROR failed to send wireup: Endpoint timeout", "rdma-transport-retry"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
