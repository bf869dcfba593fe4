"""Does a variable take one row in one file, and then answer on nodes, in launch files and to explain?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.newcomer.copy import ROOT, copied, touched

SCRIPT = """export CUDA_SCALE_LAUNCH_QUEUES=8x
export NCCL_NVLS_ENABLE=0
torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=10.0.0.1 --master_port=29500 train.py
"""
# What the copy's checks say of made-up nodes that have both.
LIVE = """
import importlib.util
from preflight.testing import healthy, judged

spec = importlib.util.spec_from_file_location("test_environment", "checks/test_environment.py")
checks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checks)
run = healthy(2).with_variables("node2", CUDA_SCALE_LAUNCH_QUEUES="8x", NCCL_NVLS_ENABLE="0")
values = judged(checks.test_values_are_possible, run)
left = judged(checks.test_nothing_is_left_from_debugging, run)
assert (values.fails_on, left.warns_on) == (("node2",), ("node2",))
print(values.message, left.message)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of this tree with the change, and with the tests of rows."""
    folder = copied(tmp_path_factory.mktemp("variable"), "variable.diff")
    for part in ("knowledge", "__init__.py", "shares.py"):
        (folder / "tests").mkdir(exist_ok=True)
        copy = shutil.copytree if (ROOT / "tests" / part).is_dir() else shutil.copy
        copy(ROOT / "tests" / part, folder / "tests" / part)
    return folder


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in the copy, with the copy's own preflight."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, *words], check=False, cwd=tree, env=environment, capture_output=True, text=True, timeout=120
    )


def test_a_row_is_all_that_is_added():
    """One line in each of two files: what a variable may hold, and what a leftover one does."""
    assert touched("variable.diff") == [
        "preflight/knowledge/variables/leftovers.py",
        "preflight/knowledge/variables/names.py",
    ]


def test_the_rows_are_judged_on_nodes_and_in_launch_files(tree, tmp_path):
    """With the same words and verdicts."""
    (tmp_path / "node0.sh").write_text(SCRIPT)
    checked = run(tree, "-m", "preflight", "launch", "check", str(tmp_path / "node0.sh"))
    live = run(tree, "-c", LIVE)
    for words in ("CUDA_SCALE_LAUNCH_QUEUES='8x': wanted one of 0.25x", "NVSwitches no longer add up"):
        assert words in " ".join(checked.stdout.split()), checked.stdout + checked.stderr
        assert words in live.stdout, live.stderr
    assert checked.returncode == 1


def test_the_rows_are_explained(tree):
    """By their names."""
    assert "0.25x" in run(tree, "-m", "preflight", "explain", "CUDA_SCALE_LAUNCH_QUEUES").stdout
    assert "NVSwitches no longer add up" in run(tree, "-m", "preflight", "explain", "NCCL_NVLS_ENABLE").stdout


def test_the_examples_of_the_rows_are_their_tests(tree):
    """Nothing is added to the tests: each row is tried, dropped and emptied by its own examples."""
    done = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/knowledge/test_rows.py")
    assert done.returncode == 0, done.stdout + done.stderr
