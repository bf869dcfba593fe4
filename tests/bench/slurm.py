"""What do the sessions of 16 nodes cost in a Slurm: through one step, and with a step for each node?

Run it as ``python -m tests.bench.slurm``, as root, with Debian's slurmctld, slurmd, slurm-client and munge.

Both take turns in one allocation of a lab; printed are medians: seconds until every node's facts are here, seconds of the
processors that srun took, and what srun holds meanwhile: memory (its share, Pss), threads and descriptors.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time

import psutil

from preflight.job.collect import subjects
from preflight.reach import hosts
from preflight.reach.session.fleet import Fleet
from preflight.reach.transport import Reach
from tests.lab.lab import Lab
from tests.lab.slurm import SlurmLab

HOSTS = 16
REPETITIONS = 5
WAYS = {"one step": Reach(python=sys.executable), "a step each": Reach(python=sys.executable, wrap=("env",))}


def processor_seconds() -> float:
    """Of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def held_by_srun() -> tuple[float, int, int]:
    """MiB, threads and descriptors of every srun that we started."""
    found = [process for process in psutil.Process().children(recursive=True) if process.name() == "srun"]
    pss = sum(process.memory_full_info().pss for process in found)
    return pss / (1 << 20), sum(each.num_threads() for each in found), sum(each.num_fds() for each in found)


def one_turn(named: tuple[hosts.Host, ...], reach: Reach) -> tuple[float, ...]:
    """Seconds, processor seconds, MiB, threads, descriptors."""
    before, started = processor_seconds(), time.monotonic()
    fleet = Fleet(named, reach, run_id="bench", deadline=time.monotonic() + 60)
    documents, _ = fleet.run(subjects.collect(fleet, [], "auto"), seconds=30)
    seconds = time.monotonic() - started
    assert len(documents) == len(named), fleet.failures
    held = held_by_srun()
    fleet.close()
    return seconds, processor_seconds() - before, *held


def measure() -> None:
    """Inside the allocation: both in turns, then a line for each."""
    named = hosts.parse_hosts("slurm")
    turns = {way: [one_turn(named, reach) for _ in range(REPETITIONS)] for way, reach in WAYS.items()}
    print(f"{len(named)} nodes      seconds  of the processors  MiB  threads  descriptors")
    for way, values in turns.items():
        seconds, processors, pss, threads, files = map(statistics.median, zip(*values, strict=True))
        print(f"{way:12} {seconds:9.2f} {processors:18.2f} {pss:5.1f} {threads:7.0f} {files:11.0f}")


def main() -> None:
    """Make the lab and its Slurm, and measure inside an allocation of all nodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=HOSTS, help="How many. Default: %(default)s.")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        measure()
        return
    with Lab.create(given.nodes) as lab, SlurmLab(lab) as cluster:
        inner = [sys.executable, "-m", "tests.bench.slurm", "--inside"]
        done = cluster.run(["salloc", "--quiet", f"--nodes={given.nodes}", *inner], timeout_s=300)
        print(done.stdout, done.stderr, sep="", end="")
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
