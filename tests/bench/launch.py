"""How long does judging a launch file take, and does any of 10,000 mutated ones of each format end in a traceback?

Times are of the CPU, so that what else runs on the machine does not count.

python -m tests.bench.launch [MUTATIONS]
"""

from __future__ import annotations

import statistics
import sys
import time
import traceback

from preflight.launch.rules.check import check_texts
from preflight.said.errors import UsageError
from tests.launch.samples import FORMATS, mutated

MUTATIONS = 10_000


def main() -> int:
    """Print a row for each format; 1 where a mutated file raised anything but a UsageError."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else MUTATIONS
    broken = 0
    print(f"{'format':<12} {'files':>6} {'refused':>8} {'crashed':>8} {'median ms':>10} {'p99 ms':>8} {'max ms':>8}")
    for name, (file, text) in FORMATS.items():
        seconds, refused, crashed = [], 0, 0
        for seed in range(count):
            mutant = mutated(text, seed)
            start = time.process_time()
            try:
                check_texts({file: mutant})
            except UsageError:
                refused += 1
            except Exception:  # a crash is what is counted here
                crashed += 1
                if crashed == 1:
                    print(f"{name} seed {seed}:\n{traceback.format_exc()}", file=sys.stderr)
            seconds.append(time.process_time() - start)
        broken += crashed
        seconds.sort()
        median, p99 = statistics.median(seconds) * 1e3, seconds[int(len(seconds) * 0.99)] * 1e3
        print(f"{name:<12} {count:>6} {refused:>8} {crashed:>8} {median:>10.2f} {p99:>8.2f} {seconds[-1] * 1e3:>8.2f}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
