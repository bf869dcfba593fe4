"""What will every rank see: node, local rank, device, interface and address?"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.launch.field import Sourced, firm, value_of, words
from preflight.launch.plan import LaunchFiles, Plan
from preflight.said import said
from preflight.said.errors import FactMissing
from preflight.said.redact import without_secrets

RANKS_LIMIT = 4096


class Seat(NamedTuple):
    """A rank and where it will sit; "" is what neither the files nor the facts tell."""

    rank: int
    node: str
    local_rank: int
    device: str
    interface: str
    address: str


def ranks_table(plans: Iterable[Plan], cluster: Cluster | None = None) -> tuple[Seat, ...]:
    """The ranks of the first job of the plans, in order; empty where the files leave their number open."""
    wanted = list(plans)
    if not wanted:
        return ()
    first = wanted[0]
    if any(unset.holds in ("address", "number") for plan in wanted for unset in plan.unset):
        return ()  # which ranks there are depends on variables that nothing sets
    if first.is_by_hand:
        return _by_hand([plan for plan in wanted if plan.is_by_hand], cluster)
    nodes = firm(first.nodes) or (cluster.hosts if cluster is not None else None)
    seats: list[Seat] = []
    by_rank = {value_of(plan.node_rank): plan for plan in reversed(wanted) if value_of(plan.node_rank) is not None}
    for index in range(min(nodes or 0, RANKS_LIMIT)):
        plan = by_rank.get(index, first)
        facts = cluster.at(index) if cluster is not None else None
        each = value_of(plan.processes_per_node) or _gpus(facts)
        for local in range(min(each, RANKS_LIMIT)):
            if len(seats) < RANKS_LIMIT:
                seats.append(_seat(len(seats), index, local, plan, facts))
    return tuple(seats)


Row = tuple[str, str, str, str, str, str]
NUMBERED = re.compile(r"(.*?)(\d+)$")
ROWS_LIMIT = 64


def folded(seats: Iterable[Sequence[object]]) -> list[Row]:
    """The seats as rows for people: the ranks of a node are one, and so are nodes that differ in their number alone."""
    nodes: list[list[Row]] = []
    for seat in seats:
        row: Row = tuple(map(str, seat))  # type: ignore[assignment]
        if nodes and nodes[-1][0][1] == row[1] and nodes[-1][0][4:] == row[4:]:
            nodes[-1].append(row)
        else:
            nodes.append([row])
    rows: list[tuple[int, list[Row]]] = []  # how many ranks a node has, and the rows of alike nodes
    for ranks in nodes:
        one: Row = (*(span([row[place] for row in ranks]) for place in range(4)), *ranks[0][4:])  # type: ignore[assignment]
        same = rows and rows[-1][0] == len(ranks) and rows[-1][1][-1][2:] == one[2:]
        if same and _follows(rows[-1][1][-1][1], one[1]) and one[5] == "":
            rows[-1][1].append(one)
        else:
            rows.append((len(ranks), [one]))
    shown = [_one(held) for _, held in rows]
    if len(shown) <= ROWS_LIMIT:
        return shown
    left = len(shown) - ROWS_LIMIT
    return [*shown[:ROWS_LIMIT], ("...", said("and {left} more", left), "", "", "", "")]


def _one(rows: list[Row]) -> Row:
    """Nodes that are alike as one row."""
    ranks = [row[0].split("-") for row in rows]
    first, last = ranks[0][0], ranks[-1][-1]
    return (f"{first}-{last}" if first != last else first, span([row[1] for row in rows]), *rows[0][2:])


def _follows(before: str, after: str) -> bool:
    one, other = NUMBERED.fullmatch(before), NUMBERED.fullmatch(after)
    return bool(one and other and one[1] == other[1] and int(other[2]) == int(one[2]) + 1)


def span(texts: Sequence[str]) -> str:
    """``cuda:0`` to ``cuda:7`` as ``cuda:0-7``; what does not count up is listed."""
    if len(set(texts)) == 1:
        return texts[0]
    numbered = [NUMBERED.fullmatch(text) for text in texts]
    if all(itertools.starmap(_follows, itertools.pairwise(texts))):
        last = numbered[-1]
        return f"{texts[0]}-{last[2]}" if last else texts[0]
    return ",".join(dict.fromkeys(texts))


def _by_hand(plans: list[Plan], cluster: Cluster | None) -> tuple[Seat, ...]:
    files = list(dict.fromkeys(plan.where.file for plan in plans))
    seats = []
    for plan in plans:
        rank = value_of(plan.rank)
        if rank is None:
            continue
        index = files.index(plan.where.file)
        facts = cluster.at(index) if cluster is not None else None
        seats.append(_seat(rank, index, value_of(plan.local_rank) or 0, plan, facts))
    return tuple(sorted(seats))[:RANKS_LIMIT]


def _seat(rank: int, index: int, local: int, plan: Plan, facts: NodeFacts | None) -> Seat:
    interface = address = ""
    if facts is not None:
        address = facts.address_for_peers()
        with contextlib.suppress(FactMissing):
            interface = facts.network.training_interface.name
    return Seat(
        rank,
        facts.name if facts is not None else said("node {index}", index),
        local,
        _device(plan, local, facts),
        interface,
        address,
    )


def _device(plan: Plan, local: int, facts: NodeFacts | None) -> str:
    listed = value_of(plan.device_ids)
    if isinstance(listed, str) and listed not in ("all", ""):
        ids = listed.split(",")
        return f"cuda:{ids[local].strip()}" if local < len(ids) else "none left"
    if facts is not None and not _gpus(facts):
        return "cpu"
    if facts is not None and local >= _gpus(facts):
        return "none left"
    return f"cuda:{local}" if facts is not None else ""


def _gpus(facts: NodeFacts | None) -> int:
    return facts.gpu_count() if facts is not None else 0


def described(plan: Plan) -> dict[str, object]:
    """A plan for report.json: every field with its line, secrets hidden, what is unknown as its expression."""
    fields: dict[str, object] = {"launcher": plan.launcher.name, "file": plan.where.file, "line": plan.where.line}
    for name in NAMES:
        value = getattr(plan, name)
        if isinstance(value, Sourced):
            fields[name] = {"value": value.value, "file": value.file, "line": value.line, "origin": value.origin}
        elif value is not None:
            fields[name] = {"unknown": without_secrets(value.expression), "file": value.file, "line": value.line}
    variables = {}
    for name, held in sorted(plan.environment.items()):
        shown = value_of(held)
        variables[name] = without_secrets(f"{name}={shown}").partition("=")[2] if shown is not None else "unknown"
    fields["environment"] = variables
    fields["command"] = without_secrets(plan.command)
    return fields


NAMES = words(
    """
    nodes fewest_nodes node_rank processes_per_node world_size rank local_rank master_address
    master_port backend rendezvous rendezvous_id device_ids mixed_precision program
    """
)


def section(files: LaunchFiles, cluster: Cluster | None) -> dict[str, Any]:
    """The plan section of the report: every start of a job, and what each rank will see."""
    seats = [seat._asdict() for seat in ranks_table(files.plans, cluster)]
    return {"launches": [described(plan) for plan in files.plans], "ranks": seats}
