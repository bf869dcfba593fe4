"""Does the hook for other people's repositories keep a broken launch file from being committed, and no other file?"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.launch.samples import torchrun

ROOT = Path(__file__).parents[1]
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


def committed(folder: Path, **texts: str) -> subprocess.CompletedProcess[str]:
    """The hook run as pre-commit runs it: its entry's words, then the names of the files, in the repository."""
    names = [name.replace("_", ".", 1) for name in texts]
    for name, text in zip(names, texts.values(), strict=True):
        (folder / name).write_text(text)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    argv = [*shlex.split(HOOK["entry"]), *names]
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_broken_launch_file_keeps_the_commit_back(tmp_path):
    """With the finding and its line."""
    done = committed(tmp_path, run_sh=torchrun(1, address="localhost"))
    assert done.returncode == 1, done.stderr
    assert "run.sh:" in done.stdout


def test_right_files_and_those_of_others_do_not(tmp_path):
    """Among them scripts and YAML that start no job."""
    assert committed(tmp_path, run_sh=torchrun()).returncode == 0
    assert committed(tmp_path, build_sh="make all\n", ci_yaml="steps: []\n").returncode == 0


@pytest.mark.parametrize(
    ("name", "is_given"),
    [
        ("scripts/train.sh", True),
        ("job.sbatch", True),
        ("conf/accelerate.yaml", True),
        ("hostfile", True),
        ("launch/.deepspeed_env", True),
        ("train.py", False),
        ("README.md", False),
    ],
)
def test_the_hook_is_given_files_that_may_start_a_job(name, is_given):
    """By their names, all of a commit at once."""
    assert (re.search(HOOK["files"], name) is not None) == is_given
    assert HOOK["require_serial"]
