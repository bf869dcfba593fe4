"""How is a Python on a node reached?

Each transport is a function ``argv(host, reach, command) -> list[str]``: the local command whose standard input and
output are those of `command` on the node. That is all a new one has to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from preflight.hosts import Host
from preflight.transport import local, ssh


@dataclass(frozen=True)
class Reach:
    """What the user said about reaching nodes."""

    python: str | None = None
    wrap: tuple[str, ...] = ()
    ssh_options: tuple[str, ...] = ()
    connect_seconds: int = 10


TRANSPORTS: dict[str, Callable[[Host, tuple[str, ...], int, list[str]], list[str]]] = {
    "local": local.argv,
    "ssh": ssh.argv,
}

# One line without quotes, "!" or newline: dash, bash and tcsh hand it over alike.
LOADER = (
    "import sys,zlib;sys.version_info<(3,9)and(print(sys.version),sys.exit(97));"
    "i=sys.stdin.buffer;exec(zlib.decompress(i.read(int(i.readline()))))"
)


def command(host: Host, reach: Reach) -> list[str]:
    """The argv, here, that starts the loader in the job's Python on `host`."""
    import sys

    default = sys.executable if host.is_local else "python3"
    python = host.python or reach.python or default
    words = [*reach.wrap, python, "-I", "-B", "-c", LOADER]
    return TRANSPORTS["local" if host.is_local else "ssh"](host, reach.ssh_options, reach.connect_seconds, words)
