"""Do 64 ranks live for as long as they advance, and all end where one is stuck? ``python -m tests.bench.many_ranks``.

Their limits are cut tenfold, and they share the cores of this machine, so it wants a machine that does nothing else. One
run of the benchmark, with 63 rounds of pairs, and one of the training: each with all ranks well, and with one that stops.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from preflight.job.ranks.bench.settings import MIB
from tests.job.ranks.conftest import forked
from tests.job.ranks.test_limits import STUCK_MESSAGE, TENTH

RANKS, STUCK_RANK = 64, 37
# Every rank sends to every other one: rank r to rank r + d in round d.
ROUNDS = [[[rank, (rank + step) % RANKS] for rank in range(RANKS)] for step in range(1, RANKS)]
STUCK_STEP = """
import time
from torch.optim.optimizer import register_optimizer_step_pre_hook
calls = []
def stuck(optimizer, args, kwargs):
    calls.append(None)
    time.sleep(1000 if len(calls) == 2 else 0)
register_optimizer_step_pre_hook(stuck)
"""
PROGRAMS: dict[str, tuple[dict[str, Any], str]] = {
    "collectives": (
        {"operations": ["all_reduce", "all_gather"], "sizes": [MIB], "pairs": ROUNDS, "pair_bytes": MIB},
        STUCK_MESSAGE,
    ),
    "train": ({"steps": 4}, STUCK_STEP),
}


def main() -> int:
    """A row for each; 1 where a well one failed, or a rank did not end where one was stuck."""
    wrong = 0
    for name, (more, plant) in PROGRAMS.items():
        for kind, plants in (("all well", {}), ("one stuck", {str(STUCK_RANK): plant})):
            begun = time.monotonic()
            scenario = {"ranks": RANKS, "settings": {**more, **TENTH}, "plants": plants}
            played = forked(name, {kind: scenario})[kind]
            through = sum(code == 0 for code in played["codes"])
            stages = sorted({one["stage"] for one in played["records"] if one["record"] == "failed"})
            is_right = through == (0 if plants else RANKS)
            wrong += not is_right
            told = f", the others ended at {', '.join(stages)}" if stages else ""
            print(f"{name:12} {kind:10} {through} of {RANKS} through, {time.monotonic() - begun:.0f} s{told}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
