"""What is left on a host when whoever runs a job there ends? ``python -m tests.bench.orphans``: 200 times each.

The controller, its ssh, the agent on the host and the rank are killed, the link is cut, the host stands still: while it
is logged in to, while the job starts, or while it runs. In 15 s no process, listener or file may be left; where the link
is cut before a session is open, or before the host's Python has its program, in 35 s.
"""

from __future__ import annotations

import argparse
import sys

from tests.lab.lab import Lab
from tests.lab.orphans import KINDS, Trial

SAMPLES = 200
HOSTS = 20


def main() -> int:
    """Every kind; 1 where one left something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--kinds", default=",".join(KINDS))
    asked = parser.parse_args()
    wrong = 0
    with Lab.create(HOSTS, rate=None) as lab:
        for kind in asked.kinds.split(","):
            trial = Trial(lab, kind, seed=1)
            rounds = [trial.round() for _ in range(-(-asked.samples // HOSTS))]
            left = [f"{name}: {line}" for each in rounds for name, lines in each.left.items() for line in lines]
            orphaned = sum(len(each.left) for each in rounds)
            slowest = max(each.seconds for each in rounds)
            print(f"{kind:10} {orphaned} of {len(rounds) * HOSTS} left something, clean after {slowest:.1f} s at most")
            print("".join(f"  {line}\n" for line in left[:10]), end="", flush=True)
            wrong += orphaned
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
