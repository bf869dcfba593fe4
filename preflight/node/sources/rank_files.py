"""What did NCCL and torch write into the scratch folder for each rank? Kept however the rank ended.

The ranks give the names: ``preflight-nccl-rank3`` is NCCL's log of rank 3, ``preflight-trace-rank3`` the flight
recorder of torch, a pickle of the last collectives that the rank has enqueued.
"""

from __future__ import annotations

import contextlib
import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = re.compile(r"preflight-(nccl|trace)-rank(\d+)")
TRACE_BYTES = 8 << 20  # a truncated pickle is useless, and torch keeps no more than we allow
ENTRIES = 40  # the last collectives show which rank is missing
# The opcodes of pickle that make plain values.
IGNORED = ("PROTO", "FRAME")
EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE")
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
OF_ENTRY = (
    *("collective_seq_id", "p2p_seq_id", "process_group", "profiling_name", "state", "input_sizes", "output_sizes"),
    *("input_dtypes", "timeout_ms", "time_created_ns", "is_p2p"),
)


def plain(data: bytes) -> Any:
    """What a pickle of numbers, texts and containers holds. Nothing is run: ValueError for one that names code."""
    import pickletools

    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}

    def since_mark() -> list[Any]:
        at = marks.pop()
        taken = stack[at:]
        del stack[at:]
        return taken

    for opcode, argument, _ in pickletools.genops(data):
        name = opcode.name
        if name in IGNORED:
            continue
        if name == "STOP":
            return stack.pop()
        if name == "MARK":
            marks.append(len(stack))
        elif name in EMPTY:
            stack.append(EMPTY[name]())
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in VALUES:
            stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in ("APPEND", "APPENDS"):
            taken = since_mark() if name == "APPENDS" else [stack.pop()]
            stack[-1].extend(taken)
        elif name in ("SETITEM", "SETITEMS"):
            taken = since_mark() if name == "SETITEMS" else [stack.pop() for _ in "vk"][::-1]
            stack[-1].update(zip(taken[::2], taken[1::2]))
        elif name == "TUPLE":
            stack.append(tuple(since_mark()))
        elif name in TUPLES:
            taken = stack[-TUPLES[name] :]
            del stack[-TUPLES[name] :]
            stack.append(tuple(taken))
        else:
            raise ValueError(f"{name} is not a plain value")
    raise ValueError("it has no end")


def kept(folder: str, most_bytes: int) -> list[dict[str, Any]]:
    """An event for each file of a rank, its text not longer than `most_bytes`; the files are removed."""
    events = []
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    for name in names:
        found = NAME.fullmatch(name)
        if found is None:
            continue
        path = os.path.join(folder, name)
        try:
            text = ends(path, most_bytes) if found[1] == "nccl" else trace(path, most_bytes)
        except OSError as error:
            text = f"{name}: {error.strerror}"
        events.append({"file": found[1], "rank": int(found[2]), "text": text})
        remove(path)
    return events


def remove(path: str) -> None:
    """Remove a file, which may be gone already."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def ends(path: str, most_bytes: int) -> str:
    """A text's first quarter and its end, where it is too long: how the communicator began, and what went wrong."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= most_bytes:
            return file.read().decode("utf-8", "replace")
        first = file.read(most_bytes // 4)
        file.seek(size - 3 * (most_bytes // 4))
        last = file.read()
    left_out = f"\n... {size - len(first) - len(last)} bytes left out ...\n"
    return first.decode("utf-8", "replace") + left_out + last.decode("utf-8", "replace")


def trace(path: str, most_bytes: int) -> str:
    """The flight recorder as JSON: the state of each process group, and the last collectives without their frames."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > TRACE_BYTES:
            return f"not kept: larger than {TRACE_BYTES} bytes"
        try:
            record = loaded(file.read())
        except (ValueError, IndexError, KeyError, AttributeError, TypeError, RecursionError) as error:
            return f"not readable: {error}"
    entries = [{name: entry.get(name) for name in OF_ENTRY} for entry in record["entries"][-ENTRIES:]]
    while True:
        text = json.dumps({**record, "entries": entries}, default=str)
        if len(text) <= most_bytes or not entries:
            return text[:most_bytes]
        entries = entries[len(entries) // 2 + 1 :]


def loaded(data: bytes) -> dict[str, Any]:
    """The parts of a flight recorder that we keep; TypeError where the data is something else."""
    whole = plain(data)
    entries = whole.get("entries", []) if isinstance(whole, dict) else [whole]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise TypeError("it is not a dump of the flight recorder")
    names = ("version", "nccl_version", "pg_status", "pg_config")
    return {**{name: whole[name] for name in names if name in whole}, "entries": entries}
