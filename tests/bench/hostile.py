"""What does a node that lies, floods or falls silent cost? ``python -m tests.bench.hostile [--share K/N]``.

A lab of honest and hostile hosts, each hostile one in a mode of tests.bench.hostile_node: every message of the wire,
damaged in every way. Facts, launch files and the quick checks are asked of many hostile hosts at once; the modes that
need a job get a run of their own. In every run: it ends in time and in bounded memory, honest nodes are blamed for
nothing, no raw control byte or CI command comes out anywhere, and it is not green.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from preflight.cli.launch import COMPARED
from preflight.job.collect.subjects import ASKED
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
SAID_AGAIN = (
    "joined.twice",
    "joined.more",
    "measured.twice",
    "losses.twice",
    "losses.more",
    "trained.more",
    "files.twice",
    "mesh.twice",
    "listening.twice",
    "listening.more",
    "port.twice",
    "measured.more",
)  # the same figures, more than once, or a word that nobody reads
LAUNCH = "torchrun --nnodes={nodes} --nproc_per_node=1 --rdzv_backend=c10d --rdzv_endpoint=node1:29500 train.py\n"
LIED = "/tmp/lied"  # on a hostile host
UNASKED_BY_JOBS = ("ports", "limits", "files")  # no check of these verbs is about them
SLOW = ("silent", "never", "drip", "noise", "one line")  # what is waited for: such modes wait together


@dataclass(frozen=True)
class Seen:
    """How one command over hostile nodes ended."""

    verb: str
    modes: dict[str, str]  # of each hostile node
    lied: frozenset[str]  # the nodes whose mode had its message: others were honest in this command
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
        if self.code not in {0, 1, 3}:
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
        for node in sorted(self.lied - self.blamed()):
            if not is_harmless(self.modes[node], self.verb):
                yield f"{node} is green in spite of {self.modes[node]}"
        if self.code != self.written_code():
            yield f"ended with {self.code}, and its report says {self.written_code()}"
        if self.blamed() and self.code == 0 and self.verb in {"facts", "launch"}:
            yield "is green in spite of what it says"

    def blamed(self) -> set[str]:
        """The hostile nodes of which something is said that is no pass: in a report, where one is written, by name."""
        said = {line.partition(b": ")[0].decode(errors="replace") for line in self.output.splitlines()}
        found = {node for node in self.modes if node in said}
        with contextlib.suppress(OSError):
            document = json.loads((self.report / "report.json").read_text())
            for finding in document["findings"]:
                names = set(finding["nodes"])
                is_red = finding["verdict"] in {"fail", "error"} and self.code in {1, 3}  # whoever else shares it
                if is_red or (finding["verdict"] == "warn" and self.modes.keys() >= names):
                    found |= names & self.modes.keys()
        return found

    def written_code(self) -> int:
        """The exit code that stands in the report, -1 where none does; that of the process, of a verb without a report."""
        if self.verb in {"facts", "launch"}:
            return self.code
        code = -1
        with contextlib.suppress(OSError):
            code = json.loads((self.report / "report.json").read_text())["exit_code"]
        return code

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


def is_harmless(mode: str, verb: str) -> bool:
    """Whether a lie in this message changes nothing that is judged."""
    kind, _, damage = mode.partition(".")
    if damage == "ink" and (verb in {"facts", "launch"} or kind == "ports"):
        return True  # another text is a fact like any other, and nodes are not compared by it
    judged = {"facts": ASKED, "launch": set(COMPARED)}.get(verb)
    if verb in {"bench", "train"} and kind in UNASKED_BY_JOBS:
        return True
    if judged is not None and kind in hostile_node.KINDS and kind not in {*judged, "ending"}:
        return True
    return kind in HARMLESS_KINDS or mode in SAID_AGAIN


def hostfile(folder: Path, modes: dict[str, str]) -> Path:
    """Honest hosts, and one for each mode."""
    lines = [f"node{number} python={sys.executable}" for number in range(1, HONEST + 1)]
    for node, mode in modes.items():
        python = folder / f"python-{node}"
        program = f"exec {sys.executable} {hostile_node.__file__} '{mode}' {sys.executable}"
        python.write_text(f'#!/bin/sh\nexport HOSTILE_LIED={LIED}\n{program} "$@"\n')
        python.chmod(0o755)
        lines.append(f"{node} python={python}")
    if modes and all(mode.partition(".")[0] in OF_THE_FIRST for mode in modes.values()):
        lines = lines[HONEST:] + lines[:HONEST]
    path = folder / "hosts"
    path.write_text("\n".join(lines) + "\n")
    return path


def busy_machine(folder: Path) -> Path:
    """Settings for links without a rate: how fast they are says how busy this machine is, and of no node that it is slow."""
    path = folder / "preflight.toml"
    path.write_text("[bench]\nslow_below = 0.05\n")
    return path


def command(lab: Lab, top: Path, verb: str, asked: Sequence[str]) -> Seen:
    """One command over the honest hosts and one in each mode."""
    folder = Path(tempfile.mkdtemp(dir=top))
    report = folder / "report"
    modes = {f"node{number}": mode for number, mode in enumerate(asked, HONEST + 1)}
    (folder / "start.sh").write_text(LAUNCH.format(nodes=HONEST + len(modes)))
    (folder / "train.py").write_text("")
    words = {
        "facts": ["facts", f"--json={folder / 'facts.json'}"],
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
    lied = frozenset(node for node in modes if lab[node].space.root(LIED).exists())
    for node in lied:
        lab[node].space.root(LIED).unlink()
    return Seen(verb, modes, lied, process.returncode, seconds, usage.ru_maxrss / 1024, said, report)


def is_slow(mode: str) -> bool:
    """Whether a run waits for it."""
    return mode.rpartition(".")[2] in SLOW


def commands(share: tuple[int, int], verbs: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Verb and modes of each: many nodes at once, but one where the mode is about a job."""
    kept = hostile_node.MODES[share[0] :: share[1]]
    jobs = [mode for mode in kept if mode.partition(".")[0] in JOB_KINDS]
    others = sorted((mode for mode in kept if mode not in jobs), key=is_slow)
    for verb in ("facts", "launch", "run", "bench"):
        if verb in verbs:
            for start in range(0, len(others), BATCH):
                yield verb, tuple(others[start : start + BATCH])
    for mode in jobs:
        if "jobs" in verbs:
            yield VERB_OF.get(mode.partition(".")[0], "bench"), (mode,)


