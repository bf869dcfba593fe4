"""What do tests/data/said/ranked.txt list of a rank that stands still: when it is ended, and why?"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import types
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from preflight.job.ranks.rank import traces
from preflight.job.ranks.rank.limits import Planned
from tests.instead import entries, instead, instead_of
from tests.job.ranks.benched import Records
from tests.job.ranks.meeting_cast import Moments

GPU: Any = types.SimpleNamespace(type="cuda")


class Left(BaseException):
    """The process has ended."""


def leaves(said: list[str], code: int) -> None:
    """In the place of os._exit."""
    said.append(f"leaves with {code}")
    raise Left


class Shown(Records):
    """Records that say everything."""

    def __init__(self, said: list[str], rank: int) -> None:
        super().__init__(said)
        self.at = "somewhere"
        said.append(f"records of {rank}")

    def send(self, record: Any) -> None:
        """All of it."""
        self.said.append(f"sends {record}")


def of_watching() -> Iterator[str]:
    """When a rank that stands still is ended, and with which reason."""
    stages = ("running", "pairs", "communicator", "done")
    for at, doing, stands, ranks, least in product(stages, ("", "writing x"), ("", "in open"), (1, 2), (0.0, 90.0)):
        if (doing and stands) or (at != "running" and (doing or stands)):
            continue
        clock, said = Moments(), []
        held: Any = Shown(said, 1)
        held.at, held.doing, held.moved = at, doing, clock.monotonic() - 2.0
        held.planned = Planned(ranks=40, rounds=8, message_bytes=1 << 30)

        def sleeps(seconds: float, clock: Moments = clock, held: Any = held, said: list[str] = said) -> None:
            said.extend([f"looks each {seconds:g} s"] if len(said) < 2 else [])
            clock.passed += seconds
            if held.at == "done" and clock.passed > 300:
                held.at = "running"

        clock.sleep = sleeps  # type: ignore[method-assign]

        class Thread:
            def __init__(self, *, target: Any, daemon: bool) -> None:
                self.target, self.daemon = target, daemon

            def start(self) -> None:
                said.append(f"looked at by one that stays behind {self.daemon}") if not self.daemon else None  # noqa: B023
                self.target()

        with (
            instead(threading, "Thread", Thread),
            instead(os, "_exit", partial(leaves, said)),
            instead_of(traces, time=clock, stands_in=lambda stands=stands: stands),
            instead(traces, "dump_trace", lambda rank: said.append(f"writes the trace of {rank}")),  # noqa: B023
            contextlib.suppress(Left),
        ):
            traces.watch(held, seconds=20.0, least=least, ranks=ranks)
        yield f"{at} {doing} {stands} {ranks} {least:g}: after {clock.passed:.1f} s {said}"
    for seconds in (0.5, 4.0, 60.0):
        said = []
        with (
            instead(traces, "time", types.SimpleNamespace(sleep=partial(leaves, said), monotonic=lambda: 0.0)),
            instead(threading, "Thread", lambda target, daemon: types.SimpleNamespace(start=target)),
            contextlib.suppress(Left),
        ):
            traces.watch(
                types.SimpleNamespace(at="x", planned=Planned(), moved=0.0), seconds=seconds, least=0.0, ranks=1
            )  # type: ignore[arg-type]
        yield f"{seconds:g}: {said}"
    main = threading.main_thread().ident
    for module in ("torch.cuda", "preflight.x", "__main__", "torchy", "json", ""):
        code = types.SimpleNamespace(co_name="reads", co_filename="/x.py")
        frame = types.SimpleNamespace(f_globals={"__name__": module}, f_code=code, f_lineno=7)
        with instead(sys, "_current_frames", gives={main: frame}):
            yield f"{module}: {traces.stands_in()!r}"
    for dump, prefix, is_there in product((None, lambda: b"trace"), ("", "trace-"), (False, True)):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/{prefix}" if prefix else ""
            if is_there:
                Path(folder, f"{prefix}3").write_bytes(b"its own")
            c10d = types.SimpleNamespace(**({"_dump_nccl_trace": dump} if dump else {}))
            with (
                instead(torch._C, "_distributed_c10d", c10d),
                entries("os.environ", {"TORCH_FR_DUMP_TEMP_FILE": path}),
            ):
                traces.dump_trace(3)
            left = {one.name: one.read_bytes() for one in Path(folder).iterdir()}
        yield f"{dump is not None} {prefix} {is_there}: {left}"
    for environ in ({}, {"TMPDIR": "/t", "NCCL_DEBUG": "WARN"}):
        with entries("os.environ", environ, clear=True):
            yield f"{traces.keep_what_is_written(4)} {dict(os.environ)}"
