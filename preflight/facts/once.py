"""How is what many checks ask of the same facts worked out only once?"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T")


class Once:
    """Holds what was worked out of facts that do not change; a copy with other facts starts empty."""

    def once(self, what: str, work: Callable[[], T]) -> T:
        """What `work` gives, computed once for all checks; an error is raised on every call."""
        if what not in self._worked_out:
            self._worked_out[what] = work()
        found: T = self._worked_out[what]
        return found

    @cached_property
    def _worked_out(self) -> dict[str, Any]:
        return {}
