"""Is our busbw the link's?

All-reduce beside iperf3 on shaped links: ``python -m tests.bench.busbw``.

The limit is 1448/1514 of the shaped rate: tc counts the Ethernet header, TCP carries 1448 of each 1500 bytes.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

from tests.lab.lab import Lab

RATE_GBYTES_PER_S = 0.125
LIMIT = 0.9564 * RATE_GBYTES_PER_S
REPETITIONS = 5


def iperf3(lab: Lab) -> float:
    """GB/s of one TCP stream between the first two hosts."""
    first, second = lab.hosts[:2]
    server = ["iperf3", "-s", "-1", "-D", "-B", second.address]
    second.check(server)
    done = first.check(["iperf3", "-c", second.address, "-t", "3", "-O", "1", "-J"], timeout_s=30)
    return float(json.loads(done)["end"]["sum_received"]["bits_per_second"]) / 8e9


def busbw(lab: Lab) -> tuple[float, dict]:
    """GB/s of `preflight bench` over every host, and its section of the report."""
    with tempfile.TemporaryDirectory() as folder:
        words = [f"--hosts={lab.names}", f"--python={sys.executable}", f"--report-dir={folder}", "--json"]
        done = lab.run([sys.executable, "-m", "preflight", "bench", *words], timeout_s=200)
        report = json.loads((Path(folder) / "report.json").read_text())
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return report["bench"]["results"][0]["busbw_gbytes_per_s"], report["bench"]


def main() -> None:
    """Both tools in turns, on two and on three hosts."""
    print(f"{'hosts':>5} {'ours':>8} {'iperf3':>8} {'limit':>8} {'ours/limit':>10} {'ours/iperf3':>11}")
    for hosts in (2, 3):
        with Lab.create(hosts) as lab:
            pairs = [(busbw(lab)[0], iperf3(lab)) for _ in range(REPETITIONS)]
        ours, theirs = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(f"{hosts:5} {ours:8.4f} {theirs:8.4f} {LIMIT:8.4f} {ours / LIMIT:10.3f} {ours / theirs:11.3f}")


if __name__ == "__main__":
    main()
