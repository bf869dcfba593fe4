"""How heavy and how quick is report.html of 512 nodes and 80 checks, and of 5,000: ``python -m tests.bench.html``?

The size and the time to write it always; first paint and filter where Debian's chromium and chromium-driver are.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from preflight.facts.results import Bench, Expected, Mesh, Result, Slow, Stream, TrainedRank, Training
from preflight.judge.ledger.findings import Finding, Verdict, worst
from preflight.report.document import Counts, NodeInfo, RunInfo, RunReport
from preflight.report.html.page import SIZE_LIMIT_BYTES, html_text
from preflight.report.material import Material
from tests.browser import browser, why_not

NODES, CHECKS, SHIFTS = 512, 80, 16
REPETITIONS = 5
LARGE_NODES, LARGE_CHECKS = 5000, 139
PAINT_LIMIT_MS, FILTER_LIMIT_MS = 1000, 200
LOST_SHARE = 0.03
FILTER = """
const [id, value] = arguments;
const input = document.getElementById(id);
const begun = performance.now();
input.value = value;
input.dispatchEvent(new Event('input', {bubbles: true}));
document.body.getBoundingClientRect();
return performance.now() - begun;
"""
PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


REACH = "reach.every_node_answers"


def findings(names: tuple[str, ...], checks: int, *, is_noisy: bool, lost: int = 0) -> list[Finding]:
    """Most checks pass, every fifth has a few odd nodes; noisy, each node has its own words in all of them.

    Of those that are lost each has its own words too, and every check is blocked on them.
    """
    made: list[Finding] = []
    draw = random.Random(1)
    gone = tuple(sorted(draw.sample(names, lost)))
    names = tuple(name for name in names if name not in gone)
    made += [
        Finding(REACH, Verdict.ERROR, (name,), f"not reached: connect to {name}: timed out", "`ping`") for name in gone
    ]
    for number in range(checks):
        name = f"subject{number % 9}.a_check_with_a_name_as_long_as_ours_{number}"
        if gone:
            made.append(Finding(name, Verdict.ERROR, gone, f"blocked by {REACH}", blocked_by=REACH))
        if is_noisy:
            verdicts = [draw.choice(list(Verdict)) for _ in names]
            made += [
                Finding(name, verdict, (node,), f"{number} MiB on {node}, wanted {place} MiB", f"`raise it on {node}`")
                for place, (node, verdict) in enumerate(zip(names, verdicts, strict=True))
            ]
            continue
        odd = set(draw.sample(names, 3)) if number % 5 == 0 else set()
        verdict = Verdict.FAIL if number % 10 == 0 else Verdict.WARN
        made += [Finding(name, verdict, (node,), f"{node} has 9000, the others 1500", "`ip link set`") for node in odd]
        good = tuple(node for node in names if node not in odd)
        made.append(Finding(name, Verdict.PASS, good, "Every node has the same value of this fact."))
    return made


def material(nodes: int, checks: int, *, is_noisy: bool, lost: int = 0) -> Material:
    """A whole run: findings, facts that differ, streams of many shifts, a sweep, and one rank a node."""
    names = tuple(f"gpu-node-{number:04}" for number in range(nodes))
    found = findings(names, checks, is_noisy=is_noisy, lost=lost)
    cells = sum(len(finding.nodes) for finding in found)
    draw = random.Random(2)
    streams = tuple(
        Stream(
            source=names[place],
            target=names[(place + shift) % nodes],
            shift=shift,
            gbytes_per_s=draw.gauss(11.8, 0.1) / (6 if place == 77 else 1),
        )
        for shift in range(1, SHIFTS + 1)
        for place in range(nodes)
    )
    results = tuple(
        Result(
            op="all_reduce",
            bytes=1 << power,
            iterations=20,
            seconds_first=0.6,
            seconds_median=0.5,
            seconds_p5=0.49,
            seconds_p95=0.52,
            seconds_low=0.498,
            seconds_high=0.502,
            cv=0.006,
            algbw_gbytes_per_s=busbw / 2,
            busbw_gbytes_per_s=busbw,
            busbw_low_gbytes_per_s=busbw * 0.99,
            busbw_high_gbytes_per_s=busbw * 1.01,
            wrong=0,
        )
        for power, busbw in ((power, 11.0 * (1 - 0.5 ** (power - 19))) for power in range(20, 31))
    )
    ranks = tuple(
        TrainedRank(
            rank=place,
            node=name,
            device="cuda:0",
            step_seconds_median=draw.gauss(0.1, 0.003),
            step_seconds_p95=0.12,
            parameters_digest="abc",
            gradient_error=0.0,
            parameters_error=0.0,
            import_seconds=5.0,
            finite=True,
        )
        for place, name in enumerate(names)
    )
    run = RunInfo(
        id="bench", started="2030-01-02T03:04:05+00:00", seconds=44.0, command=("preflight", "run"), version="0"
    )
    addresses = [f"10.0.{place // 256}.{place % 256}" for place in range(nodes)]
    slow = Slow(nodes=(names[77 % nodes],), direction="egress", gbytes_per_s=2.0, peers_gbytes_per_s=11.8)
    losses = tuple(5.0 - 0.15 * step for step in range(12))
    report = RunReport(
        finished=True,
        run=run,
        verdict=worst(found),
        exit_code=1,
        nodes={
            name: NodeInfo(host=name, address=address, reached=True)
            for name, address in zip(names, addresses, strict=True)
        },
        ledger=Counts(expected=cells, judged=cells, not_asked=0),
        findings=tuple(found),
        mesh=Mesh(edges=nodes * SHIFTS, ok=nodes * SHIFTS, failed=()),
        bench=Bench(
            backend="nccl",
            world_size=nodes,
            nodes=nodes,
            results=results,
            expected=Expected(busbw_gbytes_per_s=11.9, bound_gbytes_per_s=12.5, derivation=("100 Gb/s",)),
            slow=(slow,),
            streams=streams,
        ),
        training=Training(launcher="torchrun", world_size=nodes, losses=losses, ranks=ranks),
        stages={"facts": 3.0, "mesh": 2.0, "bench": 20.0, "training": 15.0},
    )
    facts = {
        name: {
            "hostname": name, "kernel": "6.1.0-28-amd64", "training interface": f"eth0 10.0.0.{place}/16",
            **{f"fact {number}": f"value {draw.randrange(1 + number % 3)}" for number in range(20)},
        }
        for place, name in enumerate(names)
    }  # fmt: skip
    return Material(report, facts, {f"rank{n}.log": "a line of a log\n" * 50 for n in range(nodes)})


def measure(name: str, drawn: Material) -> bool:
    """Print size and times of one page; whether they are within their limits."""
    begun = time.monotonic()
    page = html_text(drawn)
    seconds = time.monotonic() - begun
    size = len(page.encode())
    print(f"{name}: {size / 1e6:.2f} MB (at most {SIZE_LIMIT_BYTES / 1e6:g}), written in {seconds:.2f} s")
    if why_not():
        print(f"  {why_not()}")
        return size <= SIZE_LIMIT_BYTES
    paints, filters = [], []
    with tempfile.TemporaryDirectory() as folder, browser() as window:
        path = Path(folder) / "report.html"
        path.write_text(page, encoding="utf-8")
        for _ in range(REPETITIONS):
            window.open(path)
            deadline = time.monotonic() + 10
            while (paint := window.run(PAINT)) is None and time.monotonic() < deadline:
                time.sleep(0.05)
            paints.append(paint)
            steps = (("words", "a_check 7"), ("who", "node-00"), ("who", ""), ("words", ""))
            filters.append(max(window.run(FILTER, *step) for step in steps))
    print(f"  first paint {statistics.median(paints):.0f} ms, worst {max(paints):.0f} (at most {PAINT_LIMIT_MS})")
    print(f"  filter      {statistics.median(filters):.0f} ms, worst {max(filters):.0f} (at most {FILTER_LIMIT_MS})")
    middle, slowest = statistics.median(paints), statistics.median(filters)
    return size <= SIZE_LIMIT_BYTES and middle <= PAINT_LIMIT_MS and slowest <= FILTER_LIMIT_MS


def main() -> int:
    """A usual run with a few faults, one where every node says something else in every check, and a large one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--checks", type=int, default=CHECKS)
    chosen = parser.parse_args()
    is_well = True
    for name, is_noisy in (("a few faults", False), ("every cell its own words", True)):
        is_well &= measure(
            f"{chosen.nodes} nodes x {chosen.checks} checks, {name}",
            material(chosen.nodes, chosen.checks, is_noisy=is_noisy),
        )
    lost = round(LOST_SHARE * LARGE_NODES)
    is_well &= measure(
        f"{LARGE_NODES} nodes x {LARGE_CHECKS} checks, {lost} nodes lost",
        material(LARGE_NODES, LARGE_CHECKS, is_noisy=False, lost=lost),
    )
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
