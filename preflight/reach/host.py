"""What is a host: the name that people read, and the address that is tried?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PLAIN = "ssh"  # the transport of hosts that are written without the name of one


@dataclass(frozen=True)
class Host:
    """An address we can try to reach; `name` is its key in findings, facts and reports."""

    name: str
    address: str
    user: str | None = None
    port: int | None = None
    slots: int | None = None
    python: str | None = None
    transport: str = PLAIN
    trouble: str = ""  # why nothing can run there now, where its transport knows that before it is tried
    is_remembered: bool = False  # the machine that its address names is that of an earlier run
    engine: Mapping[str, Any] = field(default_factory=dict, compare=False)  # the subject of that name, where one tells

    @property
    def written(self) -> str:
        """As HOSTS has it, with user and port where they were given; else its name."""
        if self.user is None and self.port is None:
            return self.name
        address = f"[{self.address}]" if ":" in self.address and self.port is not None else self.address
        return f"{self.user or ''}{'@' * bool(self.user)}{address}{f':{self.port}' if self.port is not None else ''}"
