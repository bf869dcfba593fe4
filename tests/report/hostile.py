"""Which texts have been used, or could be, to make a report lie, act or break?"""

from __future__ import annotations

import json
from pathlib import Path

# Kind -> texts. Lone surrogates and control characters stand there as JSON escapes them.
CORPUS: dict[str, list[str]] = json.loads((Path(__file__).parents[1] / "data/report/hostile.json").read_text("ascii"))
HOSTILE = CORPUS["one of each"]  # these go through every test that takes `hostile_report`
