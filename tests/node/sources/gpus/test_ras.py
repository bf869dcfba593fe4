"""Is NCCL's RAS service asked in its own protocol?"""

from __future__ import annotations

import socket
import threading

from preflight.node.sources.gpus.ras import status
from tests.diagnose.hanging.test_ras import SILENT


def serving(text: str, greeting: str = "SERVER PROTOCOL 2\n") -> tuple[str, list[bytes]]:
    """The address of a stand-in for the service of one client, and what the client sent."""
    listener = socket.create_server(("127.0.0.1", 0))
    sent: list[bytes] = []

    def serve() -> None:
        with listener, listener.accept()[0] as client:
            while b"STATUS\n" not in b"".join(sent) and (block := client.recv(4096)):
                sent.append(block)
            client.sendall((greeting + text).encode())

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}", sent


def test_the_service_is_asked_in_its_protocol():
    """The report is read to its end; what greets otherwise, or nothing that listens, is no service."""
    address, sent = serving(SILENT * 20)
    assert status(address) == SILENT * 20
    assert b"".join(sent) == b"CLIENT PROTOCOL 2\nVERBOSE STATUS\n"
    address, _ = serving("HTTP/1.1 400", greeting="")
    assert "no RAS service" in status(address)["missing"]
    assert "missing" in status(address)
    assert "missing" in status("here:no port")
