"""How far is a node's clock from ours?"""

from __future__ import annotations

from preflight.facts.value import Value


class Clock(Value, frozen=True, kw_only=True):
    """The node's wall clock against the controller's, by round trip."""

    offset_seconds: float
    uncertainty_seconds: float
