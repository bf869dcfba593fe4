"""How fast are logs read, in how much memory, and does any log break the reader? ``python -m tests.bench.diagnose``.

Three logs of a GiB each go through ``preflight diagnose -``: a training that prints progress, NCCL at INFO, and words
of which no two lines are alike; the seconds are of one core, the memory is the most that was resident. Then 10,000 logs
are made by cutting, mixing and spoiling lines of real forms, and each must be diagnosed without an exception.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time

from preflight.diagnose import diagnose
from preflight.report.formats.diagnosis import diagnosis_document, diagnosis_text
from tests.diagnose.samples import ALL_LINES

MIB = 1 << 20
FAILURE = b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def progress(number: int) -> bytes:
    """A line of a training's progress."""
    head = f"[default0]: iteration {number}/ 500000 | consumed samples: {number * 8}"
    return f"{head} | lm loss: 2.{number % 997} | grad norm: 0.{number % 89}\n".encode()


def nccl(number: int) -> bytes:
    """A line of NCCL at INFO."""
    channel = f"Channel {number % 24:02}/0 : {number % 128}[0] -> {number % 64}[1] [send]"
    return f"node{number % 16}:{number % 99}:7 [{number % 8}] NCCL INFO {channel} via NET/IB/{number % 8}\n".encode()


def words(number: int) -> bytes:
    """A line like no other."""
    draw = random.Random(number)
    return (" ".join("".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(14)) + "\n").encode()


def block(kind: str, size: int) -> bytes:
    """About `size` bytes of lines of one kind."""
    make = {"progress": progress, "nccl": nccl, "words": words}[kind]
    lines: list[bytes] = []
    total, number = 0, 0
    while total < size:
        line = make(number)
        lines.append(line)
        total += len(line)
        number += 1
    return b"".join(lines)


def measure(kind: str, mebibytes: int) -> None:
    """Print the seconds of one core and the memory for a log of that size."""
    lines = block(kind, 16 * MIB)
    child = subprocess.Popen(
        [sys.executable, "-m", "preflight", "diagnose", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    sent = 0
    while sent < mebibytes * MIB:
        child.stdin.write(lines)
        sent += len(lines)
    child.stdin.write(FAILURE)
    child.stdin.close()
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert b"GPU memory is full" in said, said
    seconds = usage.ru_utime + usage.ru_stime
    print(
        f"{kind:9} {sent / MIB:6.0f} MiB {seconds:6.1f} s of one core, {usage.ru_maxrss / 1024:5.0f} MiB resident",
        flush=True,
    )


def mutated(draw: random.Random) -> list[str]:
    """A log made of pieces of others: cut, mixed, spoiled."""
    lines = draw.choices(ALL_LINES, k=draw.randrange(1, 30))
    for _ in range(draw.randrange(12)):
        at = draw.randrange(len(lines))
        line = lines[at]
        cut = draw.randrange(len(line) + 1)
        lines[at] = draw.choice(
            (
                line[:cut],
                line[cut:],
                line[:cut]
                + draw.choice(("\x00", "\x1b[31m", "\u202e", "İ", "9" * 400, "[rank" * 9, "((((", "\r"))
                + line[cut:],
                line * draw.randrange(1, 40),
                line.upper(),
                f"[rank{draw.randrange(10**9)}]: {line}",
                f"[{draw.randrange(9)},{draw.randrange(99)}]<stderr>:{line}",
            )
        )
    return lines


def mutate(count: int, seed: int = 0) -> tuple[float, float]:
    """Diagnose so many spoiled logs; the seconds a MiB, of all and of the slowest. An exception goes through.

    The seconds are of one core. A log of a few lines counts as a 32nd of a MiB: its start is not the reader's rate.
    """
    draw = random.Random(seed)
    slowest = total = size = 0.0
    diagnose(ALL_LINES)  # compiles the patterns, once a process
    for _ in range(count):
        lines = mutated(draw)
        began = time.process_time()
        diagnosis = diagnose(lines)
        seconds = time.process_time() - began
        diagnosis_text(diagnosis)
        diagnosis_document(diagnosis)
        mebibytes = sum(map(len, lines)) / MIB
        slowest = max(slowest, seconds / max(mebibytes, 1 / 32))
        total += seconds
        size += mebibytes
    return total / size, slowest


def main() -> None:
    """All of it, or part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--mutations", type=int, default=10_000)
    words_given = parser.parse_args()
    for kind in ("progress", "nccl", "words"):
        measure(kind, words_given.mebibytes)
    rate, slowest = mutate(words_given.mutations)
    print(f"{words_given.mutations} spoiled logs: no exception, {rate:.3f} s a MiB, the slowest {slowest:.3f} s a MiB")


if __name__ == "__main__":
    main()
