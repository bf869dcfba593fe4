"""Does a check take four times the work for four times the nodes, where every one of them is broken in the same way?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from types import FrameType
from typing import Any

import msgspec
import pytest

from preflight.facts.subjects.peers import Peers
from preflight.facts.subjects.trust import Trust
from preflight.facts.value import Value
from preflight.testing import FakeRun, healthy, infiniband, roce
from preflight.testing.hardware import node_address
from tests.checks.samples import Broken, checks, judge
from tests.judge.commands.test_every_check import rows

FEW, MANY = 50, 200
MOST = 6.0  # 4 where each node is looked at once, 16 where each is compared with each
ASKED = 16  # as many peers as a node of thousands is asked about
HEALTHY: tuple[Callable[[int], FakeRun], ...] = (cache(healthy), cache(roce), cache(infiniband))


def work(check: str, run: FakeRun) -> int:
    """How many calls judging it takes, of our functions and of Python's own."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        del frame, argument
        calls += event in ("call", "c_call")

    assert len(run.cluster) == len(run.names)  # made before anything is counted
    sys.setprofile(count)
    try:
        judge(check, run)
    finally:
        sys.setprofile(None)
    return calls


def broken_in(run: FakeRun, node: str) -> tuple[Callable[[int], FakeRun], list[str]]:
    """The healthy cluster that is most like it, and the subjects of the node that differ."""

    def differing(made: Callable[[int], FakeRun]) -> list[str]:
        whole = made(len(run.names)).subjects[node]
        return [subject for subject, facts in run.subjects[node].items() if facts != whole[subject]]

    made = min(HEALTHY, key=lambda made: len(differing(made)))
    return made, differing(made)


def everywhere(run: FakeRun, node: str, count: int) -> FakeRun:
    """So many nodes, each broken as this one is, with its own name and address where that had its own."""
    made, subjects = broken_in(run, node)
    before, whole = made(len(run.names)).subjects[node], made(count)
    held: dict[str, Mapping[str, Value]] = {}
    for place, name in enumerate(whole.names):
        facts = dict(whole.subjects[name])
        peers = [whole.names[(place + step) % count] for step in range(1, ASKED + 1)]
        for subject in (*subjects, "peers", "trust"):
            facts[subject] = _as(facts[subject], run.subjects[node][subject], before[subject], peers)
        own = {f'"{node}"': f'"{name}"', f'"{node_address(run.names.index(node) + 1)}"': f'"{node_address(place + 1)}"'}
        held[name] = {**facts, **{subject: _renamed(facts[subject], own) for subject in subjects}}
    lost = run.missing.get(node, {})
    return replace(whole, subjects=held, missing=dict.fromkeys(whole.names, lost) if lost else {})


def _as(facts: Value, broken: Value, before: Value, peers: list[str]) -> Value:
    """The broken subject; of routes and logins, one to each of these peers as the broken one is."""
    if isinstance(broken, Peers) and isinstance(before, Peers) and isinstance(facts, Peers):
        odd = [route for route, other in zip(broken.routes, before.routes, strict=False) if route != other]
        kept = [route for route in facts.routes if route.name in peers]
        routes = [msgspec.structs.replace(odd[0], name=route.name) if odd else route for route in kept]
        return msgspec.structs.replace(broken, routes=tuple(routes))
    if isinstance(broken, Trust) and isinstance(before, Trust) and isinstance(facts, Trust):
        odd_ones = [login for login, other in zip(broken.logins, before.logins, strict=False) if login != other]
        some = [login for login in facts.logins if login.peer in peers]
        logins = [msgspec.structs.replace(odd_ones[0], peer=login.peer) if odd_ones else login for login in some]
        return msgspec.structs.replace(broken, logins=tuple(logins))
    return broken


def _renamed(facts: Value, words: Mapping[str, str]) -> Value:
    text = msgspec.json.encode(facts).decode()
    for old, new in words.items():
        text = text.replace(old, new)
    return msgspec.json.decode(text.encode(), type=type(facts))


@cache
def planted(check: str) -> tuple[tuple[Broken, str], ...]:
    """The broken clusters of a check, one for each set of subjects that is broken, with a node that breaks there."""
    found: dict[object, tuple[Broken, str]] = {}
    for row in rows():
        if row.name == check and row.nodes and row.nodes[0] in row.run.subjects:
            made, subjects = broken_in(row.run, row.nodes[0])
            found.setdefault((made, *subjects, bool(row.run.missing)), (row, row.nodes[0]))
    return tuple(found.values())


@pytest.mark.long
@pytest.mark.parametrize("check", checks())
def test_work_grows_with_the_nodes_and_not_with_their_square(check):
    """On 5,000 nodes the square is 25 million looks: minutes, in which nobody hears of what is wrong."""
    for row, node in planted(check):
        few, many = (work(check, everywhere(row.run, node, count)) for count in (FEW, MANY))
        assert many < MOST * few, f"{row}: {few} calls for {FEW} nodes, {many} for {MANY}"