def main() -> int:
    """Every command; 1 where one of them was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", default="0/1", help="K/N: every N-th mode from the K-th on")
    parser.add_argument(
        "--verbs", default="facts,launch,run,bench,jobs", help="jobs: the modes that need one, by bench and train"
    )
    parser.add_argument("--labs", type=int, default=2, help="so many commands at a time")
    asked = parser.parse_args()
    first, _, step = asked.share.partition("/")
    labs: queue.SimpleQueue[Lab] = queue.SimpleQueue()
    wrong, seen_all = 0, []
    with contextlib.ExitStack() as stack:
        # In the checkout: a host of the lab has its own /tmp.
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=ROOT, prefix=".hostile-")))
        for _ in range(asked.labs):
            labs.put(stack.enter_context(Lab.create(HONEST + BATCH, rate=None)))

        def one(todo: tuple[str, tuple[str, ...]]) -> tuple[Seen, list[str]]:
            lab = labs.get()
            try:
                seen = command(lab, top, *todo)
            finally:
                labs.put(lab)
            found = list(dict.fromkeys(seen.faults()))
            shutil.rmtree(seen.report.parent, ignore_errors=True)
            return seen, found

        todo = list(commands((int(first), int(step)), asked.verbs.split(",")))
        with concurrent.futures.ThreadPoolExecutor(asked.labs) as pool:
            for seen, found in pool.map(one, [*((verb, ()) for verb in ("facts", "launch")), *todo]):
                seen_all.append(seen)
                wrong += bool(found)
                figures = f"{seen.code} {seen.seconds:5.1f} s {seen.memory_mib:4.0f} MiB"
                named = ", ".join([*seen.modes.values()][:1]) or "none: all are honest"
                print(f"{seen.verb:6} {figures}  {named}, {len(seen.lied)} of {len(seen.modes)} lied", flush=True)
                for words in found:
                    print(f"       WRONG: {words}", flush=True)
    for verb in dict.fromkeys(seen.verb for seen in seen_all):
        lied = sum(len(seen.lied) for seen in seen_all if seen.verb == verb)
        print(f"{verb:6} {lied} modes had their message")
    slowest, largest = max(seen.seconds for seen in seen_all), max(seen.memory_mib for seen in seen_all)
    print(f"slowest {slowest:.0f} s, largest {largest:.0f} MiB, {wrong} of {len(seen_all)} commands went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
