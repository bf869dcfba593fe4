"""What if other nodes of a broken cluster have the fault too that the tests planted on one, or it is of two nodes?

The same fault may be told, and put right, in another way then: nobody has the value that most have, nobody is right,
the halves differ, either of two may be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from preflight.facts.value import Missing
from preflight.testing import FakeRun, healthy, infiniband, roce
from tests.checks.samples import Broken, check, with_netdevs

MADE: tuple[Callable[[int], FakeRun], ...] = (healthy, roce, cache(lambda count: with_netdevs(roce(count))), infiniband)
COMPARED = "cluster"  # the kind of checks that compare the facts of nodes
CONFIGURED = ("network.", "software.", "gpu.driver")  # what systems keep, and take, in different ways
MANAGERS = ("netplan", "NetworkManager", "systemd-networkd")


def spreads(row: Broken) -> Iterator[tuple[str, FakeRun]]:
    """The cluster with the fault of its first broken node on others too, each with a word for how many."""
    if not row.nodes or check(row.name).kind != COMPARED:
        return
    run, (broken, *_) = row.run, row.nodes
    count = len(run.names)
    make = max(MADE, key=lambda made: likeness(run, made(count)))
    others = [name for name in run.names if name != broken]
    yield "most", carried(run, make(count), broken, run, others[1:])
    yield "half", carried(run, make(count), broken, run, others[(count + 1) // 2 :])
    two = make(2)
    yield "two", carried(run, make(count), broken, two, [broken if broken in two.names else two.names[-1]])


def platforms(row: Broken) -> Iterator[tuple[str, FakeRun]]:
    """The cluster on other systems, which are told otherwise what lasts, or on which pip refuses."""
    if not row.name.startswith(CONFIGURED):
        return
    for manager in MANAGERS:
        yield manager, row.run.broken(row.run.names, "machine", network_manager=manager)
    bare = row.run.broken(row.run.names, "software", keeps_pip_out=True)
    yield "managed", bare
    yield "managed, no torch", bare.broken(row.run.names, "software", torch=Missing("no module named torch", "absent"))


def likeness(run: FakeRun, other: FakeRun) -> int:
    """How many subjects of all nodes are the same."""
    return sum(
        held[subject] is other.subjects[name].get(subject) for name, held in run.subjects.items() for subject in held
    )


def carried(broken: FakeRun, was: FakeRun, node: str, run: FakeRun, others: Sequence[str]) -> FakeRun:
    """A run whose `others` differ from what they are as a node of the broken cluster differs from what it was."""
    for name in others:
        for subject, facts in broken.subjects[node].items():
            held = run.subjects[name][subject]
            run = run.with_subject(name, subject, moved(was.subjects[node][subject], facts, held))
    lost = {name: broken.missing[node] for name in others if node in broken.missing}
    return replace(run, missing={**run.missing, **lost})


def moved(was: Any, now: Any, other: Any) -> Any:
    """What another value is where it changes as this one did."""
    if now is was or now == was:
        return other
    if isinstance(now, msgspec.Struct) and type(now) is type(was) is type(other):
        fields = now.__struct_fields__
        changed = {name: moved(getattr(was, name), getattr(now, name), getattr(other, name)) for name in fields}
        return msgspec.structs.replace(other, **changed)
    if isinstance(now, dict) and isinstance(was, dict) and isinstance(other, dict):
        kept = {key: value for key, value in other.items() if key in now or key not in was}
        changed = {key: value for key, value in now.items() if key not in was or was[key] != value}
        return {**kept, **{key: moved(was.get(key), value, other.get(key)) for key, value in changed.items()}}
    if isinstance(now, tuple) and type(now) is type(was) is type(other) is tuple and len(now) == len(was) == len(other):
        return tuple(map(moved, was, now, other))
    return now
