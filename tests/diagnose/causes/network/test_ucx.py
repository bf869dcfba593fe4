"""Do such lines lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    (
        "[1700000000.11] [n3:7:0]  cuda_ipc_md.c:62   UCX  ERROR cuCtxGetDevice(&cu_device) is failed. ret:invalid device context",
        "ucx-cuda-context",
    ),
    ("postXferReq: backend 'UCX' returned NIXL_ERR_BACKEND", "ucx-error"),
    ("[n2:12345] pml_ucx.c:472  Error: Failed to resolve UCX endpoint for rank 0", "ucx-error"),
    (
        "[1700000000.11] [n3:22107:0]  sys.c:915  UCX  ERROR   shmget(size=8392704 flags=0x7b0) for mm_recv_desc failed: No space left on device, please check shared memory limits by 'ipcs -l'",
        "sysv-shared-memory",
    ),
    ("mpi: shmget: No space left on device", "sysv-shared-memory"),
    (
        "[1700000000.11] [n3:7:0]  ib_md.c:1678 UCX  ERROR ibv_open_device(mlx5_0) failed: Cannot allocate memory",
        "rdma-doorbells",
    ),
    (
        "mlx5_core 0000:61:00.0: mlx5_cmd_check:795:(pid 53): ALLOC_UAR(0x802) op_mod(0x0) failed, status limits exceeded(0x8), syndrome (0x5a7939)",
        "rdma-doorbells",
    ),
    (
        "[1700000000.11] [n3:7:0]  ib_mlx5.c:606 UCX  ERROR mlx5dv_devx_alloc_uar(device=mlx5_2, flags=0x0)type=WC failed: Cannot allocate memory. Consider increasing PF_LOG_BAR_SIZE using mlxconfig tool (requires reboot)",
        "rdma-doorbells",
    ),
    (
        "[1700000000.11] [n3:7:0]  ib_md.c:325  UCX  ERROR ibv_exp_reg_mr(address=0xf1, length=6544, access=0xf) failed: Resource temporarily unavailable",
        "rdma-registration",
    ),
    (
        "[1700000000.11] [n3:7:0]  ucp_mm.c:131  UCX  ERROR failed to register address 0xf1 mem_type bit 0x1 length 6532 on md[5]=mlx5_0: Input/output error (md reg_mem_types 0x15)",
        "rdma-registration",
    ),
    (
        "[1700000000.11] [n3:7:0]  ucp_mm.c:70   UCX  ERROR failed to register address 0xf1 (host) length 6532 on md[5]=mlx5_0: Input/output error (md supports: host)",
        "rdma-registration",
    ),
    (
        "[1700000000.11] [n3:7:0]  ucp_mm.c:137  UCX  ERROR failed to register address 0x7f mem_type bit 0x8 length 1024 on md[0]=mlx5_1: Input/output error (md reg_mem_types 0x1d)",
        "rdma-gpu-memory",
    ),
    (
        "[1700000000.11] [n3:7:0]  ucp_mm.c:70   UCX  ERROR failed to register address 0x7f (rocm) length 1024 on md[0]=mlx5_1: Input/output error (md supports: host)",
        "rdma-gpu-memory",
    ),
    (
        "[1700000000.11] [n3:7:0]  ib_mlx5_dv.c:161  UCX  ERROR   mlx5dv_devx_obj_create(QP) failed, syndrome 0: Cannot allocate memory",
        "rdma-queue-pair",
    ),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause


def test_ucx_takes_another_way_after_what_it_calls_diagnostic():
    """Such a line is of a job that goes on."""
    line = "[1700000000.11] [n3:7:0]  ib_mlx5.c:570  UCX  DIAG  mlx5dv_devx_alloc_uar(device=mlx5_2, flags=0x0(WC)) failed: Cannot allocate memory"
    assert found(line) == ""
