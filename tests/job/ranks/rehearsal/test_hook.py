"""Which Python is a rank, which a launcher, and which any other command?"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from preflight.job.ranks.rehearsal.hook import main_of, numbered, part
from preflight.job.start.script import RANKS

RANK = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
STEP = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("words", "main"),
    [
        ("python train.py --x", ("file", "train.py")),
        ("python -u -m pkg.train --x", ("module", "pkg.train")),
        ("python -um pkg.train", ("module", "pkg.train")),
        ("python -W ignore -X dev train.py", ("file", "train.py")),
        ("python -Wignore -c pass", ("text", "")),
        ("python --check-hash-based-pycs always train.py", ("file", "train.py")),
        ("python -", ("text", "")),
        ("python", ("", "")),
    ],
)
def test_the_main_program_is_found(words, main):
    """As Python reads its own words."""
    assert main_of(words.split()) == main


@pytest.mark.parametrize(
    ("kind", "name", "environ", "programs", "what"),
    [
        ("file", "train.py", RANK, [], "rank"),
        ("file", "train.py", {}, [], ""),
        ("file", "/opt/bin/torchrun", STEP, [], "launcher"),
        ("module", "torch.distributed.run", {}, [], "launcher"),
        ("file", "/x/bin/accelerate", {}, [], "launcher"),
        ("module", "deepspeed.launcher.launch", {}, [], "launcher"),
        ("file", "train.py", STEP, [], "rank"),
        ("file", "prepare.py", STEP, ["train.py"], ""),
        ("file", "src/train.py", STEP, ["train.py"], "rank"),
        ("file", "train.py", {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, [], ""),  # of the batch shell
        ("file", "train.py", {}, ["train.py"], "rank"),  # that nothing numbers, and says so
        ("text", "", RANK, [], ""),
        ("module", "pip", RANK, [], ""),
        ("file", "other.py", {**RANK, "TORCHELASTIC_RUN_ID": "1"}, ["train.py"], "rank"),
        ("file", "train.py", {"ACCELERATE_MIXED_PRECISION": "no"}, [], "rank"),
        ("file", "train.py", {"OMPI_COMM_WORLD_RANK": "1"}, [], "rank"),
        ("file", "/v/site-packages/ray/_private/workers/default_worker.py", RANK, [], ""),
    ],
)
def test_a_rank_is_told_from_every_other_command(kind, name, environ, programs, what):
    """By its numbers, its program and what started it."""
    assert part(kind, name, environ, programs) == what


def test_numbers_come_from_the_nearest_launcher():
    """torchrun within a step of srun numbers its ranks itself."""
    assert numbered({**STEP, **RANK})[0] == "RANK"
    assert numbered(STEP)[0] == "SLURM_PROCID"
    assert numbered({"SLURM_PROCID": "0"}) == ()


def run(folder, *words, **environ):
    """A Python with the hook first in its path."""
    path = f"{folder / 'hook'}:{folder / 'site'}"
    return subprocess.run(
        [sys.executable, *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, **environ},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    """The hook as it lies on a node, a trainee, and a sitecustomize that was there before."""
    for name in ("hook", "ranks", "site"):
        (tmp_path / name).mkdir()
    text = (RANKS / "rehearsal" / "hook.py").read_text()
    (tmp_path / "hook" / "sitecustomize.py").write_text(text)
    (tmp_path / "hook" / "settings.json").write_text(json.dumps({"programs": [], "trainee": {}}))
    (tmp_path / "hook" / "trainee.py").write_text("import os\nprint('trainee', flush=True)\nos._exit(0)\n")
    (tmp_path / "site" / "sitecustomize.py").write_text("print('theirs', flush=True)\n")
    (tmp_path / "train.py").write_text("print('the real one')\n")
    return tmp_path


def test_a_rank_becomes_the_trainee_and_nothing_else_does(folder):
    """The sitecustomize that was there runs in both."""
    assert run(folder, "train.py", **RANK).stdout == "theirs\ntrainee\n"
    assert run(folder, "train.py").stdout == "theirs\nthe real one\n"
    assert run(folder, "-c", "print(1)", **RANK).stdout == "theirs\n1\n"


def test_a_trainee_that_breaks_never_becomes_the_real_program(folder):
    """It ends with a code of its own."""
    (folder / "hook" / "trainee.py").write_text("raise ValueError('broken')\n")
    done = run(folder, "train.py", **RANK)
    assert (done.returncode, done.stdout) == (70, "theirs\n")


def test_a_launcher_leaves_a_note_of_its_words(folder):
    """And of the folder that it makes for logs."""
    (folder / "torchrun").write_text("import tempfile\nprint(tempfile.mkdtemp(prefix='torchelastic_'))\n")
    made = run(folder, "torchrun", "--nnodes=2", TMPDIR=str(folder)).stdout.splitlines()[-1]
    (note,) = (folder / "ranks").iterdir()
    first, second = map(json.loads, note.read_text().splitlines())
    assert first["launcher"][1:] == ["torchrun", "--nnodes=2"]
    assert second == {"made": made}
