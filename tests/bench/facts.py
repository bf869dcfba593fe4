"""What do the facts of 64 hosts cost beside 64 concurrent ``ssh host true``?

Run it as ``python -m tests.bench.facts [--hosts=N]``, on a machine that does nothing else.

Both are timed in turns in one run, in the lab's controller; the median of the turns' ratios is the figure. The nodes
answer with their own ``python3``, as they do for a command without --python.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time

from preflight.job.collect import subjects
from preflight.reach import hosts
from preflight.reach.session.fleet import Fleet
from preflight.reach.transport import Reach
from tests.lab.lab import Lab

HOSTS = 64
REPETITIONS = 5
LIMIT = 1.3
REST_SECONDS = 1.0  # what was started for one turn also ends on the processors: the next begins when they are idle


async def ssh_true(names: list[str], *options: str) -> None:
    """The least that any tool over ssh can cost."""
    words = ["ssh", "-oBatchMode=yes", *options]
    processes = [await asyncio.create_subprocess_exec(*words, name, "true") for name in names]
    codes = await asyncio.gather(*(process.wait() for process in processes))
    assert not any(codes), codes


def collect(names: tuple[hosts.Host, ...], reach: Reach) -> tuple[float, str]:
    """Seconds until every node's facts are here, decoded, and the nodes' Python; ending the keepers is apart."""
    started = time.monotonic()
    fleet = Fleet(names, reach, run_id="bench", deadline=time.monotonic() + 60)
    documents, _ = fleet.run(subjects.collect(fleet, [], "auto"), seconds=30)
    seconds = time.monotonic() - started
    assert not fleet.failures, fleet.failures
    assert len(documents) == len(names)
    fleet.close()
    return seconds, ", ".join(sorted({document.subjects["software"]["python"] for document in documents.values()}))


def measure(count: int, python: str | None) -> float:
    """Inside the controller: both in turns; the ratio."""
    named = hosts.parse_hosts(f"node[1-{count}]")
    plain: list[float] = []
    ours: list[float] = []
    for _ in range(REPETITIONS):
        time.sleep(REST_SECONDS)
        started = time.monotonic()
        asyncio.run(ssh_true([host.name for host in named]))
        plain.append(time.monotonic() - started)
        time.sleep(REST_SECONDS)
        seconds, answered = collect(named, Reach(python=python))
        ours.append(seconds)
    ratios = [mine / theirs for mine, theirs in zip(ours, plain, strict=True)]
    ratio = statistics.median(ratios)
    print(f"{count} hosts with Python {answered}, {REPETITIONS} repetitions, medians")
    print(f"ssh host true   {statistics.median(plain):.2f} s   ({', '.join(f'{s:.2f}' for s in plain)})")
    print(f"facts           {statistics.median(ours):.2f} s   ({', '.join(f'{s:.2f}' for s in ours)})")
    print(f"ratio           {ratio:.2f}     ({', '.join(f'{r:.2f}' for r in ratios)}), wanted at most {LIMIT}")
    return ratio


def main() -> None:
    """Build the lab and measure inside it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--python", help="the interpreter on the nodes")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        sys.exit(measure(chosen.hosts, chosen.python) > LIMIT)
    with Lab.create(chosen.hosts, rate=None) as lab:
        words = [sys.executable, "-m", "tests.bench.facts", "--inside", f"--hosts={chosen.hosts}"]
        words += [f"--python={chosen.python}"] if chosen.python else []
        done = lab.run(words, timeout_s=300)
        print(done.stdout + done.stderr, end="")
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
