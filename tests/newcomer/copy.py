"""How does a test try a newcomer's change: a copy of the tree with the diff applied?"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PARTS = ("preflight", "checks", "pyproject.toml", "README.md")


def copied(tmp_path: Path, diff: str) -> Path:
    """The folder of a copy of the tree to which a diff of this folder was applied."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, folder / part)
    # Not as part of a repository that may lie around the folder: git would apply nothing, and say nothing.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    subprocess.run(["git", "apply", HERE / diff], cwd=folder, env=environment, check=True)
    return folder
