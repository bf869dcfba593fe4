"""What does our loop cost over a bare loop of the same collective? ``python -m tests.bench.harness``.

Both run in turns in the same two ranks, on two hosts with 1 Gbit links, with the same buffers' size.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from preflight.job.ranks.bench.groups import Place, largest
from preflight.job.ranks.bench.operations import COLLECTIVES
from preflight.job.ranks.bench.settings import Settings
from preflight.job.ranks.bench.trial import Trial
from preflight.job.ranks.collectives import join
from preflight.job.ranks.rank.records import Records
from tests.lab.lab import Lab

REPETITIONS = 5
ITERATIONS = 8
SIZES = (1 << 20, 32 << 20)
PORT = 29455


def bare(place: Place, size_bytes: int) -> list[float]:
    """A loop as one would write it: nothing filled, nothing checked."""
    import torch
    import torch.distributed as dist

    buffer = torch.ones(size_bytes // 4)
    seconds = []
    for _ in range(ITERATIONS):
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(buffer)
        seconds.append(time.perf_counter() - began)
    return largest(seconds, place=place)


def ours(place: Place, size_bytes: int) -> list[float]:
    """The loop of the benchmark, with its filling and checking."""
    trial = Trial(COLLECTIVES["all_reduce"], size_bytes=size_bytes, place=place)
    seconds = [trial.once() for _ in range(ITERATIONS)]
    assert trial.wrong == 0
    return largest(seconds, place=place)


def rank() -> None:
    """One rank: both loops in turns; rank 0 prints the medians."""
    records = Records(rank=int(os.environ["RANK"]))
    records.send = lambda _record: None
    place = join(settings=Settings(), records=records)
    for size_bytes in SIZES:
        ours(place, size_bytes)  # warm
        pairs = [tuple(statistics.median(loop(place, size_bytes)) for loop in (ours, bare)) for _ in range(REPETITIONS)]
        mine, theirs = (statistics.median(values) for values in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        if place.rank == 0:
            print(f"{size_bytes >> 20:4} MiB {mine * 1e3:9.2f} {theirs * 1e3:9.2f} {ratio:9.3f}", flush=True)
    os._exit(0)


def main() -> int:
    """Two ranks on two hosts."""
    if "RANK" in os.environ:
        rank()
    print(f"{'size':>8} {'ours ms':>9} {'bare ms':>9} {'ratio':>9}", flush=True)
    with Lab.create(2) as lab:
        started = []
        for number, host in enumerate(lab.hosts):
            variables = {"RANK": str(number), "WORLD_SIZE": "2", "MASTER_ADDR": lab.hosts[0].address}
            variables |= {"MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
            variables |= {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # the names of hosts are not known here
            words = ["env", *(f"{name}={value}" for name, value in variables.items())]
            argv = [*host.space.enter("net"), *words, sys.executable, "-m", "tests.bench.harness"]
            started.append(subprocess.Popen(argv))
        codes = [process.wait(timeout=200) for process in started]
    return max(abs(code) for code in codes)


if __name__ == "__main__":
    sys.exit(main())
