"""Which rank holds the others up, judging by what all of them are doing at a few moments?"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from preflight.diagnose.hanging.live import Process, Seen
from preflight.facts.value import Missing
from preflight.said import joined, said

# Calls of torch.distributed that wait for other ranks, by the name of their Python function.
COLLECTIVES = frozenset(
    (
        *("all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "reduce", "reduce_scatter"),
        *("reduce_scatter_tensor", "broadcast", "broadcast_object_list", "scatter", "gather", "gather_object"),
        *("all_to_all", "all_to_all_single", "barrier", "monitored_barrier", "send", "recv", "isend", "irecv"),
        *("batch_isend_irecv", "init_process_group", "_store_based_barrier", "new_group", "all_reduce_coalesced"),
        *("_verify_param_shape_across_processes", "_sync_module_states", "scatter_object_list", "wait_for_everyone"),
    )
)
FRAME = re.compile(r"(?P<name>[^ ]+) \((?P<file>.*):(?P<line>\d+)\)$")
LIBRARY = ("site-packages", "dist-packages", "/lib/python", "/torch/", "<frozen", "<string>")
STOPPED = {"T": "stopped by a signal", "t": "stopped by a debugger", "Z": "dead, and not yet collected"}
BUSY_CORES = 0.5
AWAKE_CORES = 0.03  # more than who only waits: threads that look around now and then use a hundredth
MEETING = "init_process_group"


@dataclass(frozen=True)
class Doing:
    """What a rank is doing: ``call`` is the collective that it waits in, "" for none; ``at`` the program's line."""

    node: str
    process: Process
    what: str
    call: str = ""
    at: str = ""

    @property
    def name(self) -> str:
        """The rank with its node."""
        who = (
            said("rank {rank}", self.process.rank)
            if self.process.rank >= 0
            else said("process {pid}", self.process.pid)
        )
        return said("{who} on {node}", who, self.node)


@dataclass(frozen=True)
class Stuck:
    """All ranks in groups that do the same, the largest first; which ranks differ; which are missing."""

    groups: tuple[tuple[Doing, ...], ...]
    guilty: tuple[Doing, ...]
    missing: tuple[int, ...]
    verdict: str
    goes_on: bool = False  # whether the ranks moved while they were looked at
    ras: str = ""  # what NCCL's RAS service says of the ranks; "" where it names nobody
    steps: tuple[str, ...] = ()  # what to do next

    @property
    def hangs(self) -> bool:
        """Whether it is known who holds the others up, or that all wait in vain."""
        everyone = [one for group in self.groups for one in group]
        waits = bool(everyone) and all(one.call for one in everyone)
        return not self.goes_on and bool(self.guilty or self.missing or self.ras or waits)


def doing(node: str, process: Process) -> Doing:
    """What a rank does, from its state, its Python frames and its use of a core."""
    if process.state in STOPPED:
        return Doing(node, process, STOPPED[process.state])
    call, at = "", ""
    if not isinstance(process.frames, Missing):
        parsed = [found for found in map(FRAME.match, process.frames) if found]
        call = next((found["name"] for found in reversed(parsed) if found["name"] in COLLECTIVES), "")
        own = next((found for found in parsed if not _is_library(found["file"])), None)
        at = f"{own['file']}:{own['line']}" if own else ""
    if process.state == "D":
        return Doing(node, process, said("hangs in the kernel ({wchan})", process.wchan or "wchan not shown"), call, at)
    if call:
        return Doing(node, process, said("waits in {call}", call), call, at)
    if at:
        # One that runs gets no more of a core than others on its node leave to it.
        how = "computes" if process.cpu >= BUSY_CORES or process.state == "R" else "waits"
        innermost = process.frames[0] if not isinstance(process.frames, Missing) and process.frames else ""
        return Doing(node, process, said("{how} outside of any collective, in {innermost}", how, innermost), "", at)
    how = (
        "computes"
        if process.cpu >= BUSY_CORES
        else said("sleeps in {wchan}", process.wchan or "a place that is not shown")
    )
    return Doing(node, process, how)


