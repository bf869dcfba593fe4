"""Which ports does a node listen on, and may the job bind its own?"""

from __future__ import annotations

from preflight.facts.value import Count, Missing, Port, Text, Value, present


class Listener(Value, frozen=True):
    """A TCP port in use, and by which program, where the kernel says so."""

    address: Text
    port: Port
    program: Text | Missing
    pid: Count | Missing


class Ports(Value, frozen=True, kw_only=True):
    """The listening TCP sockets of the node."""

    listeners: tuple[Listener, ...]
    ephemeral_in_use: Count | Missing = Missing(
        "not counted", "absent"
    )  # of that range; where sockets are few, all of them

    def used_ephemeral(self) -> int:
        """How many ports of the ephemeral range have a socket."""
        return present(self.ephemeral_in_use, "ephemeral ports in use")
