"""Which diffs does CONTRIBUTING.md show? `python -m tests.newcomer.show` writes them into it anew.

Each NAME.diff of this folder stands between `<!-- tests/newcomer/NAME.diff -->` and `<!-- end -->`, in its own block.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent
CONTRIBUTING = FOLDER.parents[1] / "CONTRIBUTING.md"
SHOWN = re.compile(r"(?ms)(?<=^<!-- tests/newcomer/)(?P<name>\w+)\.diff -->\n(?P<block>.*?)(?=^<!-- end -->$)")


def refreshed(text: str, diffs: dict[str, str]) -> str:
    """The text with every diff in its place; a place whose diff does not exist is left empty."""

    def place(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in diffs:
            return f"{name}.diff -->\n"
        diff = diffs[name].rstrip("\n")
        return f"{name}.diff -->\n\n```diff\n{diff}\n```\n\n"

    return SHOWN.sub(place, text)


def diffs_in(folder: Path) -> dict[str, str]:
    """The diffs of a folder by their names."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.diff"))}


if __name__ == "__main__":
    CONTRIBUTING.write_text(refreshed(CONTRIBUTING.read_text(encoding="utf-8"), diffs_in(FOLDER)), encoding="utf-8")
