"""Is a rank's report about what it was asked for, of the right types, and possible?

A rank is a program on a node, and its report is only that node's word: a figure that looks like a good one
must not come from a rank that was never asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from preflight.facts.results import RING, Device, RankReport, Result, TrainedRank
from preflight.launch.job import Job
from preflight.reach.session import replies
from preflight.said import said
from preflight.said.errors import BadReply

TOLERANCE = 0.02  # of a figure that follows from others
LONGEST_SECONDS = 1e5
FASTEST_GBYTES_PER_S = 1e5
LARGEST = 1e18


class Stage(msgspec.Struct):
    """The stage that a rank has reached."""

    stage: replies.Word


class Failed(msgspec.Struct):
    """Why a rank gave up."""

    error: Annotated[str, msgspec.Meta(max_length=1 << 16)] = "failed without a message"


class Done(msgspec.Struct):
    """A rank has done all that it was asked to do."""


class Progress(msgspec.Struct):
    """How far rank 0 has come."""

    op: replies.Word
    bytes: replies.Bytes
    iterations: int
    seconds_left: float


class Matrix(msgspec.Struct):
    """A rank's own time of each operation."""

    op: replies.Word
    bytes: replies.Bytes
    seconds: list[float]
    group: replies.Word = ""


class Pair(msgspec.Struct):
    """What a rank received from another, in a round of pairs."""

    source: int
    round: int
    bytes: replies.Bytes
    seconds: float
    gbytes_per_s: float


class Sent(msgspec.Struct):
    """What a rank sent to another, in a round of pairs."""

    target: int
    round: int
    bytes: replies.Bytes
    seconds: float
    gbytes_per_s: float


class LeftOut(msgspec.Struct):
    """Sizes of an operation that do not fit into the ranks' memory; the largest of them is given."""

    op: replies.Word
    bytes: replies.Bytes
    room_bytes: replies.Bytes


class Losses(msgspec.Struct):
    """The losses of a training."""

    losses: list[float]
    tokens_per_s: float
    begin: int = 0
    gradient_bytes: int = 0
    samples_missing: int = 0


class NoDevice(msgspec.Struct, kw_only=True):
    """A rank's GPU had too little memory free to be measured by itself."""

    device: replies.Word
    model: replies.Word
    board: replies.Word = ""
    uuid: replies.Word = ""
    free_bytes: replies.Bytes
    memory_bytes: replies.Bytes
    wanted_bytes: replies.Bytes


class NcclLog(msgspec.Struct):
    """What NCCL wrote."""

    lines: list[replies.Line]
    topo: list[replies.Line] = []  # one rank of each node reports what NCCL found there, and what it chose
    graph: list[replies.Line] = []


class RingLog(msgspec.Struct):
    """What NCCL wrote while it was held to a ring."""

    lines: list[replies.Line]


KINDS: Mapping[str, type[msgspec.Struct]] = {
    "stage": Stage,
    "failed": Failed,
    "done": Done,
    "progress": Progress,
    "matrix": Matrix,
    "pair": Pair,
    "sent": Sent,
    "result": Result,
    "joined": RankReport,
    "device": Device,
    "no_device": NoDevice,
    "trained": TrainedRank,
    "losses": Losses,
    "left_out": LeftOut,
    "nccl_log": NcclLog,
    "ring_log": RingLog,
}


class Exit(replies.Message, frozen=True):
    """A process of a job has ended."""

    exit: replies.Word
    name: replies.Word
    log: Annotated[str, msgspec.Meta(max_length=1 << 20)]


class RankFile(replies.Message, frozen=True):
    """What NCCL or torch wrote for a rank of a job that failed."""

    file: Literal["nccl", "trace"]
    rank: int
    text: Annotated[str, msgspec.Meta(max_length=1 << 17)]


def checked_event(event: dict[str, Any], node: str, job: Job) -> dict[str, Any]:
    """An event of the call that runs a job's ranks on a node. Raises BadReply of that node."""
    if "record" in event:
        return {"record": checked(event["record"], node, job)}
    if "file" in event:
        replies.read(node, RankFile, event, "file")
    else:
        replies.read(node, Exit, event, "exit")
    return event


def checked(record: Any, node: str, job: Job) -> dict[str, Any]:
    """A record that a rank of this job could have sent. Raises BadReply of the node for any other."""
    read: dict[str, Any] = replies.read(node, dict[str, Any], record, "record")
    rank, kind = read.get("rank"), str(read.get("record"))
    if type(rank) is not int or kind not in KINDS:
        raise BadReply(
            node, said("a record of {kind!r} by rank {rank!r}: no workload sends that", kind[:40], str(rank)[:20])
        )
    names = {field.encode_name for field in msgspec.structs.fields(KINDS[kind])}
    reported = {name: value for name, value in read.items() if name in names}
    what = said("{kind} of rank {rank}", kind, rank)
    replies.read(node, KINDS[kind], {**reported, **({"node": node} if "node" in names else {})}, what)
    for name, value in reported.items():
        for number in value if isinstance(value, list) else [value]:
            if not is_possible(name, number):
                raise BadReply(node, said("{what}: {name} {number} cannot be", what, name, str(number)[:40]))
    if kind in ("result", "losses", "progress"):
        _is_spokesman(read, node, job)
    if kind == "result":
        _answers(read, node, job)
    if kind in ("pair", "sent"):
        _is_of_a_pair(read, node, job)
    return read


