"""Do the GPUs of a node copy to and from the host one after the other, each from cores of its own NUMA node?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import cuda

GPUS, ALONE = 2, 55.0
# The first tensor of the copies is made before any rank's turn: there all wait until each of them has come so far.
MEET = f"""
import os, time, torch
whole, folder = torch.zeros, os.environ["TMPDIR"]
def zeros(*words, **named):
    open(os.path.join(folder, "met-" + os.environ["RANK"]), "w").close()
    end = time.monotonic() + 120
    while sum(name.startswith("met-") for name in os.listdir(folder)) < {GPUS} and time.monotonic() < end:
        time.sleep(0.001)
    return whole(*words, **named)
torch.zeros = zeros
"""
# What the kernel says of the GPU's cores, and on which ones the copies are made.
CORES = """
import builtins, io, os
whole, bind = builtins.open, os.sched_setaffinity
builtins.open = lambda path, *words, **named: (
    io.StringIO({text!r}) if str(path).endswith("/local_cpulist") else whole(path, *words, **named)
)
def told(process, cores):
    print('{{"record": "bound", "cores": ' + str(sorted(cores)) + "}}", flush=True)
    bind(process, cores)
os.sched_setaffinity = told
"""


def played(folder: Path, *, plant: str, ranks: int = 1, **described: Any) -> list[list[dict[str, Any]]]:
    """The records of each rank that measures its copies, all of them at once on one node."""
    given = {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")},
        **cuda.environment(gpus=GPUS, host_gbytes_per_s=ALONE, **described),
        "STAND_IN_PLANT": plant,
        "PREFLIGHT_SETTINGS": json.dumps({"device": "cuda", "figures": ["host"]}),
        "TMPDIR": str(folder),
        "OMP_NUM_THREADS": "1",
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "preflight.job.ranks.devices"],
            env={**given, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [one.communicate(timeout=240)[0] for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()
    return [[json.loads(line) for line in text.splitlines() if line.startswith("{")] for text in said]


def test_gpus_behind_one_switch_do_not_halve_each_other(tmp_path):
    """Each has the whole way for its turn, in both directions, however many begin at the same moment."""
    uplink = tmp_path / "uplink"
    uplink.mkdir()
    every = played(tmp_path, plant=MEET, ranks=GPUS, uplink=str(uplink))
    devices = [record for records in every for record in records if record["record"] == "device"]
    assert len(devices) == GPUS
    for device in devices:
        assert device["to_device_gbytes_per_s"] > 0.75 * ALONE
        assert device["from_device_gbytes_per_s"] > 0.75 * ALONE


def test_copies_are_made_on_cores_near_the_gpu(tmp_path):
    """The rank goes to them for its turn, and back to all that it may use."""
    mine = sorted(os.sched_getaffinity(0))
    ((*bound, device),) = (
        [r for r in records if r["record"] in ("bound", "device")]
        for records in played(tmp_path, plant=CORES.format(text=f"{mine[-1]},4000-4003"))
    )
    assert [one["cores"] for one in bound] == [mine[-1:], mine]
    assert device["has_cores_near"] is True


@pytest.mark.parametrize(("text", "told"), [("4000-4003", False), ("", None)])
def test_a_rank_that_may_use_no_core_near_its_gpu_says_so(text, told, tmp_path):
    """It copies from where it is; of a kernel that tells no cores nothing is said."""
    mine = sorted(os.sched_getaffinity(0))
    ((*bound, device),) = (
        [r for r in records if r["record"] in ("bound", "device")]
        for records in played(tmp_path, plant=CORES.format(text=text))
    )
    assert {tuple(one["cores"]) for one in bound} == {tuple(mine)}
    assert device.get("has_cores_near") is told
