"""Which of the plans belong together: one group for each job, with a plan for each node?"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from preflight.launch.address import is_loopback
from preflight.launch.field import Field, Sourced, firm, value_of
from preflight.launch.plan import LaunchFiles, Plan, numbered

NOTES_LIMIT = 64
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
    def is_compared(self) -> bool:
        """Whether its plans must say the same: a file for each node, or all nodes in one script."""
        return self.is_set or (len(self.plans) > 1 and numbered(list(self.plans)) != [])

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
    """The jobs of the given files, each with a plan for every node that has a file of its own."""
    by_file = _by_file(files)
    return tuple(group for members in _sets(by_file) for group in _staged(members, by_file))


def apart(files: LaunchFiles) -> tuple[tuple[Plan, Plan, str], ...]:
    """Files that look like those of one job, and were taken for jobs of their own, with what they differ in."""
    by_file = _by_file(files)
    firsts = [plans[0] for plans in by_file.values()]
    together = [set(members) for members in _sets(by_file) if len(members) > 1]
    found: list[tuple[Plan, Plan, str]] = []
    for one, other in itertools.pairwise(firsts[:NOTES_LIMIT]):
        pair, differing = {one.where.file, other.where.file}, _differences(one, other)
        if _look_alike(one, other) and one.has_peers and differing and not any(pair <= held for held in together):
            found.append((one, other, ", ".join(differing)))
    return tuple(found)


def _by_file(files: LaunchFiles) -> dict[str, list[Plan]]:
    found: dict[str, list[Plan]] = {}
    for plan in files.plans:
        if plan.start == "each node" and not plan.launcher.starts_all_nodes:
            found.setdefault(plan.where.file, []).append(plan)
    return found


def _sets(by_file: dict[str, list[Plan]]) -> list[list[str]]:
    """The files in sets, each of one job; in the order in which they were given."""
    sets: list[list[str]] = []
    sizes = [firm(plan.nodes) or firm(plan.world_size) or 0 for plans in by_file.values() for plan in plans]
    may_be_one = any(len(by_file) <= size for size in sizes)
    for name, plans in by_file.items():
        fits = functools.partial(_of_one_job, plans[0], may_be_one=may_be_one)
        fitting = [held for held in sets if any(fits(by_file[other][0]) for other in held)]
        sets = [held for held in sets if held not in fitting]
        sets.append([*(other for held in fitting for other in held), name])
    order = {name: place for place, name in enumerate(by_file)}
    for members in sets:
        members.sort(key=order.__getitem__)
    return sorted(sets, key=lambda members: order[members[0]])


def _of_one_job(one: Plan, other: Plan, *, may_be_one: bool) -> bool:
    """Whether two files are two nodes of a job: by where they meet, by their ranks, by names that differ in a number.

    What differs between them speaks for two jobs; a single difference is more likely the fault that is looked for.
    ``may_be_one`` says that there are no more files than nodes, so that all of them may be one job.
    """
    if one.launcher is not other.launcher or one.is_whole or other.is_whole or not (one.has_peers or other.has_peers):
        return False
    ranks = (one.written_rank, other.written_rank)
    differing = len(_differences(one, other))
    if None not in ranks and ranks[0] != ranks[1]:
        return _meet(one, other) or differing <= (3 if _names_alike(one, other) else 2 if may_be_one else -1)
    if None not in ranks:
        return (_names_alike(one, other) or _meet(one, other)) and not differing
    if ranks == (None, None) and not one.is_by_hand:
        handed_out = value_of(one.rendezvous) != "static" and value_of(other.rendezvous) != "static"
        return handed_out and differing <= 1 and (_names_alike(one, other) or _meet(one, other))
    return _names_alike(one, other) and differing <= 1


def _look_alike(one: Plan, other: Plan) -> bool:
    return one.launcher is other.launcher and not one.is_whole and not other.is_whole and _names_alike(one, other)


def _names_alike(one: Plan, other: Plan) -> bool:
    return ROLES.sub("#", one.where.file) == ROLES.sub("#", other.where.file)


def _meet(one: Plan, other: Plan) -> bool:
    """Whether both name one address and port, which is nobody's own."""
    address = firm(one.master_address)
    if address is None or is_loopback(address) or address != firm(other.master_address):
        return False
    return firm(one.master_port) == firm(other.master_port)


DIFFERENCES: tuple[tuple[str, Callable[[Plan], object]], ...] = (
    ("number of nodes", lambda plan: firm(plan.nodes)),
    ("number of processes", lambda plan: firm(plan.world_size) if plan.launcher.states_world_size else None),
    ("address", lambda plan: firm(plan.master_address)),
    ("port", lambda plan: firm(plan.master_port)),
    ("rendezvous id", lambda plan: firm(plan.rendezvous_id)),
    ("program", lambda plan: ROLES.sub("#", value_of(plan.program) or "") or None),
    ("kind", lambda plan: plan.setting("distributed_type")),
    ("ZeRO stage", lambda plan: plan.setting("deepspeed_config.zero_stage") or plan.setting("zero_stage")),
    ("precision", lambda plan: firm(plan.mixed_precision)),
)


def _differences(one: Plan, other: Plan) -> list[str]:
    """What both say, and differently."""
    pairs = [(name, pick(one), pick(other)) for name, pick in DIFFERENCES]
    return [name for name, here, there in pairs if here is not None and there is not None and here != there]


def _services(plans: list[Plan]) -> list[Plan]:
    """The services of a compose file that are nodes of one job: all of them name their node, and run one program."""
    named = [plan for plan in plans if "compose" in plan.wraps and plan.written_rank is not None and plan.spans_nodes]
    return named if len(named) == len(plans) and len({value_of(plan.program) for plan in named}) == 1 else []


def _staged(names: list[str], by_file: dict[str, list[Plan]]) -> Iterable[Group]:
    """A script may run several stages one after the other: the first of every file are one job, the second another."""
    if len(names) == 1:
        (name,) = names
        plans = by_file[name]
        loops = [plan for plan in plans if plan.is_logged_in or plan.is_by_hand] or numbered(plans) or _services(plans)
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
