"""What do tests/data/said/ranked.txt list of a whole meeting: what each side asks, starts, says and leaves with?"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import re
import socket
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from typing import Any

import torch.distributed  # noqa: F401 - once: what a patch of sys.modules takes away cannot be imported again

from preflight.job.ranks import attendance, meeting
from tests.instead import Asked, Noted, entries, instead, instead_of
from tests.job.ranks.meeting_cast import Events, Guard, Moments, Started, Store, Thread, died, played, told

FIRST = attendance.Node("gpu0", "10.0.0.1", "10.0.0.1", "a", 0, 4, 2, "1.0")
SECOND = replace(FIRST, name="gpu1", address="10.0.0.2", nonce="b", rank=2)


def of_following() -> Iterator[str]:
    """Which programs are started until there is a verdict, and what a rank makes of a store that is lost."""
    cases: dict[str, tuple[dict[float, dict[str, Any]], float, float]] = {
        "a verdict at once": ({0.0: {"verdict": b"1"}}, 1e9, 1.0),
        "a program, then a verdict": ({0.0: {"program/0": told()}, 0.25: {"verdict": b"2"}}, 1e9, 1.0),
        "two programs": ({0.0: {"program/0": told("01")}, 0.1: {"program/1": told("02"), "verdict": b"0"}}, 1e9, 1.0),
        "one for others": ({0.0: {"program/0": told(nonces=("a", "c")), "verdict": b"0"}}, 1e9, 1.0),
        "another one for us": (
            {0.0: {"program/0": told(nonces=("a", "c")), "program/1": told("03"), "verdict": b"0"}},
            1e9,
            1.0,
        ),
        "no program": ({0.0: {"program/0": "[]", "verdict": b"0"}}, 1e9, 1.0),
        "no number": ({0.0: {"verdict": b"x"}}, 1e9, 1.0),
        "nothing": ({}, 1e9, 6000.0),
        "lost": ({}, 0.35, 1.0),
    }
    for name, with_tasks in product(cases, (True, False)):
        put, lost, pace = cases[name]
        clock = Moments(pace)
        with played(clock, 2, 0) as said:
            tasks = meeting.Tasks(SECOND) if with_tasks else None
            store = Store(clock, said, {moment: dict(held) for moment, held in put.items()}, lost=lost)
            code = meeting.follow(store, tasks)
        refused = "" if tasks is None else tasks.is_refused
        yield f"{name} {with_tasks}: {code} after {clock.passed:.1f} s {refused}"
        yield from (f"  {line}" for line in said)


def of_serving() -> Iterator[str]:
    """What a rank that is not the first asks of the store, says and leaves with."""
    first = {"first": json.dumps(asdict(FIRST))}
    whole = {0.0: {**first, "program/0": told()}, 0.2: {"verdict": b"1", "why": "one\x1b check\xff".encode("latin-1")}}
    other = json.dumps({**asdict(replace(FIRST, world=6)), "version": "2.0"})
    cases: dict[str, tuple[dict[float, dict[str, Any]], float, Exception | None]] = {
        "all is well": (whole, 1e9, None),
        "no store": ({}, 1e9, RuntimeError("timed out\nafter a while")),
        "no way": ({}, 1e9, OSError("unreachable")),
        "no first": ({}, 1e9, None),
        "another world": ({0.0: {"first": other}}, 1e9, None),
        "another version": ({0.0: {"first": '{"name": "gpu9", "rank": 0, "version": "2.0"}'}}, 1e9, None),
        "a stranger": ({0.0: {"first": "[]", "verdict": b"0"}}, 1e9, None),
        "no reason": ({0.0: {**first, "verdict": b"0"}}, 1e9, None),
        "not met": ({0.0: {**first, "program/0": told(nonces=("a",)), "verdict": b"0"}}, 1e9, None),
        "lost": ({0.0: first}, 0.3, None),
    }
    for (name, (put, lost, error)), (rank, local), seconds in product(
        cases.items(), ((2, 0), (3, 1)), (4.0, 40.0, 100.0)
    ):
        if seconds != 40.0 and (name, rank) != ("lost", 2):
            continue
        clock = Moments()
        with played(clock, rank, local) as said:
            store = Store(clock, said, {moment: dict(held) for moment, held in put.items()}, lost=lost)
            found = Noted(does=error, gives=store)
            with (
                instead(meeting, "open_store", found),
                instead(meeting, "whereabouts", lambda version: replace(SECOND, version=version)),
            ):
                code = meeting.serve(Guard(said), "1.0", 10.0, seconds)  # type: ignore[arg-type]
        yield f"{name}, rank {rank}, {seconds:g} s: {code} {found.words}"
        yield from (f"  {line}" for line in said)


def of_leading() -> Iterator[str]:
    """What is told, handed on and left with beside rank 0's preflight."""
    came = {"came": 1, "came/1": json.dumps(asdict(SECOND))}
    odd = {"came": 1, "came/1": json.dumps(asdict(replace(SECOND, world=6)))}
    wide = {"came": 1, "came/1": json.dumps(asdict(replace(SECOND, rank=1, local=9)))}
    cases: dict[str, tuple[dict[float, dict[str, Any]], Exception | None, list[Any]]] = {
        "all came": ({0.0: {**came, "left": 3}}, None, [("00", "exec"), ("01", "exec"), "1\n"]),
        "some leave late": ({0.0: {**came, "left": 2}}, None, ["0\n"]),
        "more than there are": ({0.0: {**wide, "left": 4}}, None, ["0\n"]),
        "one is absent": ({}, None, [("00", "exec"), "\n"]),
        "one comes late": ({0.0: {"left": 3}, 1.0: {"came": 2, "came/2": came["came/1"]}}, None, ["2\n"]),
        "another world": ({0.0: odd}, None, []),
        "no verdict": ({0.0: {**came, "left": 3}}, None, []),
        "no store": ({}, RuntimeError("EADDRINUSE"), []),
        "no way": ({}, OSError("unreachable"), []),
    }
    for name, (put, error, given) in cases.items():
        clock = Moments()
        with played(clock, 0, 0) as said:
            events = Events(clock, said, given)
            store = Store(clock, said, {moment: dict(held) for moment, held in put.items()})
            found = Noted(does=error, gives=store)
            threads = types.SimpleNamespace(Thread=partial(Thread, said))
            with (
                instead(sys, "stdin", io.StringIO()),
                instead_of(meeting, select=events, socket=events, open_store=found, threading=threads),
                instead(meeting, "whereabouts", lambda version: replace(FIRST, version=version)),
                instead(meeting, "die_with_parent", partial(died, said)),
            ):
                code = meeting.lead(Guard(said), "1.0", 10.0, 60.0)  # type: ignore[arg-type]
        yield f"{name}: {code} {found.words} after {clock.passed:.1f} s"
        yield from (re.sub(r"/\S*/preflight-\w+/", "FOLDER/", f"  {line}") for line in said)


