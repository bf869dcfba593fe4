"""Do such lines lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from tests.diagnose.causes.lines import found

LINES = (
    ("fi_info -p efa: -61 No data available", "efa-no-provider"),
    (
        "/src/bootstrap/bootstrap_net.cpp:92: non-zero status: -3 nvshmem bootstrap_net: connect to 10.0.0.1:5511 timed out",
        "nvshmem-bootstrap",
    ),
    ("n1:4711:4790 [0] ras/client_support.cc:160 NCCL WARN Call to bind failed: Address already in use", ""),
    ("NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available", "efa-no-provider"),
    ("Error 4126: Unresponsive receiver (reachable by EFA device but handshake failed)", "efa-security-group"),
    (
        "src/host/transport/transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA",
        "nvshmem-transport",
    ),
    ("src/host/init/init.cu:998: non-zero status: 3 building transport map failed", "nvshmem-transport"),
    ("EFA internal error: (4124) Unresponsive receiver (connection previously established)", "efa-peer-lost"),
    (
        "n1:1:2 [0] NCCL WARN NET/OFI Request 0x7f completed with error. RC: 103. Error: 13 (Unresponsive remote (was previously responsive))",
        "efa-peer-lost",
    ),
    ("NCCL WARN NET/OFI Error 15 (Unreachable remote (never received a response))", "efa-security-group"),
    (
        "libfabric:77:1700000000::efa:cq:efa_rdm_cq_poll():100<warn> message: Unreachable remote - never received a response (14)",
        "efa-security-group",
    ),
    (
        "libfabric:77:1700000000::efa:cq:efa_rdm_cq_poll():100<warn> message: Operation aborted because the peer closed its memory registration or endpoint",
        "efa-peer-lost",
    ),
    (
        "libfabric:77:1700000000::efa:cq:efa_rdm_cq_poll():100<warn> message: Unexpected status returned by responder",
        "efa-transfer-error",
    ),
    (
        "MPIDI_OFI_init_local(580): OFI fi_fabric failed (ofi_init.c:580:MPIDI_OFI_init_local:Invalid argument)",
        "libfabric-not-opened",
    ),
    (
        "n1:7:9 [7] create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
        "libfabric-not-opened",
    ),
    (
        "MPIDI_OFI_handle_cq_error(1075): OFI poll failed (ofi_events.c:1077:MPIDI_OFI_handle_cq_error:Input/output error)",
        "efa-transfer-error",
    ),
    ("node1.329747PSM2 can't open hfi unit: -1 (err=23)", "psm-not-opened"),
    ("n1:rank1: PSM3 can't open nic unit: 0 (err=23)", "psm-not-opened"),
    (
        "[1530549338.25] [n1:20497:0] rc_iface.c:966  UCX  ERROR failed to create qp: Invalid argument",
        "rdma-queue-pair",
    ),
    ("[1657643132.70] [n1:1:0] tl_cuda_team.c:131  TL_CUDA ERROR failed to exchange ranks", "ucc-failed"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (
            "[n1:1:28576] ERROR collect_ports_data: device mlx5_0 port 1 is not valid (port is used by SM)",
            "sharp-ports",
        ),
        (
            "n1:1:2 [3] sharp_plugin.c:302 NCCL WARN SHARP group create: Streaming Tree lock failed (-18)",
            "sharp-resources",
        ),
        (
            "sharp_am[7]: error: FabricProvider must bind to port with master SM (SM LID:35 local LID:2. Exiting.",
            "sharp-manager",
        ),
    ],
)
def test_a_job_goes_on_without_sharp(line, note):
    """So each reason is a note, by its own name."""
    diagnosis = diagnose([line])
    assert not diagnosis.causes
    assert note in [one.cause.name for one in diagnosis.notes]
