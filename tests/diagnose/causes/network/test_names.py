"""Do lines of interfaces and names lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("curl: (6) Could not resolve host: head", "name-not-resolved"),
    ("socket.gaierror: [Errno 8] nodename nor servname provided, or not known", "name-not-resolved"),
    ("socket.gaierror: [Errno -5] No address associated with hostname", "name-not-resolved"),
    ("dial tcp: lookup head on 10.96.0.10:53: no such host", "name-not-resolved"),
    ("OSError: [Errno 99] Cannot assign requested address", "cannot-assign-address"),
    (
        "RuntimeError: [enforce fail at /x/gloo/transport/tcp/device.cc:84] rp != nullptr. Unable to find address for: node7",
        "name-not-resolved",
    ),
    (
        "RuntimeError: [enforce fail at gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to find address for: eth7",
        "interface-not-found",
    ),
    ("n1:9:9 [0] NCCL WARN Bootstrap : no socket interface found", "interface-not-found"),
    (
        "n1:9:19 [0] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to 172.17.0.3<41234> failed : Software caused connection abort",
        "wrong-interface",
    ),
    (
        "RuntimeError: [/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:41234: Connection refused",
        "loopback-address",
    ),
    (
        "[W socket.cpp:601] [c10d] The IPv4 network addresses of (head-0, 29500) cannot be retrieved (gai error: -2 - Name or service not known).",
        "name-not-resolved",
    ),
    ("n1:1:2 [0] NCCL WARN no device found matching =ib9, verify NCCL_OOB_NET_IFNAME", "interface-not-found"),
    (
        "n1:1:2 [0] NCCL WARN NET/OFI Failed to resolve CUDA function cuCtxGetDevice (last error: 7, result: 7)",
        "efa-transfer-error",
    ),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
