"""How are ranks named, and how does a cause that no single line shows become a finding?"""

from __future__ import annotations

from preflight.diagnose.causes import CAUSES
from preflight.diagnose.found import Evidence, Finding
from preflight.said import said

BY_NAME = {cause.name: cause for cause in CAUSES}


def made(name: str, detail: str) -> Finding:
    """A finding without a line of its own."""
    return Finding(BY_NAME[name], (Evidence("(all files)", 0, detail),), 1, detail=detail)


def ranks_text(ranks: tuple[int, ...]) -> str:
    """Ranks as words."""
    shown = ", ".join(map(str, ranks[:16])) + (said(" and {ranks} more", len(ranks) - 16) if len(ranks) > 16 else "")
    return f"rank{'s' * (len(ranks) != 1)} {shown}" if ranks else "ranks"
