"""At which of its own addresses does this node not reach itself?

Ranks of one node meet at the node's own address or name, and rank 0 connects to the store that it opened itself: a
packet filter or a route of its own that stops these packets hangs the start, and no peer notices.
"""

from __future__ import annotations

import errno
import os
import select
import time

from preflight.node.agent import sockets as socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

LIMIT_S = 2.0  # the kernel answers itself at once; a second try of the same packet comes after 1 s
ACCEPT_S = 0.5  # after the other end has seen its connection made
MOST = 64  # where a proxy of Kubernetes holds the addresses of all services, each would cost two sockets
FAMILIES = ("inet", "inet6")
SETTLED = (0, errno.EISCONN)


def unreached(interfaces: Iterable[dict[str, Any]], *, limit_s: float = LIMIT_S) -> list[dict[str, Any]]:
    """Each address of an interface that is up where a connection to ourselves failed, how, and which rule may do it."""
    addresses = [
        address["address"]
        for one in interfaces
        if one["is_up"]
        for address in one["addresses"]
        if address["family"] in FAMILIES and not address["address"].lower().startswith("fe80:")
    ]
    attempts = [Attempt(address) for address in [*dict.fromkeys(addresses)][:MOST]]
    end = time.monotonic() + limit_s
    while waiting := {one.client.fileno(): one for one in attempts if one.is_open}:
        left = end - time.monotonic()
        if left <= 0:
            break
        poll = select.poll()
        for descriptor in waiting:
            poll.register(descriptor, select.POLLOUT)
        for descriptor, _ in poll.poll(left * 1000):
            waiting[descriptor].conclude()
    failed = [one for one in attempts if one.failed]
    rules = rules_in_the_way(failed[0].port) if failed else []
    for one in attempts:
        one.close()
    return [{"address": one.address, "why": one.why or "no answer", "rules": rules} for one in failed]


class Attempt:
    """One connection of this node to a port of its own that the kernel picked."""

    def __init__(self, address: str) -> None:
        self.address, self.why, self.port = address, "", 0
        self.is_open = self.is_through = self.is_skipped = False
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.client = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self.listener.bind((address, 0))
        except OSError:  # tentative, or of a kind that nothing listens on
            self.is_skipped = True
            return
        self.port = self.listener.getsockname()[1]
        self.listener.listen(1)
        self.listener.setblocking(False)
        self.client.setblocking(False)
        self.is_open = True
        code = self.client.connect_ex((address, self.port))
        if code != errno.EINPROGRESS:
            self._settle(code)

    @property
    def failed(self) -> bool:
        """Whether nothing came through."""
        return not (self.is_through or self.is_skipped)

    def conclude(self) -> None:
        """The connection is made, or has failed."""
        self._settle(self.client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _settle(self, code: int) -> None:
        self.is_open = False
        if code not in SETTLED:
            self.why = os.strerror(code).lower()
            return
        try:
            self.listener.settimeout(ACCEPT_S)
            descriptor, visitor = self.listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - that of C
            os.close(descriptor)
        except OSError:
            self.why = "something else answered"
            return
        self.is_through = visitor[:2] == self.client.getsockname()[:2]
        self.why = "" if self.is_through else "something else connected"

    def close(self) -> None:
        """Leave no socket behind."""
        self.listener.close()
        self.client.close()


def rules_in_the_way(port: int) -> list[dict[str, str]]:
    """The rules of this node's packet filter that may drop what it sends to itself."""
    from preflight.node.sources.firewall import Packet, rules_against

    packets = [Packet(kind, hook, port, is_own=True) for kind in ("request", "answer") for hook in ("input", "output")]
    kept = ("tool", "place", "rule")
    found = [{name: rule[name] for name in kept} for rule in rules_against(packets)]
    return [rule for place, rule in enumerate(found) if rule not in found[:place]]
