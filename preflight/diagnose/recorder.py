"""What do dumps of torch's flight recorder show: which collective hung, and which ranks were not in it?

A dump is a pickle, or JSON, of the last collectives that one rank enqueued. A pickle is foreign data: it is read for
its numbers, texts and containers, and whatever names code is refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from preflight.diagnose.found import Hang
from preflight.node.sources.rank_files import loaded
from preflight.said import joined, said
from preflight.said.errors import UsageError

MOST_BYTES = 256 << 20
HEAD_BYTES = 4096
PICKLE = b"\x80"
OF_NAME = re.compile(r"rank[_-]?(\d+)|(\d+)(?:\.\w+)?$")
DONE = "completed"
DIFFERS_BY_RANK = ("send", "recv", "broadcast", "scatter", "gather", "coalesced")


@dataclass(frozen=True)
class Call:
    """A collective that a rank enqueued."""

    group: str
    sequence: int
    operation: str
    elements: int
    state: str


def is_dump(head: bytes) -> bool:
    """Whether a file begins as a dump does."""
    return head.startswith(PICKLE) or (head.lstrip().startswith(b"{") and b'"pg_' in head)


def read(name: str, data: bytes) -> tuple[int, list[Call]]:
    """The rank of a dump, by its name or by itself, and its calls. Raises UsageError for one that is no dump."""
    try:
        record = loaded(data) if data.startswith(PICKLE) else json.loads(data)
        calls = list(_calls(record["entries"]))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(said("{name}: not a readable dump of torch's flight recorder: {error}", name, error)) from None
    rank = record.get("rank")
    named = OF_NAME.search(name)
    if isinstance(rank, int):
        return rank, calls
    if named is None:
        raise UsageError(
            said("{name}: a dump is named after its rank (rank3, or a number at the end); this name has none", name)
        )
    return int(named[1] or named[2]), calls


def _calls(entries: Any) -> Iterator[Call]:
    for entry in entries:
        sequence = entry.get("collective_seq_id", entry.get("seq_id", -1))
        if entry.get("is_p2p") or not isinstance(sequence, int):
            continue
        group = entry.get("process_group", ("default", ""))
        operation = str(entry.get("profiling_name", "")).rpartition(":")[2][:64]
        yield Call(
            group=str(group[0] if isinstance(group, (list, tuple)) and group else group)[:64],
            sequence=sequence,
            operation=operation,
            elements=_elements(entry.get("input_sizes")),
            state=str(entry.get("state", ""))[:32],
        )


def _elements(sizes: Any) -> int:
    """The number of elements of the first tensor; -1 where it is not known."""
    if not isinstance(sizes, (list, tuple)) or not sizes or not isinstance(sizes[0], (list, tuple)):
        return -1
    count = 1
    for size in sizes[0]:
        count *= size if isinstance(size, int) else 1
    return count


def hang_of(calls: Mapping[int, list[Call]]) -> Hang | None:
    """The first collective of any group that not all of its ranks completed; None where all did."""
    found: list[Hang] = []
    for group in sorted({call.group for of_rank in calls.values() for call in of_rank}):
        by_rank = {
            rank: {call.sequence: call for call in of_rank if call.group == group}
            for rank, of_rank in calls.items()
            if any(call.group == group for call in of_rank)
        }
        hang = _of_group(by_rank)
        if hang is not None:
            found.append(hang)
    return max(found, key=lambda hang: len(hang.missing) + len(hang.waiting), default=None)


def _of_group(by_rank: dict[int, dict[int, Call]]) -> Hang | None:
    every = sorted({sequence for calls in by_rank.values() for sequence in calls})
    oldest = max(min(calls) for calls in by_rank.values())  # older ones are no longer in every rank's buffer
    for sequence in every:
        if sequence < oldest:
            continue
        here = {rank: calls[sequence] for rank, calls in by_rank.items() if sequence in calls}
        missing = tuple(sorted(set(by_rank) - set(here)))
        mismatch = _mismatch(here)
        waiting = tuple(sorted(rank for rank, call in here.items() if call.state != DONE))
        if mismatch or (waiting and (missing or len(waiting) == len(here))) or (missing and waiting):
            first = Counter((call.operation, call.elements) for call in here.values()).most_common(1)[0][0]
            return Hang(sequence, first[0].upper(), first[1], waiting, missing, mismatch=mismatch)
    return None


def _mismatch(here: Mapping[int, Call]) -> str:
    kinds: dict[str, list[int]] = {}
    for rank, call in sorted(here.items()):
        is_own = any(word in call.operation for word in DIFFERS_BY_RANK)
        kinds.setdefault(
            call.operation if is_own else said("{operation} of {elements}", call.operation, call.elements), []
        ).append(rank)
    if len(kinds) < 2:
        return ""
    return joined(
        [said("{kind} on rank {ranks}", kind, ", ".join(map(str, ranks[:8]))) for kind, ranks in kinds.items()]
    )
