"""What stands for the store, the clock, the processes and the other side where a meeting of ranks is listed?"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from preflight.job.ranks import attendance, meeting
from tests.instead import entries, instead


class Moments:
    """A clock that a wait puts on, and what happens meanwhile."""

    def __init__(self, pace: float = 1.0) -> None:
        self.pace = pace
        self.passed = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return 50.0 + self.passed

    def sleep(self, seconds: float) -> None:
        """Pass."""
        self.passed += seconds * self.pace


class Store:
    """Torch's, into which others put something at a moment; it says what it was asked to keep."""

    def __init__(self, clock: Moments, said: list[str], put: dict[float, dict[str, Any]], *, lost: float = 1e9) -> None:
        self.clock, self.said, self.put, self.lost = clock, said, put, lost
        self.held: dict[str, Any] = {}

    def _there(self) -> dict[str, Any]:
        if self.clock.passed >= self.lost:
            raise RuntimeError("Connection\x1b reset\nby peer")
        for moment in [one for one in self.put if one <= self.clock.passed + 1e-9]:
            self.held |= self.put.pop(moment)
        return self.held

    def check(self, keys: list[str]) -> bool:
        """Whether all are there."""
        return all(key in self._there() for key in keys)

    def get(self, key: str) -> Any:
        """The value, which is waited for."""
        if key not in self._there():
            raise RuntimeError(f"{key} did not come")
        return self._there()[key]

    def set(self, key: str, value: Any) -> None:
        """Keep a value."""
        self._there()[key] = value
        self.said.append(f"set {key} {value}")

    def add(self, key: str, count: int) -> int:
        """Count on."""
        held = self._there()
        held[key] = held.get(key, 0) + count
        self.said.extend([f"add {key} {count}"] if count else [])
        return int(held[key])


class Started:
    """A process of a task."""

    said: ClassVar[list[str]] = []
    hangs: ClassVar[bool] = False

    def __init__(self, argv: list[str], *, env: dict[str, str], preexec_fn: Callable[[], None], **more: Any) -> None:
        own = {name: value for name, value in env.items() if name.startswith(("PREFLIGHT", "NCCL"))}
        self.said.append(f"starts {argv[0] == sys.executable} {argv[1:]} {own} {more} {callable(preexec_fn)}")

    def wait(self, timeout: float) -> int:
        """Until it has ended."""
        self.said.append(f"waits {timeout:g}")
        if Started.hangs:
            Started.hangs = False
            raise subprocess.TimeoutExpired("task", timeout)
        return 0

    def kill(self) -> None:
        """End it."""
        self.said.append("kills")


class Guard:
    """Says within which seconds something is done, and what would be told where it took longer."""

    def __init__(self, said: list[str]) -> None:
        self.said = said

    @contextlib.contextmanager
    def within(self, seconds: float, why: Callable[[], str]) -> Iterator[None]:
        """As the real one, which ends the process."""
        line = f"within {seconds:g} s: {why()}"
        self.said.extend([line] if line not in self.said else [])
        yield

    def retire(self) -> None:
        """No signal ends it."""
        self.said.append("retires")


def told(program: str = "00", nonces: tuple[str, ...] = ("a", "b")) -> str:
    """What rank 0 puts into the store."""
    return json.dumps({"program": program, "loader": "exec", "nonces": nonces, "proof": ""})


@contextlib.contextmanager
def played(clock: Moments, rank: int, local: int) -> Iterator[list[str]]:
    """What this rank prints and starts, at its place in the job."""
    said: list[str] = []
    out = io.StringIO()
    environ = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "NCCL_DEBUG": "INFO", "PREFLIGHT_MEETING": "x"}
    with contextlib.ExitStack() as stack:
        for name, value in {"RANK": rank, "LOCAL_RANK": local, "WORLD": 4, "LOCAL_WORLD": 2, "time": clock}.items():
            stack.enter_context(instead(meeting, name, value))
        stack.enter_context(instead(attendance, "time", clock))
        stack.enter_context(entries("os.environ", environ, clear=True))
        stack.enter_context(instead(subprocess, "Popen", Started))
        stack.enter_context(instead(Started, "said", said))
        for name in ("why_no_answer", "why_not_here"):
            stack.enter_context(instead(meeting, name, lambda name=name: name))
        stack.enter_context(instead(meeting, "why_no_store", lambda error: f"no store: {error}"))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(out))
        yield said
    said.extend(out.getvalue().splitlines())


class Thread:
    """One that runs when it is waited for."""

    def __init__(self, said: list[str], **named: Any) -> None:
        self.said, self.named = said, named

    def start(self) -> None:
        """Only said."""
        self.said.append(f"starts a thread {self.named['target'].__name__} {self.named['daemon']}")

    def join(self, timeout: float) -> None:
        """Run."""
        self.said.append(f"joins it within {timeout:g} s: {self.named['target'](*self.named['args'])}")


class Events:
    """What comes to rank 0's side, one after the other: programs through the door, and a line of its standard input."""

    AF_UNIX = "a local one"

    def __init__(self, clock: Moments, said: list[str], events: list[Any]) -> None:
        self.clock, self.said, self.left = clock, said, list(events)
        self.came: list[str] = []

    def socket(self, family: str) -> Events:
        """The door."""
        self.said.append(f"opens {family}")
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.said.append("closes it")

    def bind(self, path: str) -> None:
        """Where it is."""
        self.said.append(f"binds it to {path}")

    def listen(self) -> None:
        """To whom comes."""
        self.said.append("listens")

    def accept(self) -> tuple[Events, str]:
        """Who came."""
        return self, ""

    def makefile(self, mode: str, encoding: str) -> io.StringIO:
        """What is said there."""
        self.said.append(f"reads as {mode} in {encoding}")
        return io.StringIO(self.came.pop())

    def select(self, reading: list[Any], _w: list[Any], _x: list[Any], seconds: float) -> tuple[list[Any], ...]:
        """What is ready."""
        stdin, door = reading
        self.said.append(f"selects for {seconds:g} s")
        if not self.left:
            return ([], [], [])
        if isinstance(event := self.left.pop(0), str):
            stdin.write(event)
            stdin.seek(0)
            return ([stdin], [], [])
        self.came.append(json.dumps(event) + "\n")
        self.clock.passed += 50.0
        return ([door], [], [])


def died(said: list[str], number: int = 15) -> None:
    """In the place of what ties a process to its parent."""
    said.append(f"ends with its parent {number}")