def of_lives() -> Iterator[str]:
    """What a process of a meeting begins with and ends with; where it is; and how a task ends."""
    for part, given, lacks in product(("lead", "serve"), (None, "INFO"), (False, True)):
        said: list[str] = []

        def side(_guard: Any, *words: Any, said: list[str] = said, part: str = part) -> int:
            said.append(f"{part} {words} {os.environ.get(meeting.LOGGED)}")
            return 7

        def guard(tell: Callable[[str], None], said: list[str] = said) -> str:
            said.append(f"a guard that can {tell.__name__}")
            return "guard"

        def leaves(code: int, said: list[str] = said) -> None:
            said.append(f"leaves with {code}")

        environ = {} if given is None else {meeting.LOGGED: given}
        modules = {"torch.distributed": None} if lacks else {}
        out = io.StringIO()
        flushes = instead(out, "flush", partial(said.append, "flushes"))
        with (
            flushes,
            instead(sys, "argv", ["meeting.py", part, "1.0", "20", "300"]),
            instead_of(meeting, lead=side, serve=side, Guard=guard, die_with_parent=partial(died, said)),
            instead(os, "_exit", leaves),
            entries("os.environ", environ, clear=True),
            entries("sys.modules", modules),  # type: ignore[arg-type]
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            try:
                meeting.main()
            except SystemExit as end:
                said.append(f"exits with {end.code}")
            said.append(f"then {os.environ.get(meeting.LOGGED)}")
        yield f"{part} {given} {lacks}: {' | '.join(said)} {out.getvalue().partition(' by ')[0]}".rstrip()
    library = Asked()
    with instead(ctypes, "CDLL", gives=library):
        meeting.die_with_parent()
        meeting.die_with_parent(0)
    yield f"{library.said}"
    for address in ("127.0.0.1", "127.0.0.2"):
        with (
            entries("os.environ", {"MASTER_ADDR": address, "MASTER_PORT": "29500"}),
            instead_of(meeting, RANK=5, WORLD=8, LOCAL_WORLD=4),
        ):
            here = meeting.whereabouts("1.2")
        yield f"{replace(here, name='', nonce='')} {here.name == socket.gethostname()} {len(here.nonce)}"
    for hangs in (False, True):
        with played(Moments(), 2, 0) as said, instead(Started, "hangs", hangs):
            tasks = meeting.Tasks(SECOND)
            tasks.end()
            tasks.start("00", "exec")
            tasks.start("01", "exec")
            said.append(f"then {tasks.process is not None}")
            tasks.end()
            said.append(f"at last {tasks.process}")
        yield " | ".join(said)
    with played(Moments(), 2, 0) as said, entries("os.environ", {"PREFLIGHT_SECRET": "ours"}):
        for proof in (meeting.proof("00", "exec", "b"), meeting.proof("00", "exec", "c"), ""):
            one = {"program": "00", "loader": "exec", "nonces": ["b"], "proof": proof}
            store = Store(Moments(), said, {0.0: {"program/0": json.dumps(one), "verdict": b"0"}})
            said.append(str(meeting.follow(store, meeting.Tasks(SECOND))))
    yield " | ".join(said)
