"""Does the script for a machine with a GPU run, end, and leave rows that the bench prints? Here over the stand-in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from preflight.job.ranks.bench.settings import Settings as Collectives
from preflight.job.ranks.devices import Settings as Devices
from preflight.job.ranks.training.settings import Settings as Train
from tests import cuda
from tests.bench import gpu

RANKS = Path(__file__).parents[2] / "preflight" / "job" / "ranks"


def prove(stage: str, out: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """One stage on a GPU that is not there."""
    own = {"OUT": str(out), "PYTHON": sys.executable, "PATH": os.environ["PATH"], "HOME": str(out)}
    given = {**own, **cuda.environment(gpus=1, wait_seconds=3), **variables}
    return subprocess.run([gpu.PROVE, stage], env=given, capture_output=True, text=True, timeout=120, check=False)


def test_burn_ins_become_rows_and_an_archive(tmp_path, capsys):
    """The figures of each repetition lie beside the archive, and the bench prints their spread."""
    done = prove("devices", tmp_path, BURNS="1")
    assert "burn-ins with figures\t1\tof 1" in done.stdout, done.stderr
    with tarfile.open(tmp_path / "devices.tgz") as archive:
        assert "devices/burn0-0.jsonl" in archive.getnames()
    gpu.main(tmp_path)
    printed = capsys.readouterr().out
    assert "matmul_tflops_per_s" in printed
    assert "nccl     not run" in printed


def test_a_killed_rank_is_told_with_the_seconds_and_its_flight_recorder(tmp_path):
    """Two ranks on one GPU, each taken for a node by its NCCL_HOSTID."""
    done = prove("faults", tmp_path, SIGNALS="KILL", FAULTS="", WAIT="3", LARGE="65536")
    rows = dict(line.split("\t")[:2] for line in done.stdout.splitlines())
    assert float(rows["rank 1 gets SIGKILL"]) < 20, done.stderr
    assert rows["flight recorder after SIGKILL"] == "1"
    assert rows["left in ~/.cache/torch"] == "0"


def test_every_setting_of_the_script_is_one_of_its_workload():
    """Read without a run: a machine with a GPU is rare, and its minutes are counted."""
    script = gpu.PROVE.read_text(encoding="utf-8")
    known = {*Collectives.__dataclass_fields__, *Train.__dataclass_fields__, *Devices.__dataclass_fields__}
    named = set(re.findall(r'\\?"(\w+)\\?":', script)) - {
        "record",
        "wrong",
        "name",
        "ranks",
    }  # of records, and of a round
    assert named <= known
    assert len(named) > 10
    assert {path.stem for path in RANKS.glob("*.py")} >= set(re.findall(r" (collectives|devices|train) ", script))
    for stage in gpu.STAGES:
        assert f"\n{stage})" in script


def test_a_stage_that_does_not_exist_is_a_usage_error(tmp_path):
    """With the names of those that do."""
    done = prove("speed", tmp_path)
    assert done.returncode == 4
    assert "wanted facts, nccl, faults, devices, train or all" in done.stderr


@pytest.mark.parametrize(
    ("values", "spread"), [([700.0, 710.0, 720.0], "0.986 to 1.014 x 710"), ([500.0], "1.000 to 1.000 x 500")]
)
def test_noise_is_the_spread_over_the_median(values, spread):
    """The gate between equal GPUs must lie outside of it."""
    lines = [f'{{"matmul_tflops_per_s": {value}, "products": 9, "wrong_products": 0}}' for value in values]
    assert gpu.noise(lines)[0] == ("devices", "matmul_tflops_per_s", spread, f"of {len(values)}")
    assert gpu.noise(lines)[-1] == ("devices", "wrong products", "0", f"of {9 * len(values)}")
