"""Is every healthy platform left in peace, and every fault planted in its raw material named?

`python -m tests.bench.twins` prints the table; with names of platforms, and ``-v`` what was said of each fault. With
``--ssh`` the healthy ones are judged by `pytest --hosts=` over ssh, on hosts of the lab.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

from tests.lab.lab import Lab
from tests.twins import folder, node, over_ssh, planted
from tests.twins.platform import Platform
from tests.twins.platforms import BY_NAME, PLATFORMS
from tests.twins.twin import Twin, notable

NODES = 3


def row(platform: Platform, *, is_verbose: bool, only: str) -> tuple[bool, int, int, int]:
    """Whether the healthy platform is left in peace; how many faults, how many named, how many with false blames."""
    with tempfile.TemporaryDirectory() as under:
        begun = time.monotonic()
        twin = Twin(node.make(platform, NODES, Path(under)))
        twin.healthy = twin.documents()
        unwell = notable(twin.judge(twin.healthy))
        outcomes = []
        for fault in planted.fitting(platform):
            if re.search(only, fault.name):
                try:
                    outcomes.append(planted.try_fault(twin, platform, fault))
                except folder.HasNoSuchText as reason:
                    print(f"    {fault.name} does not fit: {reason}")
        seconds = time.monotonic() - begun
    named = sum(outcome.is_named for outcome in outcomes)
    false = sum(bool(outcome.others) for outcome in outcomes)
    state = "no" if unwell else "yes"
    print(f"{platform.name:>18} {state:>8} {len(outcomes):>7} {named:>6} {false:>6} {seconds:>6.1f} s", flush=True)
    for finding in unwell:
        print(f"    healthy: {finding.verdict} {finding.check} {','.join(finding.nodes)}: {finding.message[:200]}")
    for outcome in outcomes:
        if not outcome.is_named or outcome.others or is_verbose:
            print(f"    {outcome.fault}: {'named' if outcome.is_named else 'NOT NAMED'}")
            for finding in outcome.said if not outcome.is_named or is_verbose else outcome.others:
                print(f"        {finding.verdict} {finding.check} {','.join(finding.nodes)}: {finding.message[:160]}")
    return not unwell, len(outcomes), named, false


def over_lab(platform: Platform) -> bool:
    """Whether a whole run over ssh, on lab hosts under which the platform was put, ends with 0 and nothing told."""
    begun = time.monotonic()
    with Lab.create(2, rate=None) as lab, tempfile.TemporaryDirectory() as under:
        over_ssh.lay(lab, platform)
        code, report, _ = over_ssh.run(lab, Path(under) / "report")
    told = [finding for finding in report["findings"] if finding["verdict"] not in ("pass", "skip")]
    print(f"{platform.name:>18} {code:>8} {len(report['findings']):>8} {time.monotonic() - begun:>6.1f} s", flush=True)
    for finding in told:
        print(f"    {finding['verdict']} {finding['check']} {','.join(finding['nodes'])}: {finding['message'][:200]}")
    return code == 0 and not told


def main() -> int:
    """Every platform, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("platforms", nargs="*", choices=[*BY_NAME, []], default=[])
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--only", default="", help="a regular expression of the faults to plant")
    parser.add_argument("--healthy", action="store_true", help="without planting faults")
    parser.add_argument("--ssh", action="store_true", help="the healthy ones over ssh, on two hosts of the lab")
    chosen = parser.parse_args()
    if chosen.ssh:
        print(f"{'platform':>18} {'exit':>8} {'findings':>8}")
        wanted = [
            platform for platform in PLATFORMS if platform.over_ssh and platform.name in (chosen.platforms or BY_NAME)
        ]
        well = sum(over_lab(platform) for platform in wanted)
        print(f"{len(wanted)} platforms over ssh, {well} healthy")
        return 0 if well == len(wanted) else 1
    print(f"{'platform':>18} {'healthy':>8} {'faults':>7} {'named':>6} {'false':>6}")
    rows = [
        row(platform, is_verbose=chosen.verbose, only="(?!)" if chosen.healthy else chosen.only)
        for platform in PLATFORMS
        if not chosen.platforms or platform.name in chosen.platforms
    ]
    healthy, faults, named, false = (sum(column) for column in zip(*rows, strict=True))
    print(f"{len(rows)} platforms, {healthy} healthy; {faults} faults, {named} named, {false} with false blames")
    return 0 if healthy == len(rows) and named == faults and not false else 1


if __name__ == "__main__":
    sys.exit(main())
