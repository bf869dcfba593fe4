"""Does a healthy cluster stay without a finding, and is one fault the same finding each time? ``python -m tests.bench.healthy``.

Four hosts, one profile after the other: no finding is worse than a pass or a skip, and the exit code is 0. Then each
fault is planted on one of them, and check, verdict, nodes and words are those of the first time, figures apart.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e import thresholds
from tests.lab import faults
from tests.lab.host import LabHost
from tests.lab.lab import Lab

HOSTS = 4
VICTIM = "node3"
RUNS, STANDARD_RUNS, REPEATS = 100, 20, 20
FAULTS: dict[str, Callable[[LabHost], Any]] = {
    "own name is loopback": lambda host: faults.hostname_resolves_to(host, "127.0.1.1"),
    "firewall": faults.drop_incoming_high_ports,
    "mtu": lambda host: faults.mtu(host, 1400),
    "another torch": lambda host: faults.torch_version(host, "2.12.0"),
    "stopped sshd": faults.stop_sshd,
}
FIGURES = re.compile(r"\d+(?:\.\d+)?")
Said = tuple[int, frozenset[tuple[str, str, tuple[str, ...], str]]]


def judged(lab: Lab, folder: Path, *words: str) -> Said:
    """The exit code of one run, and its findings that are worse than a skip: check, verdict, nodes, words."""
    report = folder / "report"
    argv = [sys.executable, "-m", "preflight", "run", f"--hosts={lab.names}", f"--python={sys.executable}"]
    settings = thresholds.for_busy_machine(report)
    done = lab.run([*argv, f"--report-dir={report}", settings, *words], timeout_s=300)
    document = json.loads((report / "report.json").read_text())
    bad = (finding for finding in document["findings"] if finding["verdict"] not in {"pass", "skip"})
    found = {(f["check"], f["verdict"], tuple(f["nodes"]), FIGURES.sub("N", f["message"])) for f in bad}
    return done.returncode, frozenset(found)


def alarms(lab: Lab, folder: Path, profile: str, runs: int) -> int:
    """How many runs over healthy hosts were not green."""
    false = 0
    for number in range(runs):
        code, found = judged(lab, folder, f"--profile={profile}")
        if code or found:
            false += 1
            print(f"  run {number}: exit code {code}, {sorted(found)[:3]}", flush=True)
    print(f"healthy, {profile}: {false} of {runs} runs not green", flush=True)
    return false


def moods(lab: Lab, folder: Path, name: str, repeats: int) -> int:
    """How many runs said something else of a fault than most did, or blamed another node."""
    seen: Counter[Said] = Counter()
    for _ in range(repeats):
        with contextlib.closing(contextlib.ExitStack()) as planted:
            planted.enter_context(FAULTS[name](lab[VICTIM]))
            seen[judged(lab, folder, "--profile=quick")] += 1
    (usual, count), *others = seen.most_common()
    blamed = {node for _, verdict, nodes, words in usual[1] if verdict == "fail" for node in nodes}
    is_right = usual[0] in {1, 3} and (blamed == {VICTIM} or usual[0] == 3)
    print(f"{name}: the same in {count} of {repeats}, exit code {usual[0]}", flush=True)
    for said, times in others:
        print(f"  {times} of them: exit code {said[0]}, {sorted(said[1] ^ usual[1])[:4]}", flush=True)
    if not is_right:
        print(f"  WRONG: {sorted(usual[1])[:6]}")
    return repeats - count + (not is_right)


def main() -> int:
    """Healthy runs, then each fault; 1 where one was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="of the quick profile")
    parser.add_argument("--standard", type=int, default=STANDARD_RUNS, help="runs of the standard profile")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of each fault")
    parser.add_argument("--faults", default=",".join(FAULTS))
    asked = parser.parse_args()
    with Lab.create(HOSTS) as lab, tempfile.TemporaryDirectory() as name:
        wrong = alarms(lab, Path(name), "quick", asked.runs)
        wrong += alarms(lab, Path(name), "standard", asked.standard)
        wrong += sum(moods(lab, Path(name), fault, asked.repeats) for fault in filter(None, asked.faults.split(",")))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
