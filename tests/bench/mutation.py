"""Would the tests notice a wrong line in what verdicts, frames and secrets rest on? ``python -m tests.bench.mutation``.

Each module of MODULES is changed in one place after the other (tests.bench.mutants). The tests that ran the line are run
until one fails, in a forked process where the change has taken the place of what is loaded; a change that no test notices
is a survivor. ``--only redact`` takes the modules of that name. What SAME lists cannot be told from outside, and why.
"""

from __future__ import annotations

import argparse
import enum
import os
import signal
import sys
import time
import types
from collections import Counter, defaultdict
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.bench.mutants import UNCHANGED, Mutant, mutants, source_of
from tests.bench.mutation_same import SAME

MODULES: dict[str, str] = {
    "preflight.ledger.choice": "tests/ledger",
    "preflight.ledger.findings": "tests/ledger",
    "preflight.ledger.gates": "tests/ledger",
    "preflight.ledger.ledger": "tests/ledger",
    "preflight.ledger.waivers": "tests/ledger",
    "preflight.node.agent.frames": "tests/node/agent/test_frames.py",
    "preflight.redact": "tests/test_redact.py",
    "preflight.report.printable": "tests/report/test_printable.py",
}
WANTED = 0.85
PATIENCE_SECONDS = 30
MADE_BY_DATACLASS = ("__init__", "__eq__", "__hash__", "__setattr__")


def put_in_place(mutant: Mutant) -> None:
    """Let the loaded module, and all that took something from it, do what the changed one does. Raises what loading it raises."""
    loaded = sys.modules[mutant.module]
    made = types.ModuleType(mutant.module)
    made.__file__ = loaded.__file__
    code = mutant.code()
    sys.modules[mutant.module] = made  # dataclasses look their module up
    try:
        exec(code, vars(made))
    finally:
        sys.modules[mutant.module] = loaded
    exchanged: dict[Any, Any] = {}  # what was made anew -> what is loaded and keeps its place
    for name, new in vars(made).items():
        if isinstance(new, (type, types.FunctionType)) and new.__module__ == mutant.module and name in vars(loaded):
            exchanged[new] = vars(loaded)[name]
        if isinstance(new, enum.EnumType) and new is not vars(loaded)[name]:
            exchanged |= dict(zip(new, vars(loaded)[name], strict=True))
    for name, new in vars(made).items():
        old = vars(loaded).get(name)
        if name.startswith("__") or old is new:
            continue
        if isinstance(new, type) and isinstance(old, type) and new.__module__ == mutant.module:
            exchange_class(old, new, exchanged)
        elif isinstance(new, types.FunctionType) and isinstance(old, types.FunctionType):
            exchange_function(old, new, exchanged)
        else:
            constant = of_loaded(new, exchanged)
            for module in list(sys.modules.values()):
                for held, value in list(vars(module).items()):
                    if value is old and (module is loaded or held == name):
                        setattr(module, held, constant)


def of_loaded(value: Any, exchanged: dict[Any, Any]) -> Any:
    """A constant that holds what is loaded, not what was made anew."""
    if isinstance(value, dict):
        return {of_loaded(key, exchanged): of_loaded(item, exchanged) for key, item in value.items()}
    if isinstance(value, (set, tuple)):
        return type(value)(of_loaded(item, exchanged) for item in value)
    return exchanged.get(value, value) if isinstance(value, (enum.Enum, type, types.FunctionType)) else value


def exchange_function(old: types.FunctionType, new: types.FunctionType, exchanged: dict[Any, Any]) -> None:
    """Let one function do what another does."""
    old.__code__ = new.__code__
    old.__defaults__ = of_loaded(new.__defaults__, exchanged)
    old.__kwdefaults__ = of_loaded(new.__kwdefaults__, exchanged)


def exchange_class(old: type, new: type, exchanged: dict[Any, Any]) -> None:
    """Let a class do what another does."""
    if issubclass(old, enum.Enum):
        for one, other in zip(old, new, strict=True):
            one._value_ = other._value_
    for name, attribute in vars(new).items():
        held = vars(old).get(name)
        ours = getattr(attribute, "fget", attribute)
        if isinstance(ours, types.FunctionType) and ours.__code__.co_filename.endswith(".py"):
            kept = getattr(held, "fget", held)
            exchange_function(kept, ours, exchanged)
            if type(held) is not type(attribute):
                setattr(old, name, kept)
        elif isinstance(attribute, types.MemberDescriptorType):
            continue  # the place of a field in objects of that very class
        elif not issubclass(old, enum.Enum) and (not name.startswith("__") or name in MADE_BY_DATACLASS):
            setattr(old, name, attribute)


