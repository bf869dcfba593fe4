"""Do lines of sockets and names lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    (
        "hpack_parser.cc:1218] Error parsing metadata: error=invalid value key=content-type value=text/html; charset=utf-8",
        "proxy",
    ),
    ("RuntimeError: connect EHOSTUNREACH 10.0.0.1:29500", "no-route"),
    ("[c10d] The client socket has failed to connect to [n1]:29500 (errno: 113 - No route to host).", "no-route"),
    (
        "[c10d] The client socket has failed to connect to [n1]:29500 (errno: 110 - Connection timed out).",
        "connect-timed-out",
    ),
    ("Error: connect ECONNREFUSED 10.0.0.1:29500", "connection-refused"),
    ("Error: connect ETIMEDOUT 10.0.0.1:29500", "connect-timed-out"),
    ("Error: read ECONNRESET", "connection-reset"),
    ("ConnectionResetError: [Errno 104] Connection reset by peer", "connection-reset"),
    (
        "requests.exceptions.ProxyError: HTTPSConnectionPool(host='n1', port=443): Max retries exceeded with url: / (Caused by ProxyError('Cannot connect to proxy.'))",
        "proxy",
    ),
    ("OSError: Tunnel connection failed: 403 Forbidden", "proxy"),
    (
        "requests.exceptions.ProxyError: HTTPSConnectionPool(host='hub', port=443): Max retries exceeded with url: /config.json (Caused by ProxyError('Unable to connect to proxy', OSError('Tunnel connection failed: 403 Forbidden')))",
        "proxy",
    ),
    ("docker: Error response from daemon: Bind for 0.0.0.0:29500 failed: port is already allocated.", "port-in-use"),
    ("channel 2: open failed: administratively prohibited: open failed", "firewall"),
    ("http.client.RemoteDisconnected: Remote end closed connection without response", "connection-reset"),
    ("ioctl(req=35093, ifr_name=eth2) failed: Cannot assign requested address", ""),
    ("nixl_cu12._bindings.nixlRemoteDisconnectError: NIXL_ERR_REMOTE_DISCONNECT", "connection-reset"),
    ("OSError: [Errno 113] No route to host", "no-route"),
    ("OSError: Tunnel connection failed: 403 Forbidden", "proxy"),
    (
        "HTTPConnectionPool(host='10.20.0.9', port=8000): Max retries exceeded with url: /health (Caused by ConnectTimeoutError(<HTTPConnection(host='10.20.0.9', port=8000) at 0x7f1c>, 'Connection to 10.20.0.9 timed out. (connect timeout=5)'))",
        "connect-timed-out",
    ),
    (
        "[E socket.cpp:922] [c10d] The client socket has timed out after 60s while trying to connect to (10.0.0.9, 29500).",
        "connect-timed-out",
    ),
    ("ConnectionRefusedError: [Errno 111] Connection refused", "connection-refused"),
    (
        "The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        "port-in-use",
    ),
    ("OSError: [Errno 99] Cannot assign requested address", "cannot-assign-address"),
    ("The server socket has failed to bind to [::]:98 (errno: 13 - Permission denied).", "privileged-port"),
    (
        "n1:1:2 [0] misc/socket.cc:484 NCCL WARN socketFinalizeAccept: wrong magic 74656d2f20544547 != 7970663b906d70b9",
        "foreign-connection",
    ),
    ("RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:2222", "connection-reset"),
    ("OSError: We couldn't connect to 'https://huggingface.co' to load the files", "download-failed"),
    ("[WARNING] Port 29500 is already in use. Binding to a random available port instead.", ""),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
