"""Is our busbw the link's?

Three collectives beside iperf3 on shaped links, in turns: ``python -m tests.bench.busbw``.

    python -m tests.bench.busbw --repetitions 1 --hosts 3

The limit is 1448/1514 of the shaped rate: tc counts the Ethernet header, TCP carries 1448 of each 1500 bytes. What is
compared is what the busiest link carries one way: busbw, but for Gloo's broadcast, whose root sends to both others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from tests.lab.lab import Lab

RATE_GBYTES_PER_S = 0.125
LIMIT = 0.9564 * RATE_GBYTES_PER_S
OPERATIONS = ("all_reduce", "broadcast", "sendrecv")


def iperf3(lab: Lab) -> float:
    """GB/s of one TCP stream between the first two hosts."""
    first, second = lab.hosts[:2]
    server = ["iperf3", "-s", "-1", "-D", "-B", second.address]
    second.check(server)
    done = first.check(["iperf3", "-c", second.address, "-t", "3", "-O", "1", "-J"], timeout_s=30)
    return float(json.loads(done)["end"]["sum_received"]["bits_per_second"]) / 8e9


def busbw(lab: Lab, *operations: str) -> tuple[dict[str, float], dict]:
    """GB/s of `preflight bench` over every host for each collective, and its section of the report."""
    with tempfile.TemporaryDirectory() as folder:
        words = [f"--hosts={lab.names}", f"--python={sys.executable}", f"--report-dir={folder}", "--json"]
        words += [f"--op={','.join(operations)}"]
        done = lab.run([sys.executable, "-m", "preflight", "bench", *words], timeout_s=200)
        report = json.loads((Path(folder) / "report.json").read_text())
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return {result["op"]: result["busbw_gbytes_per_s"] for result in report["bench"]["results"]}, report["bench"]


def main() -> None:
    """Both tools in turns; the medians of both, and of the ratios of each turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--hosts", type=int, nargs="*", choices=(2, 3), default=[2, 3])
    options = parser.parse_args()
    titles = ("hosts", "collective", "busbw", "link", "iperf3", "limit", "link/limit", "link/iperf3")
    print("{:>5} {:>10} {:>8} {:>8} {:>8} {:>8} {:>10} {:>11}".format(*titles))
    for hosts in options.hosts:
        with Lab.create(hosts) as lab:
            turns = [(busbw(lab, *OPERATIONS)[0], iperf3(lab)) for _ in range(options.repetitions)]
        theirs = statistics.median(rate for _, rate in turns)
        for op in OPERATIONS:
            copies = hosts - 1 if op == "broadcast" else 1
            ours = statistics.median(found[op] for found, _ in turns)
            link, ratio = copies * ours, statistics.median(copies * found[op] / rate for found, rate in turns)
            row = f"{hosts:5} {op:>10} {ours:8.4f} {link:8.4f} {theirs:8.4f} {LIMIT:8.4f}"
            print(f"{row} {link / LIMIT:10.3f} {ratio:11.3f}", flush=True)


if __name__ == "__main__":
    main()