class Runner:
    """Runs the collected tests against every change: in a fork, those that run its line, the quickest first."""

    def __init__(self, todo: list[Mutant]) -> None:
        self.todo = todo
        self.survivors: list[Mutant] = []
        self.failed = False
        self.seconds: dict[str, float] = {}
        self.ran: dict[tuple[str, int], set[str]] = defaultdict(set)  # file and line -> tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of pytest's own loop."""
        for item in session.items:
            self.trace(item)
        for module in {mutant.module for mutant in self.todo}:
            if not self.survives(Mutant(module, 0, UNCHANGED, 0, "none"), session.items):
                self.failed = True  # then what follows would tell nothing
        for number, mutant in enumerate([] if self.failed else self.todo, 1):
            if self.survives(mutant, session.items):
                self.survivors.append(mutant)
                print(f"SURVIVES {mutant.module}:{mutant.line} {mutant.words}: {mutant.source()}", flush=True)
            if number % 100 == 0:
                print(f"{number} of {len(self.todo)}, {len(self.survivors)} survive", flush=True)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self.failed = self.failed or report.failed

    def trace(self, item: pytest.Item) -> None:
        """Run a test unchanged, and note which lines it runs."""
        files = {str(source_of(name)) for name in MODULES}

        def lines(frame: types.FrameType, event: str, _: object) -> object:
            if event == "line":
                self.ran[frame.f_code.co_filename, frame.f_lineno].add(item.nodeid)
            return lines

        def calls(frame: types.FrameType, _event: str, _: object) -> object:
            return lines if frame.f_code.co_filename in files else None

        begun = time.monotonic()
        sys.settrace(calls)
        try:
            runtestprotocol(item, log=True, nextitem=None)
        finally:
            sys.settrace(None)
        self.seconds[item.nodeid] = time.monotonic() - begun

    def survives(self, mutant: Mutant, items: list[pytest.Item]) -> bool:
        """Whether no test fails with a change."""
        ran = self.ran.get((str(source_of(mutant.module)), mutant.line), set())
        first = MODULES[mutant.module]
        chosen = [item for item in items if item.nodeid in ran or (not ran and item.nodeid.startswith(first))]
        chosen.sort(key=lambda item: self.seconds[item.nodeid])
        pid = os.fork()
        if not pid:
            signal.alarm(PATIENCE_SECONDS)  # for ever is noticed too
            code = 1
            try:
                put_in_place(mutant)
                self.failed = False
                code = 0 if all(self.holds(item) for item in chosen) else 1
            finally:
                os._exit(code)
        return os.waitpid(pid, 0)[1] == 0

    def holds(self, item: pytest.Item) -> bool:
        """Whether a test still passes."""
        reports = runtestprotocol(item, log=False, nextitem=None)
        return not any(report.failed for report in reports)


def main() -> int:
    """Change everything; 1 where too many changes survive, or tests fail without any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="modules whose name holds this")
    only = parser.parse_args().only
    modules = [name for name in MODULES if only in name]
    todo = [mutant for name in modules for mutant in mutants(name) if mutant.key() not in SAME]
    runner = Runner(todo)
    paths = sorted({MODULES[name] for name in modules})
    code = pytest.main(["-q", "-p", "no:cacheprovider", *paths], plugins=[runner])
    if runner.failed or code:
        print("tests fail without any change")
        return 1
    survived = Counter(mutant.module for mutant in runner.survivors)
    made = Counter(mutant.module for mutant in todo)
    for name in modules:
        print(f"{name:30} {made[name]:4} changes, {survived[name]:3} survive: {1 - survived[name] / made[name]:.1%}")
    score = 1 - len(runner.survivors) / len(todo)
    print(f"{len(todo)} changes, {len(runner.survivors)} survive: {score:.1%}; {WANTED:.0%} is wanted")
    return 0 if score >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
