"""The logs of the tests in other circumstances: of a job that went on, beside another log, cut off, of several ranks.

Each log is tried in a few of them, its neighbours in others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from zlib import crc32

from tests.diagnose.test_logs import logs

EACH = 3  # circumstances that one log is tried in
STEPS = [f"step {number} loss 2.{number}" for number in range(100, 110)]
BEGUN = "srun: job 17 has been allocated resources"
Lines = list[str]
# What becomes of a log, with another one at hand: name of a file -> its lines.
CIRCUMSTANCES: dict[str, Callable[[Lines, Lines], dict[str, Lines]]] = {
    "a step after it": lambda log, _: {"log": [*log, STEPS[0]]},
    "steps after it": lambda log, _: {"log": [*log, *STEPS[:6]]},
    "steps before it": lambda log, _: {"log": [*STEPS, *log]},
    "a good end after it": lambda log, _: {"log": [*STEPS, *log, "Training completed"]},
    "a good end before it": lambda log, _: {"log": [*STEPS, "Training completed", *log]},
    "a good end beside it": lambda log, _: {"rank0.log": [*STEPS, "Training completed"], "rank1.log": log},
    "a checkpoint before it": lambda log, _: {"log": [*STEPS, "Saved checkpoint to /data/step_109", *log]},
    "an orderly end before it": lambda log, _: {"log": [*STEPS, "Exiting program after receiving SIGTERM.", *log]},
    "another job before it": lambda log, other: {"log": [*other, BEGUN, *log]},
    "it before another job": lambda log, other: {"log": [*log, BEGUN, *other]},
    "another log before it": lambda log, other: {"log": [*other, *log]},
    "another rank beside it": lambda log, other: {"rank0.log": log, "rank1.log": other},
    "another rank before it": lambda log, other: {"rank0.log": other, "rank1.log": log},
    "its first half": lambda log, _: {"log": log[: (len(log) + 1) // 2]},
    "its second half": lambda log, _: {"log": log[len(log) // 2 :]},
    "each line twice": lambda log, _: {"log": [line for line in log for _ in range(2)]},
    "of four ranks": lambda log, _: {"log": [f"[rank{n % 4}]: {line}" for n, line in enumerate(log)]},
    "of eight tasks": lambda log, _: {"log": [f"{n % 8}: {line}" for n, line in enumerate(log)]},
    "on two nodes": lambda log, _: {"log": [f"gpu{n % 2 + 1}: {line}" for n, line in enumerate(log)]},
    "a minute a line": lambda log, _: {"log": [f"2025-03-01 10:{n % 60:02}:00 {line}" for n, line in enumerate(log)]},
    "quoted": lambda log, _: {"log": [*STEPS, *(f"> {line}" for line in log)]},
    "ended by a limit": lambda log, _: {
        "log": [*log, "slurmstepd: error: *** JOB 17 ON n1 CANCELLED AT 2025-03-01T12:00:00 DUE TO TIME LIMIT ***"]
    },
    "ended by a node": lambda log, _: {
        "log": [*log, "slurmstepd: error: *** JOB 17 ON n1 CANCELLED AT 2025-03-01T12:00:00 DUE TO NODE FAILURE ***"]
    },
    "ended by a user": lambda log, _: {"log": [*log, "Traceback (most recent call last):", "KeyboardInterrupt"]},
    "a rank killed after it": lambda log, _: {"log": [*log, "srun: error: n1: task 3: Killed"]},
}


def altered() -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Source and name of each log, the circumstances, and the files."""
    every = [(*name.split(": ", 1), list(lines)) for name, (_, lines) in logs().items()]
    ways = list(CIRCUMSTANCES.items())
    for place, (source, name, lines) in enumerate(every):
        other = every[place - 1][2]
        start = crc32(name.encode())  # by its name: another log does not change what this one is tried in
        for number in range(EACH):
            how, make = ways[(start + number) % len(ways)]
            yield source, name, how, {file: "\n".join(held) for file, held in make(lines, other).items()}
