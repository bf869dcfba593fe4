"""Which of the plans belong together: one job, a plan for each node?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from preflight.launch.field import Field, Sourced, firm
from preflight.launch.plan import LaunchFiles, Plan

ROLES = re.compile(r"\d+|master|slave|worker|main|head|leader|follower|first|second", re.IGNORECASE)


@dataclass(frozen=True)
class Job:
    """The plans of one job, each started on one node by hand; `files` are the files they stand in."""

    plans: tuple[Plan, ...]
    files: tuple[str, ...]

    @property
    def is_set(self) -> bool:
        """Whether there is a file for each node, as far as one can see."""
        return len(self.files) > 1

    @property
    def reads_rank(self) -> bool:
        """Whether the plans name ranks of processes (RANK) and not of nodes."""
        return self.plans[0].launcher == "env"

    def rank(self, plan: Plan) -> Field[int]:
        """The rank that a plan is told to take; None where the rendezvous hands it out."""
        if self.reads_rank:
            return plan.rank
        if plan.launcher == "torchrun" and isinstance(plan.rendezvous, Sourced) and plan.rendezvous.value != "static":
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


def jobs(files: LaunchFiles) -> tuple[Job, ...]:
    """The jobs of the given files: all files one job where their number allows it, else by name or rendezvous."""
    by_file: dict[str, list[Plan]] = {}
    for plan in files.plans:
        if plan.start == "each node" and plan.launcher in ("accelerate", "torchrun", "env", "llamafactory"):
            by_file.setdefault(plan.where.file, []).append(plan)
    names = list(by_file)
    if not names:
        return ()
    largest = max((firm(plan.nodes) or firm(plan.world_size) or 1 for plan in files.plans), default=1)
    groups = [names] if len(names) <= largest else _by_evidence(names, by_file)
    found: list[Job] = []
    for group in groups:
        found.extend(_staged(group, by_file))
    return tuple(found)


def _by_evidence(names: list[str], by_file: dict[str, list[Plan]]) -> list[list[str]]:
    """Files that are called alike but for a number or a role, or that meet at one address and port."""
    groups: list[tuple[set[object], list[str]]] = []
    for name in names:
        keys: set[object] = {ROLES.sub("#", name)}
        for plan in by_file[name]:
            address, port = firm(plan.master_address), firm(plan.master_port)
            if address is not None and port is not None and address not in ("localhost", "127.0.0.1"):
                keys.add((address, port, plan.launcher))
        fitting = [group for group in groups if group[0] & keys]
        merged: tuple[set[object], list[str]] = (keys, [])
        for group in fitting:
            merged[0].update(group[0])
            merged[1].extend(group[1])
            groups.remove(group)
        merged[1].append(name)
        groups.append(merged)
    found: list[list[str]] = []
    for _, members in groups:
        several = any(_is_several(plan) for name in members for plan in by_file[name])
        found.extend([sorted(members, key=names.index)] if several else [[name] for name in members])
    return found


def _is_several(plan: Plan) -> bool:
    return (firm(plan.nodes) or 1) > 1 or (plan.launcher == "env" and (firm(plan.world_size) or 1) > 1)


def _staged(group: list[str], by_file: dict[str, list[Plan]]) -> Iterable[Job]:
    """A script may run several stages one after the other: the first of every file are one job, the second another."""
    if len(group) == 1:
        plans = by_file[group[0]]
        loops = [plan for plan in plans if "ssh" in plan.wraps or plan.launcher == "env"]
        if len(loops) > 1:
            yield Job(tuple(loops), tuple(group))
        yield from (Job((plan,), tuple(group)) for plan in plans if len(loops) <= 1 or plan not in loops)
        return
    counts = {len(by_file[name]) for name in group}
    launchers = {plan.launcher for name in group for plan in by_file[name]}
    if launchers == {"env"}:  # a file may start one process for each GPU
        yield Job(tuple(plan for name in group for plan in by_file[name]), tuple(group))
    elif len(counts) == 1:
        for stage in range(counts.pop()):
            yield Job(tuple(by_file[name][stage] for name in group), tuple(group))
    else:
        yield Job(tuple(by_file[name][-1] for name in group), tuple(group))
