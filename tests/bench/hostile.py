"""What does a node that lies, floods or falls silent cost? ``python -m tests.bench.hostile [--share K/N]``.

A lab of honest and hostile hosts, each hostile one in a mode of tests.bench.hostile_node: every message of the wire,
damaged in every way. Facts, launch files and the quick checks are asked of many hostile hosts at once; the modes that
need a job get a run of their own. In every run: it ends in time and in bounded memory, honest nodes are blamed for
nothing, no raw control byte or CI command comes out anywhere, and it is not green.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench import hostile_node
from tests.lab.lab import Lab

ROOT = Path(__file__).resolve().parents[2]
HONEST = 2
BATCH = 20
DEADLINE_SECONDS = 60
LATE_SECONDS = 8.0
MEMORY_MIB = 300
JOB_KINDS = ("round", "port", "joined", "measured", "trained", "losses", "exit", "started")
OF_THE_FIRST = ("port", "measured", "losses")  # only the first node is asked for these: here the hostile one is it
VERB_OF = {"trained": "train", "losses": "train"}
PLANTED = (b"\x1b", b"\x07", b"\xc2\x9b", b"\n::error::", b"\n##vso[", "\u202e".encode())
# Damage that leaves a message as good as it was: nothing is asked of these words, so a lie in them changes no verdict.
HARMLESS_KINDS = ("hello", "opened", "pong", "collected", "tried", "end", "started", "exit")
SAID_AGAIN = ("joined.twice", "measured.twice", "losses.twice", "losses.more")  # the same figures, more than once
LAUNCH = (
    "#!/bin/sh\ntorchrun --nnodes=2 --nproc_per_node=1 --master_addr=node1 --master_port=29500 --node_rank=0 train.py\n"
)


@dataclass(frozen=True)
class Seen:
    """How one command over hostile nodes ended."""

    words: str
    modes: tuple[str, ...]
    code: int
    seconds: float
    memory_mib: float
    output: bytes
    report: Path

    def faults(self) -> Iterator[str]:
        """What should not have been."""
        if self.seconds > DEADLINE_SECONDS + LATE_SECONDS:
            yield f"took {self.seconds:.0f} s"
        if self.memory_mib > MEMORY_MIB:
            yield f"took {self.memory_mib:.0f} MiB"
        if self.code not in (1, 3) and not all(is_harmless(mode) for mode in self.modes):
            yield f"ended with {self.code}"
        if b"no Python could be started" in self.output:
            yield "the hostile node was not started"
        if b"Traceback" in self.output or b"INTERNALERROR" in self.output:
            yield f"shows a traceback: {self.output[-600:]!r}"
        for name, data in self.everything():
            for raw in PLANTED:
                if raw in data:
                    place = data.index(raw)
                    yield f"{name} holds {raw!r}: {data[max(0, place - 60) : place + 40]!r}"
        yield from self.wrongly_blamed()

    def everything(self) -> Iterator[tuple[str, bytes]]:
        """All that came out."""
        yield "the output", self.output
        for path in sorted(self.report.rglob("*")):
            if path.is_file():
                yield path.name, path.read_bytes()

    def wrongly_blamed(self) -> Iterator[str]:
        """Findings against honest nodes that name no hostile one."""
        with contextlib.suppress(OSError):
            document = json.loads((self.report / "report.json").read_text())
            for finding in document["findings"]:
                names = set(finding["nodes"])
                if finding["verdict"] not in ("fail", "error") or finding.get("blocked_by"):
                    continue
                honest = {f"node{number}" for number in range(1, HONEST + 1)}
                told = finding["message"]
                if names and names <= honest and not any(f"node{HONEST + n}" in told for n in range(1, BATCH + 1)):
                    yield f"{finding['check']} of {sorted(names)}: {told[:160]}"


def is_harmless(mode: str) -> bool:
    """Whether a lie in this message changes nothing that is judged."""
    return mode.partition(".")[0] in HARMLESS_KINDS or mode in SAID_AGAIN


def hostfile(folder: Path, modes: tuple[str, ...]) -> Path:
    """Honest hosts, and one for each mode."""
    lines = [f"node{number} python={sys.executable}" for number in range(1, HONEST + 1)]
    for number, mode in enumerate(modes, HONEST + 1):
        python = folder / f"python{number}"
        program = f"exec {sys.executable} {hostile_node.__file__} '{mode}' {sys.executable}"
        python.write_text(f'#!/bin/sh\n{program} "$@"\n')
        python.chmod(0o755)
        lines.append(f"node{number} python={python}")
    if all(mode.partition(".")[0] in OF_THE_FIRST for mode in modes):
        lines = lines[HONEST:] + lines[:HONEST]
    path = folder / "hosts"
    path.write_text("\n".join(lines) + "\n")
    return path


def busy_machine(folder: Path) -> Path:
    """Settings for links without a rate: how fast they are says how busy this machine is, and of no node that it is slow."""
    path = folder / "preflight.toml"
    path.write_text("[bench]\nslow_below = 0.05\n")
    return path


def command(lab: Lab, folder: Path, verb: str, modes: tuple[str, ...]) -> Seen:
    """One command over the honest hosts and one in each mode."""
    report = folder / f"report-{time.monotonic_ns()}"
    (folder / "start.sh").write_text(LAUNCH)
    words = {
        "facts": ["facts", "--json=-"],
        "launch": ["launch", "check", str(folder / "start.sh")],
        "run": ["run", "--profile=quick", f"--report-dir={report}"],
        "bench": ["bench", f"--report-dir={report}", f"--settings={busy_machine(folder)}"],
        "train": ["train", f"--report-dir={report}"],
    }[verb]
    argv = [sys.executable, "-m", "preflight", *words, f"--hosts=@{hostfile(folder, modes)}"]
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = lab.start([*argv, f"--deadline={DEADLINE_SECONDS}"], stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read()
    seconds = time.monotonic() - begun
    return Seen(verb, modes, process.returncode, seconds, usage.ru_maxrss / 1024, said, report)


def runs(share: tuple[int, int], verbs: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Verb and modes of each command."""
    kept = hostile_node.MODES[share[0] :: share[1]]
    jobs = [mode for mode in kept if mode.partition(".")[0] in JOB_KINDS]
    others = [mode for mode in kept if mode not in jobs]
    for start in range(0, len(others), BATCH):
        for verb in ("facts", "launch", "run", "bench"):
            if verb in verbs:
                yield verb, tuple(others[start : start + BATCH])
    for mode in jobs:
        verb = VERB_OF.get(mode.partition(".")[0], "bench")
        if verb in verbs:
            yield verb, (mode,)


