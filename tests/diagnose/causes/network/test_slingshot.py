"""Do such lines lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("cxip_nic_get_rgroup_vni():253<warn> : Failed to find valid default rgroup and vni for cxi0", "cxi-no-service"),
    (
        "PE 0: MPICH WARNING: OFI is failing to make progress on posting a receive. MPICH suspects a hang due to completion queue exhaustion.",
        "cxi-queue-full",
    ),
    (
        "cxi0: LE resources not recovered during flow control. FI_CXI_RX_MATCH_MODE=[hybrid|software] is required",
        "cxi-match-entries",
    ),
    (
        " 7: libfabric:88:1700000000:cxi:core:cxip_ux_onload_cb():2444<warn> RXC (0x10:7:0): Flow control triggered due to failure to append LE. Software endpoint mode required.",
        "cxi-match-entries",
    ),
    (
        "MPIDI_OFI_handle_cq_error(1062): OFI poll failed (ofi_events.c:1064:MPIDI_OFI_handle_cq_error:Input/output error - UNDELIVERABLE)",
        "cxi-undeliverable",
    ),
    (
        "MPIDI_OFI_handle_cq_error(1075): OFI poll failed (ofi_events.c:1077:MPIDI_OFI_handle_cq_error:Input/output error - PTLTE_NOT_FOUND)",
        "cxi-peer-gone",
    ),
    (
        "MPIDI_OFI_handle_cq_error(1075)......: OFI poll failed (ofi_events.c:1077:MPIDI_OFI_handle_cq_error:Input/output error - CANCELED)",
        "rank-failed-elsewhere",
    ),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
