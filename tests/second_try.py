"""Which tests passed only when `.ci/run` ran them a second time, alone? A plugin that the tests take there says so."""

from __future__ import annotations

import os
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line before pytest's own last one."""
    tried = os.environ.get("PREFLIGHT_SECOND_TRY", "").split("\n")
    failed = {report.nodeid for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, [])}
    passed = [name for name in tried if name and name not in failed]
    terminalreporter.write_line(
        f"passed only on the second try: {len(passed)}" + (f" ({', '.join(passed)})" if passed else "")
    )
