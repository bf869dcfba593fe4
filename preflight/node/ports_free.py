"""Which TCP port is free on this node right now?"""

import socket


def run(arguments: dict, _channel) -> dict:  # noqa: ANN001
    """``{"address": A}`` -> ``{"port": P}``: bound and released again, on all addresses as TCPStore binds."""
    family = socket.AF_INET6 if ":" in arguments["address"] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return {"port": probe.getsockname()[1]}
