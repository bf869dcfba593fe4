"""Would the tests notice a wrong line? ``python -m tests.bench.mutation --sample 300 --seed 1 judge launch diagnose job/measure``.

A sample of all changes of the named rooms (tests.bench.mutants; every room and checks/ where none is named) is tried one by
one: the changed file stands in a copy of the repository, and a fork of a process that has imported the libraries runs the
tests that run the changed line, until one fails (tests.bench.mutation_tests). A change that no test notices is a survivor and
printed. What tests.bench.mutation_same has a reason for is left out of the sample.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import math
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest

from tests import patience
from tests.bench.mutants import Mutant, mutants
from tests.bench.mutation_tests import PROCESSES, Map, Tracer, room_of, tests_of
from tests.job.ranks import forked_ranks

ROOT = Path(__file__).parent.parent.parent
WANTED = 0.85
NOTICED, SURVIVES, LATE = "noticed", "survives", "late"
STARTING_SECONDS = 60  # before the first test runs, on a machine that does other things too
SLOWER = 4  # how many times longer than unchanged the tests may take: what goes on for ever is noticed too
PRELOADED = ("asyncio", "hypothesis.strategies", "jinja2", "msgspec", "psutil", "rich.console", "tree_sitter", "yaml")
FORKED = "RANKS_ARE_FORKS"  # tells tests of ranks that torch is imported already: a fork of theirs need not do it
PR_SET_CHILD_SUBREAPER = 36
MOMENT = struct.Struct("d")
WORDS = ("-q", "-n0", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-W", "ignore::pytest.PytestWarning")
TOUCHED = time.time_ns() // 10**9  # each change is written a second later than the one before: no bytecode fits two


class Copy:
    """A copy of the repository in which one file after the other is changed."""

    def __init__(self, within: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=within))
        self.root = self.folder / "root"
        self.log = self.folder / "log"
        self.changed = 0
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        for name in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
            if name and (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)

    def write(self, path: str, text: str) -> None:
        """Let a file be this text, and newer than it has ever been."""
        self.changed += 1
        (self.root / path).write_text(text)
        os.utime(self.root / path, (TOUCHED + self.changed,) * 2)

    def pytest(self, words: Sequence[str], plugin: object, seconds: float, *, done: str = "") -> int | None:
        """pytest's exit code in a fork, None where it did not end in time; what it started is ended with it."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setsid()
                log = os.open(self.log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
                os.dup2(log, 1)
                os.dup2(log, 2)
                os.chdir(self.root)
                for name in [name for name in sys.modules if name.split(".")[0] in ("preflight", "tests")]:
                    del sys.modules[name]
                sys.path[:] = [str(self.root), *(one for one in sys.path if one not in ("", str(ROOT)))]
                os.environ["PYTHONPATH"] = str(self.root)
                code = int(pytest.main([*WORDS, *(() if done else ("-x",)), *words], plugins=[plugin]))
                if done:
                    plugin.map().store(Path(done))  # type: ignore[attr-defined]
            finally:
                os._exit(code)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                end_what_is_left()
                return os.waitstatus_to_exitcode(status)
            if isinstance(plugin, Chosen) and time.monotonic() > plugin.until():
                break
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        end_what_is_left()
        return None


def end_what_is_left() -> None:
    """End all that a run of tests has started, in whatever session: this process is the parent of what has lost its own."""
    for _ in range(100):
        left = psutil.Process().children(recursive=True)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=10)
        if not left:
            return


class Chosen:
    """A plugin that leaves only these tests, those of quick files first."""

    def __init__(self, tests: Sequence[str], seconds: dict[str, float], patient: float) -> None:
        self.tests = set(tests)
        self.seconds, self.patient = seconds, patient
        self.of_file: Counter[str] = Counter()
        for test in tests:
            self.of_file[test.split("::")[0]] += seconds[test]
        self.memory = mmap.mmap(-1, MOMENT.size)  # which the fork shares: when the test that runs will be late

    def allowed(self, tests: Iterable[str]) -> float:
        """For how many seconds these tests may go on."""
        return self.patient * (STARTING_SECONDS + SLOWER * sum(self.seconds[test] for test in tests))

    def until(self) -> float:
        """When the test that runs now, in the fork, is late."""
        return float(MOMENT.unpack(self.memory[:])[0]) or math.inf

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test that hangs is ended before others have had their time."""
        self.memory[:] = MOMENT.pack(time.monotonic() + self.allowed([nodeid]))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the order within a file: what it prepares is prepared once."""
        items[:] = [item for item in items if item.nodeid in self.tests]
        items.sort(key=lambda item: self.of_file[item.nodeid.split("::")[0]])


COPY: Copy
MAP: Map


def begin(map_file: Path, has_ranks: bool, within: Path) -> None:
    """What a worker has; its copy goes with the folder that it lies in."""
    global COPY, MAP
    COPY, MAP = Copy(within), Map.stored(map_file)
    for name in PRELOADED:
        importlib.import_module(name)
    if has_ranks:
        for name in forked_ranks.PRELOADED:
            importlib.import_module(name)
        os.environ[FORKED] = "yes"
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def unchanged(mutant: Mutant) -> str:
    """What the tests of a change say of the file as it is: they must not fail, for nothing would be worth their failing."""
    return tried(mutant, (ROOT / mutant.path).read_text())