def main() -> int:
    """Every command; 1 where one of them was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", default="0/1", help="K/N: every N-th mode from the K-th on")
    parser.add_argument("--verbs", default="facts,launch,run,bench,train")
    asked = parser.parse_args()
    first, _, step = asked.share.partition("/")
    wrong = 0
    slowest, largest = 0.0, 0.0
    counted: set[str] = set()
    # In the checkout: a host of the lab has its own /tmp.
    with (
        Lab.create(HONEST + BATCH, rate=None) as lab,
        tempfile.TemporaryDirectory(dir=ROOT, prefix=".hostile-") as name,
    ):
        for number in itertools.count():
            todo = list(runs((int(first), int(step)), tuple(asked.verbs.split(","))))
            if number == len(todo):
                break
            verb, modes = todo[number]
            seen = command(lab, Path(name), verb, modes)
            counted |= set(modes)
            slowest, largest = max(slowest, seen.seconds), max(largest, seen.memory_mib)
            found = list(dict.fromkeys(seen.faults()))
            wrong += bool(found)
            print(
                f"{verb:6} {seen.code} {seen.seconds:5.1f} s {seen.memory_mib:4.0f} MiB  {modes[0]}, {len(modes)} modes"
            )
            for words in found:
                print(f"       WRONG: {words}", flush=True)
    print(f"{len(counted)} modes, slowest {slowest:.0f} s, largest {largest:.0f} MiB, {wrong} commands went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
