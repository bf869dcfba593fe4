"""How is a Python on this machine reached? By starting it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from preflight.reach.transport.reach import Found

if TYPE_CHECKING:
    from preflight.reach.host import Host
    from preflight.reach.transport.reach import Reach


class Local:
    """No login: the node is this machine."""

    name = "local"
    form = "local"
    starting_seconds = 0.0

    def named(self, rest: str) -> tuple[Found, ...]:
        """The one host there is."""
        if rest:
            raise ValueError("'local' is this machine without ssh and takes no user or port")
        return (Found("local", "127.0.0.1"),)

    def argv(self, host: Host, reach: Reach) -> list[str]:
        """The loader itself, in this interpreter unless another one is named."""
        return [os.path.expanduser(word) for word in reach.loader(host, python=sys.executable)]

    def explain(self, _node: str, _code: int, _stderr: str) -> str:
        """Nothing: there is no connection that could fail."""
        return ""

    def is_worth_a_retry(self, _stderr: str) -> bool:
        """Never: what fails here fails again."""
        return False

    def log_in_hint(self, _node: str) -> str:
        """Nothing: there is no login."""
        return "check --python and --wrap"
