"""What do facts, checks and report of 5,000 nodes cost the controller? ``python -m tests.bench.scale [NODES...]``.

    python -m tests.bench.scale 100 1000 5000 --files 256

The nodes are those of tests.bench.stub_cluster: consistent twins with 8 GPUs and 8 RoCE ports each, behind a program
called ssh. Each row is one ``preflight run`` in a process of its own that may open so many files: its seconds, those of
its own processor, those of the made-up ssh that it starts, the most memory it held, and its own processor's time for one
node. The last row has 3 % of its nodes dead, silent or lying.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from tests.bench.stub_cluster import FAULTS, cluster

COUNTS = (100, 1000, 5000)
FILES = 256
SECONDS_LIMIT, MIB_LIMIT = 60.0, 400.0
FLAT = 1.5  # a further node of the largest cluster may cost so many times one of the smaller ones
BAD_SHARE = 0.03


def faulty(count: int) -> dict[str, str]:
    """Which nodes are at fault, and how."""
    chance = random.Random(count)
    bad = chance.sample([f"node{number}" for number in range(2, count + 1)], max(3, round(BAD_SHARE * count)))
    return {name: FAULTS[place % len(FAULTS)] for place, name in enumerate(bad)}


def measure(
    count: int, files: int, faults: dict[str, str], words: list[str]
) -> tuple[float, float, float, float, dict]:
    """Seconds, those of the processor, those of what stands in for ssh, MiB, and the report of one run."""
    with tempfile.TemporaryDirectory() as scratch, cluster(count, Path(scratch), faults=faults) as environment:
        report = Path(scratch) / "report"
        argv = [sys.executable, "-m", "preflight", "run", f"--hosts=node[1-{count}]", f"--report-dir={report}"]
        argv += ["--deadline=600", "--profile=quick", *words]
        begun = time.monotonic()
        process = subprocess.Popen(
            argv,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **environment},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),  # noqa: PLW1509
        )
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        seconds = time.monotonic() - begun
        own, stub = processor_seconds(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        found = json.loads((report / "report.json").read_text())
        return seconds, own, stub, usage.ru_maxrss / 1024, found


def processor_seconds(pid: int) -> tuple[float, float]:
    """What a process that has ended, and is not reaped, took by itself, and what the children took that it reaped."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, of_children, system_of_children = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15])
    return user + system, of_children + system_of_children


def wrong(report: dict, faults: dict[str, str]) -> list[str]:
    """What does not hold on a healthy node, and which bad one is not named: nothing, where all is well."""
    blamed: dict[str, set[str]] = {}
    for finding in report["findings"]:
        if finding["verdict"] in ("fail", "error", "warn"):
            blamed.setdefault(f"{finding['check']}: {finding['message'][:90]}", set()).update(finding["nodes"])
    innocent = [f"{words} on {len(nodes - faults.keys())}" for words, nodes in blamed.items() if nodes - faults.keys()]
    named = set().union(*blamed.values()) if blamed else set()
    return innocent + [f"{name} ({fault}) is not named" for name, fault in faults.items() if name not in named]


def main() -> int:
    """A row for each size; 1 where a figure misses its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", nargs="*", type=int, default=list(COUNTS), metavar="NODES")
    parser.add_argument("--files", type=int, default=FILES, help="open files that the process may have")
    parser.add_argument("--words", default="", help="further words of the command")
    chosen = parser.parse_args()
    print(
        f"{'nodes':>6} {'faults':>6} {'seconds':>8} {'cpu':>7} {'ssh':>6} {'MiB':>6} {'ms/node':>8} {'cells':>8}",
        flush=True,
    )
    rows = [(count, {}) for count in chosen.counts] + [(chosen.counts[-1], faulty(chosen.counts[-1]))]
    missed = False
    healthy: list[tuple[int, float]] = []
    for count, faults in rows:
        seconds, cpu, stub, mib, report = measure(count, chosen.files, faults, chosen.words.split())
        bad = wrong(report, faults)
        missed |= seconds > SECONDS_LIMIT or mib > MIB_LIMIT or bool(bad)
        cells = report["ledger"]["judged"]
        stages = ", ".join(f"{name} {spent:.1f}" for name, spent in report["stages"].items())
        print(
            f"{count:6} {len(faults):6} {seconds:8.1f} {cpu:7.1f} {stub:6.1f} {mib:6.0f} "
            f"{1000 * cpu / count:8.2f} {cells:8}"
        )
        print(f"       {stages}")
        print("".join(f"       {line}\n" for line in bad[:8]), end="", flush=True)
        healthy += [(count, cpu)] * (not faults)
    steps = [(cpu - before) / (count - less) for (less, before), (count, cpu) in pairwise(healthy)]
    if len(steps) > 1:
        print(
            f"a further node: {', '.join(f'{1000 * step:.1f}' for step in steps)} ms; wanted within {FLAT:g} x the first"
        )
        missed |= steps[-1] > FLAT * steps[0]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