def is_possible(name: str, value: Any) -> bool:
    """Whether a figure is possible for its unit, which its name ends in or begins with."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return True
    if "seconds" in name:
        return 0 <= value <= LONGEST_SECONDS
    if name.endswith("_per_s"):
        return 0 <= value <= (FASTEST_GBYTES_PER_S if "gbytes" in name else LARGEST)
    if "bytes" in name or name in ("iterations", "wrong", "wrong_ranks", "rank", "ranks", "begin", "cv"):
        return 0 <= value <= LARGEST
    return abs(value) <= LARGEST


def _is_spokesman(record: dict[str, Any], node: str, job: Job) -> None:
    """The first rank speaks for all, or for its group."""
    group = record.get("group", "")
    firsts = {(each["name"], each["ranks"][0]) for groups in job.settings.get("rounds", ()) for each in groups}
    firsts |= {(RING, 0)} if job.settings.get("holds_to_ring") else set()
    rank = record["rank"]
    if rank and rank not in {first for _, first in firsts}:
        raise BadReply(node, said("rank {rank} reports a {record}, for which it was not asked", rank, record["record"]))
    if group and (group, rank) not in firsts:
        raise BadReply(
            node,
            said("rank {rank} reports a result of the group {group!r}, which it does not lead", rank, str(group)[:40]),
        )


def _answers(record: dict[str, Any], node: str, job: Job) -> None:
    """Whether a result is about an operation that was asked for, and its figures follow from each other."""
    settings, op, size = job.settings, record["op"], record["bytes"]
    sizes = settings.get("sizes_by_operation", {}).get(op) or settings.get("sizes")
    wrong = ""
    if op not in settings.get("operations", (op,)):
        wrong = said("{op!r} was not asked for", str(op)[:40])
    elif record.get("dtype", "float32") != settings.get("dtype", record.get("dtype", "float32")):
        wrong = said("of {record!r}, and {settings} was asked for", str(record["dtype"])[:40], settings["dtype"])
    elif sizes and not min(sizes) / 2 <= size <= 2 * max(sizes):
        wrong = said("of {size} bytes, which was not asked for", size)
    elif record.get("ranks") and record["ranks"] != _ranks(record, job):
        wrong = said("of {record} ranks, and {ranks} were asked", record["ranks"], _ranks(record, job))
    elif not set(record.get("wrong_ranks", ())) <= set(range(job.world_size)):
        wrong = "it names ranks that do not exist"
    elif not record["seconds_p5"] <= record["seconds_median"] <= record["seconds_p95"]:
        wrong = "its median lies outside its quantiles"
    elif not record["seconds_median"] or not _is_near(
        record["algbw_gbytes_per_s"], size / record["seconds_median"] / 1e9
    ):
        wrong = said(
            "{record:g} GB/s are not {size} bytes in {record2:g} s",
            record["algbw_gbytes_per_s"],
            size,
            record["seconds_median"],
        )
    elif not 0 <= record["busbw_gbytes_per_s"] <= 2 * record["algbw_gbytes_per_s"] * (1 + TOLERANCE):
        wrong = said(
            "a bus bandwidth of {record:g} GB/s is not that of {size} bytes in its time",
            record["busbw_gbytes_per_s"],
            size,
        )
    if wrong:
        raise BadReply(node, said("a result by rank {record}: {wrong}", record["rank"], wrong))


def _is_of_a_pair(record: dict[str, Any], node: str, job: Job) -> None:
    """Whether the rank had to receive or send in that round, and the rate fits its bytes and seconds."""
    rounds, number = job.settings.get("pairs", ()), record["round"]
    if record["record"] == "pair":
        pair = [record["source"], record["rank"]]
        what = said(
            "rank {record} reports what it received from rank {record2} in round {number}",
            record["rank"],
            record["source"],
            number,
        )
    else:
        pair = [record["rank"], record["target"]]
        what = said(
            "rank {record} reports what it sent to rank {record2} in round {number}",
            record["rank"],
            record["target"],
            number,
        )
    if not 0 <= number < len(rounds) or pair not in rounds[number]:
        raise BadReply(node, said("{what}, for which it was not asked", what))
    if not record["seconds"] or not _is_near(record["gbytes_per_s"], record["bytes"] / record["seconds"] / 1e9):
        raise BadReply(
            node,
            said(
                "{what}: {record:g} GB/s are not {record2} bytes in its time",
                what,
                record["gbytes_per_s"],
                record["bytes"],
            ),
        )


def _ranks(record: dict[str, Any], job: Job) -> int:
    """How many ranks take part in the operation of a result."""
    for groups in job.settings.get("rounds", ()):
        for each in groups:
            if each["name"] == record.get("group"):
                return len(each["ranks"])
    return job.world_size


def _is_near(one: float, other: float) -> bool:
    return abs(one - other) <= TOLERANCE * max(abs(one), abs(other))
