"""What do the pages in docs/ take from the code? `python -m tests.docs` writes those parts anew.

docs/checks.md is the text of `preflight explain`: both read the docstrings of the checks. docs/architecture.md lists
the layers inside the larger rooms as tests/house.py keeps them.
"""

from __future__ import annotations

import ast
import re

from preflight.cli.explain import check_texts
from tests.house import INSIDE, ROOT

CHECKS_FOLDER = ROOT / "checks"
CHECKS_PAGE = ROOT / "docs" / "checks.md"
ARCHITECTURE_PAGE = ROOT / "docs" / "architecture.md"
LAYERS = re.compile(r"(?<=<!-- layers: written by python -m tests.docs -->\n).*?(?=<!-- /layers -->)", re.DOTALL)
HEAD = """# Checks

What every check asks, why a job breaks where the answer is no, and how to fix it. On a terminal: `preflight explain`
lists the checks, `preflight explain mtu` shows those with "mtu" in their name. *fail* or *warn* is the verdict where a
check does not hold; what could not be measured is always *error*, never a pass.

This page is written by `python -m tests.docs` from the docstrings in [checks/](../checks). Edit those.
"""


def checks_page() -> str:
    """The whole page as Markdown: a section for each file of checks/, a heading for each check."""
    sections = [HEAD]
    texts = {name: (verdict, text) for name, verdict, text in check_texts(CHECKS_FOLDER)}
    for path in sorted(CHECKS_FOLDER.glob("test_*.py")):
        subject = path.stem.removeprefix("test_")
        question = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        sections.append(f"## {subject}\n\n{question}\n")
        for name, (verdict, text) in texts.items():
            if name.startswith(f"{subject}."):
                sections.append(f"### {name}\n\n*{verdict}* · {markdown(text)}\n")
    return "\n".join(sections)


def markdown(text: str) -> str:
    """A docstring as Markdown: the fix a paragraph of its own, the asterisks of paths not taken for emphasis."""
    code = re.compile(r"(`[^`]*`)")
    parts = [part if part.startswith("`") else part.replace("/*/", r"/\*/") for part in code.split(text)]
    return re.sub(r"\n+Fix:", "\n\n**Fix:**", "".join(parts))


def architecture_page(text: str) -> str:
    """The page with the layers inside each larger room, one line a room, the lowest layer first."""
    drawn = {room: " → ".join(", ".join(row) for row in rows) for room, rows in INSIDE.items()}
    lines = "".join(f"- `{room}`: {line}\n" for room, line in drawn.items())
    return LAYERS.sub(lambda _: lines, text, count=1)


if __name__ == "__main__":
    CHECKS_PAGE.write_text(checks_page(), encoding="utf-8")
    ARCHITECTURE_PAGE.write_text(architecture_page(ARCHITECTURE_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
