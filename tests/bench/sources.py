"""Which raw source of a platform may be lost without a verdict that changes? `python -m tests.bench.sources dgx-h100`.

Every kind of file that the collectors read, removed, emptied, cut short, and closed to another user, on one node and on
all: the gravest verdict that it leads to, "-" where the facts are the same without it, and "info" with the reason where
no check needs it. What is SILENT was taken for well.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

from tests.twins import sources
from tests.twins.platforms import BY_NAME


def main() -> None:
    """The platforms named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("platforms", nargs="+", choices=BY_NAME)
    parser.add_argument("--only", default="", help="a regular expression of the kinds of sources to take")
    chosen = parser.parse_args()
    for name in chosen.platforms:
        table: dict[str, dict[str, str]] = {}
        reasons: dict[str, str] = {}
        count, silent = 0, 0
        for user_id in (None, sources.OTHER_USER):
            with tempfile.TemporaryDirectory() as under:
                found = sources.try_all(
                    BY_NAME[name], Path(under), only=re.compile(chosen.only).search, user_id=user_id
                )
                for lost in found:
                    count += 1
                    word = lost.said or ("-" if not lost.is_read else "SILENT" if lost.is_silent else "info")
                    table.setdefault(lost.kind, {})[f"{lost.change} {lost.where}"] = word
                    if lost.why:
                        reasons[lost.kind] = lost.why
                    if lost.is_silent:
                        silent += 1
                        print(f"{name}: {lost.kind}: {lost.change} on {lost.where}", flush=True)
        print(f"\n{name:60}", *(f"{change:>9}" for change in sources.CHANGES for _ in range(2)))
        print(f"{'':60}", *(f"{where:>9}" for _ in sources.CHANGES for where in ("one", "all")))
        for kind, words in table.items():
            columns = [f"{change} {where}" for change in sources.CHANGES for where in ("node2", "all")]
            print(f"{kind:60}", *(f"{words.get(column, ''):>9}" for column in columns), reasons.get(kind, ""))
        print(f"{name}: {count} losses, {silent} in silence", flush=True)


if __name__ == "__main__":
    main()
