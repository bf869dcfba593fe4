"""What does it cost to judge the stored facts of 1,000 nodes with every check?

`python -m tests.bench.judge` tells.

A run over nodes with 8 GPUs and 8 RoCE ports each is written as a live one would have left it, then judged with
``preflight run --from``: wall time and memory of that process, its start and its reports included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from preflight.facts import neighbours
from preflight.testing import FakeRun, roce
from tests.run.test_stored import written

NODES = 1000
SECONDS_LIMIT = 10.0
GIB_LIMIT = 1.0


def as_asked(count: int) -> FakeRun:
    """Healthy nodes, each with the routes to the peers that a live run of this size asks it about."""
    run = roce(count)
    asked = neighbours.asked(run.names)
    for name in run.names:
        peers = run.subjects[name]["peers"]
        run = run.broken(name, "peers", routes=tuple(route for route in peers.routes if route.name in asked[name]))
    return run


def measure(folder: Path) -> tuple[float, float, dict]:
    """Seconds, GiB, and the report of judging what is stored in a folder."""
    argv = [sys.executable, "-m", "preflight", "run", f"--from={folder}", f"--report-dir={folder}/again"]
    started = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    seconds = time.monotonic() - started
    return seconds, usage.ru_maxrss / 2**20, json.loads((folder / "again" / "report.json").read_text())


def main() -> None:
    """Write, judge, and compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = written(as_asked(chosen.nodes), Path(scratch))
        stored = sum(path.stat().st_size for path in folder.rglob("*.json")) / 2**20
        seconds, gib, report = measure(folder)
    bad = [f"{f['verdict']} {f['check']}: {f['message'][:100]}" for f in report["findings"] if f["verdict"] != "pass"]
    print(f"{chosen.nodes} nodes, {stored:.0f} MiB of facts, {report['ledger']['judged']} cells")
    print(f"time    {seconds:.1f} s, wanted at most {SECONDS_LIMIT:g}")
    print(f"memory  {gib:.2f} GiB, wanted at most {GIB_LIMIT:g}")
    print("\n".join(bad))
    sys.exit(seconds > SECONDS_LIMIT or gib > GIB_LIMIT)


if __name__ == "__main__":
    main()
