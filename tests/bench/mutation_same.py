"""Which changes of a module cannot be told from outside, and why not?"""

from __future__ import annotations

# Module, line and change, as tests.bench.mutation prints them -> why nothing is different then.
SAME: dict[tuple[str, str, str], str] = {}
