"""Which TCP port is free on this node right now?"""

from __future__ import annotations

import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.channel import Channel


def run(arguments: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """``{"address": A}`` -> ``{"port": P}``: bound and released again, on all addresses as TCPStore binds."""
    family = socket.AF_INET6 if ":" in arguments["address"] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return {"port": probe.getsockname()[1]}
