"""What does NCCL itself say of a running job? Its RAS service answers on the node of any rank, for all ranks."""

from __future__ import annotations

import socket
import time

from preflight.node.agent.missing import missing, missing_because

TYPE_CHECKING = False
if TYPE_CHECKING:
    from preflight.node.agent.missing import TextOrMissing

ADDRESS = "localhost:28028"  # unless NCCL_RAS_ADDR names another one
MOST_BYTES = 1 << 16
LIMIT_S = 15.0  # NCCL waits 5 s for ranks that do not answer, and some more for the way


def status(address: str = "", *, limit_s: float = LIMIT_S) -> TextOrMissing:
    """The report on all communicators, read to its end; the first 64 KiB of it. No rank is stopped or slowed."""
    host, _, port = (address or ADDRESS).rpartition(":")
    end = time.monotonic() + limit_s
    try:
        with socket.create_connection((host.strip("[]") or "localhost", int(port)), timeout=2.0) as connection:
            connection.sendall(b"CLIENT PROTOCOL 2\nVERBOSE STATUS\n")
            data = b""
            while len(data) < MOST_BYTES:
                connection.settimeout(max(0.1, end - time.monotonic()))
                block = connection.recv(1 << 14)
                if not block:
                    break
                data += block
    except (OSError, ValueError) as error:
        return missing_because(error) if isinstance(error, OSError) else missing(str(error))
    text = data[:MOST_BYTES].decode("utf-8", "replace")
    greeting, _, report = text.partition("\n")
    if not greeting.startswith("SERVER PROTOCOL"):
        return missing("what listens there is no RAS service of NCCL")
    return report