def _is_library(file: str) -> bool:
    """Whether a file is of an installed package or of Python itself, of which py-spy may leave out the folder."""
    return any(part in f"/{file}" for part in LIBRARY) or file.removesuffix(".py") in sys.stdlib_module_names


def places(one: Doing) -> list[tuple[str, str]]:
    """Where a rank was at each look, the last one last: its collective and its line; without Python frames, its wchan.

    What was not read at a look has no place.
    """
    looks = [doing(one.node, msgspec.structs.replace(one.process, **_fields(seen))) for seen in one.process.earlier]
    found = []
    for look in (*looks, one):
        place = ("", look.process.wchan) if isinstance(look.process.frames, Missing) else (look.call, look.at)
        if any(place):
            found.append(place)
    return found


def _fields(seen: Seen) -> dict[str, Any]:
    return {name: getattr(seen, name) for name in seen.__struct_fields__}


def compare(found: Mapping[str, tuple[Process, ...]], unseen: Iterable[str] = ()) -> Stuck:
    """Who differs from the majority: first those that are stopped or hang in the kernel, then those elsewhere.

    Ranks that are missing while nodes were `unseen` may run there. Nobody, where the ranks went on between one look
    and the next: one that is late is no fault.
    """
    all_doing = [doing(node, process) for node, processes in found.items() for process in processes]
    if not all_doing:
        return Stuck((), (), (), "no process of that job was found")
    stuck = _at_last(all_doing, ", ".join(unseen))
    if any(one.process.state in STOPPED for one in stuck.guilty):
        return stuck
    going = _going_on(all_doing, stuck)
    return Stuck(stuck.groups, (), stuck.missing, going, goes_on=True) if going else stuck


def _going_on(all_doing: list[Doing], stuck: Stuck) -> str:
    """That the job goes on, or that nothing is known of it; "" where those that wait stayed where they are."""
    been = [(one, places(one)) for one in all_doing]
    unread = [one.process.frames.missing for one in all_doing if isinstance(one.process.frames, Missing)]
    moved = [one for one, seen in been if len(set(seen)) > 1]
    if unread:
        if not stuck.missing and any(one.process.cpu < BUSY_CORES for one in moved):
            return said("the ranks do not stay in one place, and their Python was not read: {unread}", unread[0])
        return ""
    left = [
        (one, " at ".join(filter(None, at))) for one, seen in been for at, to in pairwise(seen) if at[0] and at != to
    ]
    if left:
        one, place = left[0]
        return said("the job goes on: {name} left {place} while it was looked at", one.name, place)
    others = [one for one in all_doing if one not in stuck.guilty]
    if others and all(one in moved for one in others):
        return said(
            "the job goes on: {name} and those like it were in several places while they were looked at", others[0].name
        )
    return ""


