"""Do such lines lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    (
        "RuntimeError: [/src/ProcessGroupUCC.cpp:496] [Rank 0][ProcessGroupUCC-0][READY]failed to post triggered collective, error code -6: Unhandled error, system error code 0",
        "ucc-failed",
    ),
    (
        "HCCL demo error: In function run(): hcclAllReduce(sendbuff, recvbuff, count, comm, stream) failed: A device is busy or an internal check failed",
        "gaudi-collective",
    ),
    (
        "/src/hcl/src/platform/gen2_arch_common/credit_manager.cpp:31(allocNextCredit): The condition [ prev != target ] failed. No available intermediate buffer",
        "gaudi-collective",
    ),
    (
        "[rank1]: EI0006: [PID: 12] 2025-04-08-18:07:20 Getting socket times out. Reason: Remote Rank did not send",
        "hccl-connect",
    ),
    (
        "[ERROR] HCCL(8,):2026-06-17-02:21:43 [manager.cc:954] [8][InitChannelStage][RunFailed]Transport init error! rank[7]",
        "hccl-connect",
    ),
    ("EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not", "hccl-wait"),
    ("RuntimeError: oneCCL: global.cpp:150 getenv_local_coord: EXCEPTION: allgatherv failed", "oneccl-failed"),
    ("  what():  oneCCL: ze_handle_manager.cpp:226 get_ptr: EXCEPTION: unknown memory type", "oneccl-failed"),
    (
        "[ERROR] HCCL(8,python3):2025-07-23-03:47:57 [hccl_socket.cc:100] socket type[1], listen on ip[10.0.0.2] and specific port[16666] fail. Please check the port status",
        "hccl-port-in-use",
    ),
    (
        "find_provider(2819)..........: OFI fi_getinfo() failed (ofi_init.c:2819:No data available)",
        "libfabric-no-provider",
    ),
    (
        "2024:08:21-10:24:26:( 4456) |CCL_ERROR| atl_ofi_helper.cpp:907 atl_ofi_get_prov_list: can't create providers for name shm",
        "libfabric-no-provider",
    ),
    (
        "2023:11:28-16:35:45:(35980) |CCL_ERROR| base_thread.cpp:36 start: error while creating worker thread #0 pthread_create returns 22",
        "oneccl-threads",
    ),
    ("[n1:77956:0]          ucc_cl.c:57   UCC  ERROR no TLs are selected for CL_BASIC", "ucc-no-transport"),
    (
        "2023-Aug-01 16:14:43.0210 332066:332508 [31] bootstrap.cc:89 CCOM WARN Timeout waiting for incoming connection (waited 120 sec)",
        "neuron-peers-missing",
    ),
    ("logging.cc:97: Unhandled exception: N3c105ErrorE. what(): Collective call returned error", "gaudi-collective"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
