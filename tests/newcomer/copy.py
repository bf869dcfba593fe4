"""How does a change of a newcomer get into a copy of this tree?"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("preflight", "checks", "pyproject.toml", "README.md")


def copied(folder: Path, diff: str) -> Path:
    """A copy of what a newcomer changes, in `folder`, with a diff of this folder applied."""
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, folder / part)
    # Without this a checkout above the folder would make git apply the diff there, or nowhere.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    words = ["git", "apply", "--whitespace=error", str(Path(__file__).with_name(diff))]
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return folder


def touched(diff: str) -> list[str]:
    """The files that a diff changes or adds."""
    return re.findall(r"^\+\+\+ b/(\S+)", Path(__file__).with_name(diff).read_text(encoding="utf-8"), re.MULTILINE)
