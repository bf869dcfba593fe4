"""Which ports of this node does ib_write_bw serve, and at which TCP ports can its clients call?

``arguments``: ``environment`` as for the facts, ``seconds``, and ``ports`` [{"number", "device", "port", and where they
are given "gid", "level", "traffic_class"}, ...]. Event: {"serving": [[number, TCP port], ...]}. A server ends with its
client; what is left ends with this call.
"""

from __future__ import annotations

import socket

from preflight.node.agent import programs
from preflight.node.calls.rdma import perftest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.channel import Channel


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """{"served": [[number, its last words where it measured nothing], ...]}."""
    program = perftest.found(arguments)
    wanted = arguments["ports"]
    family = socket.AF_INET6 if arguments.get("is_ipv6") else socket.AF_INET
    tcp_ports = free_ports(len(wanted), family)
    started = []
    for port, tcp_port in zip(wanted, tcp_ports):
        words = perftest.argv(program, port, tcp_port=tcp_port)
        words += ["--ipv6-addr"] if family == socket.AF_INET6 else []
        started.append((port["number"], programs.Started(words, limit_s=float(arguments["seconds"]))))
    channel.emit({"serving": [[port["number"], tcp_port] for port, tcp_port in zip(wanted, tcp_ports)]})
    return {"served": [[number, words_of(server)] for number, server in started]}


def words_of(server: programs.Started) -> str:
    """Why a server has no figure; "" where it has."""
    try:
        perftest.rate(server.text())
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def free_ports(count: int, family: socket.AddressFamily) -> list[int]:
    """`count` different TCP ports that are free on all addresses."""
    probes = [socket.socket(family, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
