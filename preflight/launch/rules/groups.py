"""Which of the plans belong together: one group for each job, with a plan for each node?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from preflight.launch.field import Field, Sourced, firm
from preflight.launch.plan import LaunchFiles, Plan

ROLES = re.compile(r"\d+|master|slave|worker|main|head|leader|follower|first|second", re.IGNORECASE)


@dataclass(frozen=True)
class Group:
    """The plans of one job, each started on one node by hand; `files` are the files they come from."""

    plans: tuple[Plan, ...]
    files: tuple[str, ...]

    @property
    def is_set(self) -> bool:
        """Whether there is a file for each node, as far as one can see."""
        return len(self.files) > 1

    @property
    def reads_rank(self) -> bool:
        """Whether the plans name ranks of processes (RANK) and not of nodes."""
        return self.plans[0].is_by_hand

    def rank(self, plan: Plan) -> Field[int]:
        """The rank that a plan gives its node or process; None where the rendezvous hands it out."""
        if self.reads_rank:
            return plan.rank
        is_static = not isinstance(plan.rendezvous, Sourced) or plan.rendezvous.value == "static"
        if plan.launcher.rendezvous_gives_ranks and not is_static:
            return None
        return plan.node_rank

    @property
    def size(self) -> int | None:
        """How many ranks there must be, as most of the plans say."""
        counts = Counter(
            size
            for plan in self.plans
            if (size := firm(plan.world_size) if self.reads_rank else firm(plan.nodes)) is not None
        )
        return counts.most_common(1)[0][0] if counts else None


def groups(files: LaunchFiles) -> tuple[Group, ...]:
    """The jobs of the given files: all files one job where their number allows it, else by name or rendezvous."""
    by_file: dict[str, list[Plan]] = {}
    for plan in files.plans:
        if plan.start == "each node" and not plan.launcher.starts_all_nodes:
            by_file.setdefault(plan.where.file, []).append(plan)
    names = list(by_file)
    if not names:
        return ()
    largest = max((firm(plan.nodes) or firm(plan.world_size) or 1 for plan in files.plans), default=1)
    sets = [names] if len(names) <= largest else _by_evidence(names, by_file)
    found: list[Group] = []
    for members in sets:
        found.extend(_staged(members, by_file))
    return tuple(found)


def _by_evidence(names: list[str], by_file: dict[str, list[Plan]]) -> list[list[str]]:
    """Files whose names differ only in a number or a role, or that meet at one address and port."""
    sets: list[tuple[set[object], list[str]]] = []
    for name in names:
        keys: set[object] = {ROLES.sub("#", name)}
        for plan in by_file[name]:
            address, port = firm(plan.master_address), firm(plan.master_port)
            if address is not None and port is not None and address not in ("localhost", "127.0.0.1"):
                keys.add((address, port, plan.launcher.name))
        fitting = [held for held in sets if held[0] & keys]
        merged: tuple[set[object], list[str]] = (keys, [])
        for held in fitting:
            merged[0].update(held[0])
            merged[1].extend(held[1])
            sets.remove(held)
        merged[1].append(name)
        sets.append(merged)
    found: list[list[str]] = []
    for _, members in sets:
        several = any(plan.has_peers for name in members for plan in by_file[name])
        found.extend([sorted(members, key=names.index)] if several else [[name] for name in members])
    return found


def _staged(names: list[str], by_file: dict[str, list[Plan]]) -> Iterable[Group]:
    """A script may run several stages one after the other: the first of every file are one job, the second another."""
    if len(names) == 1:
        plans = by_file[names[0]]
        loops = [plan for plan in plans if "ssh" in plan.wraps or plan.is_by_hand]
        if len(loops) > 1:
            yield Group(tuple(loops), tuple(names))
        yield from (Group((plan,), tuple(names)) for plan in plans if len(loops) <= 1 or plan not in loops)
        return
    counts = {len(by_file[name]) for name in names}
    if all(plan.is_by_hand for name in names for plan in by_file[name]):  # a file may start one process for each GPU
        yield Group(tuple(plan for name in names for plan in by_file[name]), tuple(names))
    elif len(counts) == 1:
        for stage in range(counts.pop()):
            yield Group(tuple(by_file[name][stage] for name in names), tuple(names))
    else:
        yield Group(tuple(by_file[name][-1] for name in names), tuple(names))