def _at_last(all_doing: list[Doing], unseen: str = "") -> Stuck:
    """Who differs from the majority at the last look."""
    by_kind: dict[tuple[str, str], list[Doing]] = {}
    for one in all_doing:
        by_kind.setdefault(_kind(one), []).append(one)
    groups = tuple(tuple(group) for group in sorted(by_kind.values(), key=len, reverse=True))
    size = Counter(one.process.world_size for one in all_doing if one.process.world_size > 0).most_common(1)
    there = {one.process.rank for one in all_doing if one.process.rank >= 0}
    missing = tuple(sorted(set(range(min(size[0][0], 1 << 16))) - there)) if size and there else ()
    halted = tuple(one for one in all_doing if one.process.state in STOPPED or _stays_in_kernel(one))
    waiting = [one for one in all_doing if one.call]
    outside = tuple(one for one in all_doing if not one.call)
    if halted and len(halted) < len(all_doing):
        return Stuck(groups, halted, missing, _sentence(halted, "the others wait for it"))
    numbered = _wrongly_numbered(all_doing)
    if numbered:
        return Stuck(groups, numbered[0], missing, numbered[1])
    if missing and waiting:
        ranks = ", ".join(map(str, missing[:16]))
        if unseen:
            where = said(
                "rank {ranks} was not seen: {unseen} could not be looked at, and the others wait", ranks, unseen
            )
            return Stuck(groups, (), (), where)
        return Stuck(
            groups, (), missing, said("rank {ranks} has no process on these nodes, and the others wait for it", ranks)
        )
    if waiting and outside:
        return Stuck(groups, outside, missing, _sentence(outside, said("the others wait in {call}", waiting[0].call)))
    if len(groups) > 1 and len(groups[0]) > len(groups[1]):
        others = tuple(one for group in groups[1:] for one in group)
        return Stuck(
            groups,
            others,
            missing,
            _sentence(others, said("{name} and those like it: {what}", groups[0][0].name, groups[0][0].what)),
        )
    if len(groups) > 1:
        return Stuck(groups, (), missing, "the ranks are in different places, and no majority shows which is right")
    if waiting and {one.call for one in waiting} == {MEETING}:
        why = "all ranks wait in init_process_group and do not find each other: compare MASTER_ADDR, MASTER_PORT"
        return Stuck(groups, (), missing, said("{why} and *_SOCKET_IFNAME in what each was started with", why))
    if waiting and any(one.process.cpu >= AWAKE_CORES for one in waiting):
        why = "the job is slow there, or, where its output stands still, the network between them or a GPU lost it"
        return Stuck(
            groups, (), missing, said("all ranks are in the same call at every look, and some work in it: {why}", why)
        )
    if waiting:
        return Stuck(
            groups, (), missing, "all ranks wait in the same call: the network between them, or a GPU, lost it"
        )
    unread = [one.process.frames.missing for one in all_doing if isinstance(one.process.frames, Missing)]
    if unread:
        return Stuck(
            groups,
            (),
            missing,
            said("all ranks look the same from outside, but their Python was not read: {unread}", unread[0]),
        )
    return Stuck(groups, (), missing, "all ranks do the same")


def _stays_in_kernel(one: Doing) -> bool:
    return one.process.state == "D" and all(seen.state == "D" for seen in one.process.earlier)


def _wrongly_numbered(all_doing: list[Doing]) -> tuple[tuple[Doing, ...], str] | None:
    """The ranks that count on another number of ranks than most, or have one number on two nodes, and the sentence."""
    sized = [one for one in all_doing if one.process.world_size > 0 and one.call]
    sizes = Counter(one.process.world_size for one in sized).most_common(2)
    if len(sizes) > 1:
        (most, count), (_, next_count) = sizes
        wrong = tuple(one for one in sized if one.process.world_size != most or count == next_count)
        told = joined(
            [said("{name} expects {world_size} ranks", one.name, one.process.world_size) for one in wrong[:4]], ", "
        )
        others = "" if count == next_count else said(", the others {most}", most)
        return wrong, said("{told}{others}: WORLD_SIZE must be the same for all", told, others)
    places: dict[int, list[Doing]] = {}
    for one in all_doing:
        if one.process.rank >= 0:
            places.setdefault(one.process.rank, []).append(one)
    for rank, held in places.items():
        nodes = tuple(dict.fromkeys(one.node for one in held))
        if len(nodes) > 1:
            return tuple(held), said(
                "rank {rank} runs on {nodes}: each process needs a RANK of its own", rank, " and on ".join(nodes[:4])
            )
    return None


def _kind(one: Doing) -> tuple[str, str]:
    if one.call:
        return one.call, one.at
    return ("", one.at) if one.at else (one.what, "")


def _sentence(guilty: tuple[Doing, ...], why: str) -> str:
    shown = "; ".join(f"{one.name} {one.what}" + (said(" at {at}", one.at) if one.at else "") for one in guilty[:4])
    more = said("; and {guilty} more", len(guilty) - 4) if len(guilty) > 4 else ""
    return said("{shown}{more}, while {why}", shown, more, why)
