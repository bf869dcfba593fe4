"""What is a check, and what does it say of itself?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from preflight.judge.ledger.findings import Verdict

# The last one that a check asks for says how it runs: `node` beside `cluster` is a body for every node.
KINDS = ("cluster", "node", "mesh", "bench", "training", "rehearsal", "ending")


@dataclass(frozen=True)
class Check:
    """A check as found in a file: its id, its function, and what it said of itself."""

    id: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    kind: str
    is_advisory: bool = False
    needs: frozenset[str] = frozenset()
    others: Mapping[str, Any] = field(default_factory=dict)

    def broken(self, *, is_advisory: bool = False) -> Verdict:
        """The verdict where it does not hold; `is_advisory` says that of this case alone."""
        return Verdict.WARN if self.is_advisory or is_advisory else Verdict.FAIL

    @property
    def title(self) -> str:
        """The first line of the docstring."""
        return (self.function.__doc__ or self.id).strip().splitlines()[0]

    @property
    def fix(self) -> str:
        """What the docstring says after ``Fix:``."""
        return docstring_fix(self.function.__doc__ or "")


def docstring_fix(text: str) -> str:
    """The text after ``Fix:``, on one line."""
    _, found, after = text.partition("Fix:")
    return re.sub(r"\s+", " ", after).strip() if found else ""
