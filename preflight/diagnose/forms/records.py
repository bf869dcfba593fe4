"""What does a logger say that writes each line as a record of JSON: the words, and who printed them?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

START = b'{"'
WORDS = ("message", "msg", "log", "text", "event", "textPayload")
TRACES = ("exc_info", "exception", "stack_trace", "stacktrace", "traceback", "stack", "error")
RANKS = ("rank", "global_rank", "RANK")
NODES = ("host", "hostname", "node", "node_name", "pod", "pod_name")
TIMES = ("time", "timestamp", "@timestamp", "ts", "asctime")
LEVELS = ("level", "levelname", "severity", "log_level", "lvl")
SERIOUS = frozenset(("error", "warn", "warning", "critical", "fatal", "panic"))
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?")
NODE = re.compile(r"[A-Za-z0-9][\w.-]{0,252}")
MOST_LINES = 256  # of one record: a traceback
MOST_RANK = 1 << 20
decode = msgspec.json.Decoder().decode


def spoken(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The lines, and in place of a record that tells of an error the words that it holds, as launchers print them.

    Other records stay what they are: of steps they hold the numbers.
    """
    for number, line in lines:
        if line.startswith(START) and (words := _words(line)):
            yield from ((number, one) for one in words)
        else:
            yield number, line


def _words(line: bytes) -> list[bytes]:
    try:
        record = decode(line)
    except msgspec.DecodeError:
        return []
    if not isinstance(record, dict) or _text(record, LEVELS).lower() not in SERIOUS:
        return []
    words = [_text(record, WORDS), *(str(record[key]) for key in TRACES if isinstance(record.get(key), str))]
    rank = next((record[key] for key in RANKS if key in record), None)
    found, node = TIME.search(_text(record, TIMES)), _text(record, NODES)
    before = f"{found[0]} " if found else ""
    before += f"[pod/{node}] " if NODE.fullmatch(node) else ""
    before += f"[rank{rank}]: " if str(rank).isdecimal() and int(str(rank)) < MOST_RANK else ""
    return [f"{before}{one}".encode() for word in words if word for one in word.splitlines()[:MOST_LINES]]


def _text(record: dict[str, Any], keys: tuple[str, ...]) -> str:
    """What the first of these keys that is there holds, where that is a text."""
    return next((record[key] for key in keys if isinstance(record.get(key), str)), "")
