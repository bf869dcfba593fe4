"""What does our training loop cost over a bare one, and how long does the whole job take?

python -m tests.bench.train               both
python -m tests.bench.train loop          two ranks here under torchrun, both loops in turns in the same ranks
python -m tests.bench.train job           `preflight train` over 2, 3 and 4 lab hosts, through each launcher
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from preflight.job.ranks.rank.records import Records
from preflight.job.ranks.train import join
from preflight.job.ranks.training.data import Data
from preflight.job.ranks.training.model import build_model
from preflight.job.ranks.training.place import Place, from_every_rank
from preflight.job.ranks.training.settings import Settings
from preflight.job.ranks.training.trainee import Trainee
from tests.lab.lab import Lab

STEPS = 24  # the first is not counted
REPETITIONS = 15
RANKS = 2
HOSTS = (2, 3, 4)
LAUNCHERS = ("direct", "env", "torchrun", "accelerate")


def slowest(seconds: list[float], place: Place) -> float:
    """Median seconds of a step, each as long as its slowest rank."""
    return statistics.median(max(of_all) for of_all in zip(*from_every_rank(seconds, place=place), strict=True))


def ours(start, batches, settings: Settings, place: Place) -> float:
    """The loop of the reference job, which sees every gradient and times every exchange."""
    trainee = Trainee(start, settings=settings, place=place)
    return slowest([trainee.timed_step(tokens).seconds for tokens in batches][1:], place)


def bare(start, batches, settings: Settings, place: Place) -> float:
    """A loop as one would write it."""
    from copy import deepcopy

    import torch

    model = torch.nn.parallel.DistributedDataParallel(deepcopy(start))
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)
    seconds = []
    for tokens in batches:
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - began)
    return slowest(seconds[1:], place)


def rank() -> None:
    """One rank: both loops in turns, each time the other one first; rank 0 prints the medians."""
    records = Records(rank=int(os.environ["RANK"]))
    records.send = lambda _record: None
    place = join(settings=Settings(), records=records)
    settings = Settings(steps=STEPS)
    data = Data(settings=settings, place=place)
    start, (batches, _) = build_model(data.shape), data.load()
    pairs = []
    for repetition in range(REPETITIONS + 1):
        loops = (ours, bare) if repetition % 2 else (bare, ours)
        seconds = {loop: loop(start, batches, settings, place) for loop in loops}
        pairs.append((seconds[ours], seconds[bare]))  # the first pair warms up
    tokens = place.ranks * data.shape.batch * data.shape.length
    mine, theirs = (tokens / statistics.median(values) for values in zip(*pairs[1:], strict=True))
    ratio = statistics.median(bare_seconds / our_seconds for our_seconds, bare_seconds in pairs[1:])
    if place.rank == 0:
        print(f"{mine:14.0f} {theirs:14.0f} {ratio:7.3f}", flush=True)
    os._exit(0)


def compare_loops() -> int:
    """Two ranks on this machine."""
    print(f"{'ours tokens/s':>14} {'bare tokens/s':>14} {'ratio':>7}", flush=True)
    words = [f"--nproc-per-node={RANKS}", "-m", "tests.bench.train"]
    with tempfile.TemporaryDirectory() as scratch:  # torchrun leaves a folder there
        environment = {**os.environ, "TMPDIR": scratch}
        argv = [sys.executable, "-m", "torch.distributed.run", *words]
        return subprocess.run(argv, env=environment, check=False).returncode


def time_jobs() -> int:
    """The whole of `preflight train`, from the command to its exit code; 0 is a job that passed."""
    print(f"{'hosts':>8} {'launcher':>14} {'seconds':>14} {'exit':>7}", flush=True)
    codes = []
    with Lab.create(max(HOSTS)) as lab:
        for count in HOSTS:
            for launcher in LAUNCHERS:
                began = time.monotonic()
                with tempfile.TemporaryDirectory() as folder:
                    words = [f"--hosts=node[1-{count}]", f"--python={sys.executable}", f"--launcher={launcher}"]
                    argv = [sys.executable, "-m", "preflight", "train", *words, f"--report-dir={folder}"]
                    codes.append(lab.run(argv, timeout_s=200).returncode)
                print(f"{count:8} {launcher:>14} {time.monotonic() - began:14.1f} {codes[-1]:7}", flush=True)
    return max(codes)


def main() -> int:
    """The parts asked for."""
    if "RANK" in os.environ:
        rank()
    parts = {"loop": compare_loops, "job": time_jobs}
    return max(parts[name]() for name in sys.argv[1:] or parts)


if __name__ == "__main__":
    sys.exit(main())
