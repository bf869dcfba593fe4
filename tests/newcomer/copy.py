"""A copy of the program with a newcomer's change applied, for the tests that prove how small such a change is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


def copied(folder: Path, diff: str) -> Path:
    """A copy of the package and its checks in `folder`, with a diff of this folder applied."""
    for name in ("preflight", "checks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}  # the copy is no part of a repository
    subprocess.run(["git", "apply", str(HERE / diff)], cwd=folder, env=alone, check=True)
    return folder


def touched(diff: str) -> list[str]:
    """The files that a diff changes or adds."""
    return re.findall(r"^\+\+\+ b/(\S+)", (HERE / diff).read_text(), re.MULTILINE)
