"""How is a Python on this machine reached? By starting it."""

from __future__ import annotations

from preflight.hosts import Host


def argv(_host: Host, _ssh_options: tuple[str, ...], _connect_seconds: int, command: list[str]) -> list[str]:
    """The command itself."""
    return command