def outcome(mutant: Mutant) -> str:
    """Whether a test failed with a change, none did, or the tests did not end with it in time."""
    return tried(mutant, mutant.text((ROOT / mutant.path).read_text()))


def tried(mutant: Mutant, text: str) -> str:
    """What the tests of a change say of this text of its file.

    Where a change takes the chosen tests away, as a row of a table does that they are made from, none has failed.
    """
    COPY.write(mutant.path, text)
    try:
        for stage in MAP.stages(mutant.path, mutant.lines, is_at_import=mutant.is_at_import):
            # Patient: else a machine that others use would end them, and they count as failed.
            chosen = Chosen(stage, MAP.seconds, patience.of_this_machine())
            files = sorted(chosen.of_file, key=chosen.of_file.__getitem__)
            code = COPY.pytest(files, chosen, chosen.allowed(stage))
            if code is None:
                return LATE
            if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return NOTICED
        return SURVIVES
    finally:
        COPY.write(mutant.path, (ROOT / mutant.path).read_text())


def files_of(rooms: Sequence[str]) -> list[str]:
    """The files of these rooms, from the root; of all rooms where none is named."""
    files = sorted([*ROOT.glob("preflight/**/*.py"), *ROOT.glob("checks/*.py")])
    paths = [str(file.relative_to(ROOT)) for file in files]
    within = {room: [path for path in paths if path.startswith((f"preflight/{room}/", f"{room}/"))] for room in rooms}
    if unknown := [room for room in rooms if not within[room]]:
        raise SystemExit(f"no room is called {', '.join(unknown)}")
    return sorted({path for some in within.values() for path in some}) if rooms else paths


def drawn(paths: Sequence[str], sample: int, seed: int) -> list[Mutant]:
    """A sample of all changes of these files; all of them where the sample is 0."""
    every = [one for path in paths for one in mutants(path, (ROOT / path).read_text())]
    return random.Random(seed).sample(every, min(sample, len(every))) if sample else every


def main() -> int:
    """Change a sample; 1 where too many changes survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "rooms", nargs="*", help="names of rooms or of folders in them, such as launch, job/measure, checks"
    )
    parser.add_argument("--sample", type=int, default=300, help="how many changes; 0 for all")
    parser.add_argument("--seed", type=int, default=1, help="which sample is drawn")
    parser.add_argument("--controls", type=int, default=12, help="how many of the sample are first tried unchanged")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    parser.add_argument(
        "--map", type=Path, help="where it is kept which test runs which line; made where it is missing"
    )
    words = parser.parse_args()
    os.chdir(ROOT)
    paths = files_of(words.rooms)
    sample = drawn(paths, words.sample, words.seed)
    todo = [mutant for mutant in sample if not mutant.why_same]
    for why, count in Counter(mutant.why_same for mutant in sample if mutant.why_same).items():
        print(f"left out: {count}, {why}")
    with tempfile.TemporaryDirectory(prefix="mutation-", ignore_cleanup_errors=True) as folder:
        map_file = words.map or Path(folder, "map.json")
        if not map_file.exists():
            make_map(paths, map_file.absolute(), Path(folder))
        survivors, late, begun = [], 0, time.monotonic()
        has_ranks = any(mutant.path.startswith(tuple(PROCESSES)) for mutant in todo)
        with ProcessPoolExecutor(words.jobs, get_context("fork"), begin, (map_file, has_ranks, Path(folder))) as pool:
            controls = todo[:: max(1, len(todo) // words.controls)][: words.controls] if words.controls else []
            for mutant, found in zip(controls, pool.map(unchanged, controls), strict=True):
                if found != SURVIVES:
                    raise SystemExit(f"the tests fail though nothing is changed, as if they noticed {mutant}")
            for number, (mutant, found) in enumerate(zip(todo, pool.map(outcome, todo), strict=True), 1):
                late += found == LATE
                if found == SURVIVES:
                    survivors.append(mutant)
                    print(f"SURVIVES {mutant}", flush=True)
                if number % 20 == 0:
                    print(
                        f"{number} of {len(todo)}, {len(survivors)} survive, {time.monotonic() - begun:.0f} s",
                        flush=True,
                    )
    made, lived = (Counter(room_of(mutant.path) for mutant in some) for some in (todo, survivors))
    for room in sorted(made):
        print(f"{room:24} {made[room]:5} changes, {lived[room]:4} survive: {1 - lived[room] / made[room]:.1%} noticed")
    score = 1 - len(survivors) / len(todo)
    print(f"{late} of those noticed went on for longer than {SLOWER} times as long")
    print(f"{len(todo)} changes, {len(survivors)} survive: {score:.1%} noticed; {WANTED:.0%} is wanted")
    return 0 if score >= WANTED else 1


def make_map(paths: Sequence[str], file: Path, within: Path) -> None:
    """Run the tests unchanged."""
    copy, begun = Copy(within), time.monotonic()
    every = {place for path in paths for place in tests_of(path)}
    places = sorted(one for one in every if not any(one.startswith(f"{other}/") for other in every))
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    copy.pytest(places, Tracer(copy.root, paths), 3600, done=str(file))
    if not file.exists():
        raise SystemExit(f"the tests did not run unchanged: {copy.log.read_text()[-2000:]}")
    made = Map.stored(file)
    print(f"{len(made.seconds)} tests of {', '.join(places)} pass unchanged, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
