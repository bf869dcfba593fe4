"""A node that lies: between its honest keeper and the controller stands this program, and changes what is said.

It is given as the node's ``python``: ``hostile_node.py MODE PYTHON ARGUMENTS`` starts the honest interpreter and passes
everything on but what MODE is about. A mode is ``KIND.DAMAGE`` (which message, how it is changed) or one of STREAMS. The
file that HOSTILE_LIED names is made with the first lie.
"""

from __future__ import annotations

import contextlib
import copy
import json
import marshal
import os
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

HEADER = re.compile(rb"([0-9a-f]{32}) ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8})\n")
INK = "\x1b[31m\r::error::planted\x1b]0;x\x07\x9b##vso[task.complete]\u202e<script>alert(1)</script>"
Json = Any


def event(key: str) -> Callable[[Json], bool]:
    """Whether a message is an event that has a key."""
    return lambda message: isinstance(message.get("event"), dict) and key in message["event"]


def subject(name: str) -> Callable[[Json], bool]:
    """Whether a message tells of a subject."""
    return lambda message: event("subject")(message) and message["event"]["subject"] == name


def record(kind: str) -> Callable[[Json], bool]:
    """Whether a message passes on a rank's record of a kind."""
    return lambda message: event("record")(message) and message["event"]["record"].get("record") == kind


def result(key: str) -> Callable[[Json], bool]:
    """Whether a message is a call's result that has a key."""
    return lambda message: isinstance(message.get("result"), dict) and key in message["result"]


SUBJECTS = ("identity", "network", "ports", "software", "environment", "limits", "machine", "kernel", "gpu", "rdma")
# Which message: how it is recognised, and where in it the damage is done.
KINDS: dict[str, tuple[Callable[[Json], bool], tuple[str, ...]]] = {
    "hello": (lambda message: "hello" in message, ("hello",)),
    "opened": (lambda message: "opened" in message, ()),
    "pong": (lambda message: "pong" in message, ()),
    "end": (lambda message: "end" in message, ("end",)),
    **{name: (subject(name), ("event", "facts")) for name in SUBJECTS},
    "peers": (subject("peers"), ("event", "facts")),
    "collected": (event("collected"), ("event",)),
    "files": (result("places"), ("result",)),
    **{name: (event(name), ("event",)) for name in ("looked", "written", "read")},
    "listening": (event("listening"), ("event",)),
    "tried": (event("tried"), ("event",)),
    "mesh": (result("edges"), ("result",)),
    "round": (event("round"), ("event", "round")),
    "port": (result("port"), ("result",)),
    "joined": (record("joined"), ("event", "record")),
    "measured": (record("result"), ("event", "record")),
    "trained": (record("trained"), ("event", "record")),
    "losses": (record("losses"), ("event", "record")),
    "exit": (event("exit"), ("event",)),
    "started": (result("started"), ("result",)),
    "ending": (event("facts"), ("event", "facts")),
}


def every(value: Json, change: Callable[[Json], Json]) -> Json:
    """The same shape with every leaf changed."""
    if isinstance(value, dict):
        return {key: every(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [every(inner, change) for inner in value]
    return change(value)


def is_number(value: Json) -> bool:
    """Whether a leaf is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def nested(depth: int) -> Json:
    """Lists in lists."""
    made: Json = []
    for _ in range(depth):
        made = [made]
    return made


DAMAGES: dict[str, Callable[[Json], Json]] = {
    "null": lambda _: None,
    "list": lambda _: [],
    "text": lambda _: INK,
    "number": lambda _: 7,
    "empty": lambda _: {},
    "fewer": lambda old: dict(list(old.items())[1:]) if isinstance(old, dict) else old,
    "more": lambda old: {**old, INK: INK} if isinstance(old, dict) else [old],
    "ink": lambda old: every(old, lambda leaf: leaf + INK if isinstance(leaf, str) else leaf),
    "inked keys": lambda old: {key + INK: inner for key, inner in old.items()} if isinstance(old, dict) else INK,
    "huge": lambda old: every(old, lambda leaf: 1e300 if is_number(leaf) else leaf),
    "negative": lambda old: every(old, lambda leaf: -1 if is_number(leaf) else leaf),
    "nan": lambda old: every(old, lambda leaf: float("nan") if is_number(leaf) else leaf),
    "texts for numbers": lambda old: every(old, lambda leaf: "9" if is_number(leaf) else leaf),
    "lists for leaves": lambda old: every(old, lambda leaf: [leaf]),
    "deep": lambda old: {**old, "deep": nested(500)} if isinstance(old, dict) else nested(500),
    "long": lambda old: every(old, lambda leaf: leaf + "x" * 300_000 if isinstance(leaf, str) else leaf),
    "crowd": lambda old: {**old, "crowd": [[]] * 250_000} if isinstance(old, dict) else [[]] * 250_000,
    "surrogate": lambda old: every(old, lambda leaf: leaf + "\ud800" if isinstance(leaf, str) else leaf),
}
COUNTED = ("received_bytes", "gbytes_per_s", "sent_bytes")  # of a round of streams, in which all must fit together


def counted(factor: float) -> Callable[[Json], Json]:
    """A round's figures so many times as large, so that each still follows from the others."""
    return lambda old: {**old, **{key: type(old[key])(factor * old[key]) for key in COUNTED if old.get(key)}}


# What a node may say of its own streams that is possible, and not so.
LIES: dict[str, Callable[[Json], Json]] = {"boasting": counted(50), "belittling": counted(0.02)}
# What a node says of the streams that it is to receive, and what it does with those that it is to send.
DEAF = "round.deaf"
UNCONNECTED = "orders.unconnected"
LIES["deaf"] = lambda old: (
    {"shift": old["shift"], "from": old["from"], "error": f"{old['from']} did not connect"}
    | {key: value for key, value in old.items() if key.startswith("sen")}
)
TWICE = ("twice", "never", "silent", "gone")  # the message again, left out, and the last thing that is heard


def framed(marker: bytes, text: bytes) -> bytes:
    """A frame whose promises hold."""
    return b"%s %08x %08x %08x\n%s\n" % (marker, len(text), 0, zlib.crc32(text), text)


def flood(marker: bytes, write: Callable[[bytes], None], text: bytes, count: int) -> None:
    """The same message again and again."""
    frame = framed(marker, text)
    for _ in range(count):
        write(frame)


def crowd(size: int) -> bytes:
    """A message of empty lists."""
    return b'{"call":1,"event":{"subject":"x","facts":{"a":[' + b"[]," * size + b"[]]}}}"


def drip(_marker: bytes, write: Callable[[bytes], None]) -> None:
    """A byte now and then, for ever."""
    while True:
        write(b".")
        time.sleep(0.2)


def slow_logs(marker: bytes, write: Callable[[bytes], None]) -> None:
    """Long events for the first call, one after the other, more slowly than anybody reads them."""
    for _ in range(150):
        write(framed(marker, b'{"call":1,"event":{"log":"' + b"x" * (1 << 20) + b'"}}'))
        time.sleep(0.02)


# What is said instead of everything after the greeting.
STREAMS: dict[str, Callable[[bytes, Callable[[bytes], None]], None]] = {
    "noise": lambda _, write: [write(b"y\n" * 65536) for _ in range(3000)] and None,
    "one line": lambda _, write: [write(b"y" * 131072) for _ in range(3000)] and None,
    "escapes": lambda _, write: [write(INK.encode() * 4096) for _ in range(1000)] and None,
    "drip": drip,
    "slow logs": slow_logs,
    "crowds": lambda marker, write: flood(marker, write, crowd(60_000), 2000),
    "one crowd": lambda marker, write: flood(marker, write, crowd(2_700_000), 1),
    "small frames": lambda marker, write: flood(marker, write, b'{"call":1,"event":{"a":1}}', 3_000_000),
    "unknown messages": lambda marker, write: flood(marker, write, b'{"x":1}', 3_000_000),
    "ends": lambda marker, write: flood(marker, write, b'{"end":{"reason":"so","residue":[]}}', 5),
    "big frames": lambda marker, write: flood(marker, write, b'{"a":"' + b"x" * (7 << 20) + b'"}', 100),
    "frame too long": lambda marker, write: write(marker + b" 7fffffff 00000000 00000000\n" + b"x" * 1000),
    "negative length": lambda marker, write: write(marker + b" -0000001 00000000 00000000\n" + b"x" * 1000),
    "no length": lambda marker, write: write(marker + b" zzzzzzzz 00000000 00000000\n" + b"x" * 1000),
    "wrong sum": lambda marker, write: write(marker + b" 00000002 00000000 00000000\n{}\n"),
    "half a frame": lambda marker, write: write(framed(marker, b'{"call":1,"event":{}}')[:-9]),
    "no json": lambda marker, write: write(framed(marker, b"{'a': 1}")),
    "key twice": lambda marker, write: write(framed(marker, b'{"pong":0,"pong":1,"time":1}')),
    "infinity": lambda marker, write: write(framed(marker, b'{"pong":0,"time":1e999}')),
    "digits": lambda marker, write: write(framed(marker, b'{"pong":0,"time":' + b"9" * 4000 + b"}")),
    "zeros": lambda _, write: write(b"\0" * (3 << 20)),
}
OF_PATHS = ("looked", "written", "read")  # the rounds between nodes that share a path: only tests ask for one
MODES = (
    *(f"{kind}.{damage}" for kind in KINDS if kind not in OF_PATHS for damage in (*DAMAGES, *TWICE)),
    *(f"round.{lie}" for lie in LIES),
    *STREAMS,
)


def changed(message: Json, path: tuple[str, ...], damage: Callable[[Json], Json]) -> Json:
    """The message with what stands at a path damaged."""
    if not path:
        return damage(message)
    made = copy.copy(message)
    made[path[0]] = changed(message.get(path[0]), path[1:], damage)
    return made


def misled(data: bytes) -> bytes:
    """What the controller says, of which an order to send a stream names a port where nobody listens."""
    found = HEADER.search(data)
    if not found or b"send_to" not in data:
        return data
    end = found.end() + int(found[2], 16) + int(found[3], 16)
    text = data[found.end() : found.end() + int(found[2], 16)]
    if b"send_to" in text:
        message = marshal.loads(text)
        if message["send"]["round"]["send_to"]:
            message["send"]["round"]["send_to"]["port"] = 1
        return data[: found.start()] + framed(found[1], marshal.dumps(message, 2)) + misled(data[end + 1 :])
    return data[: end + 1] + misled(data[end + 1 :])


def spoken(mode: str, marker: bytes, message: Json, lied: Callable[[], None]) -> Iterator[bytes]:
    """What is sent in the place of one honest message."""
    kind, _, how = mode.partition(".")
    recognises, path = KINDS[kind]
    honest = framed(marker, json.dumps(message).encode())
    if not recognises(message):
        yield honest
        return
    damage = {**DAMAGES, **LIES}.get(how)
    said = changed(message, path, damage) if damage else None
    if said != message:
        lied()
    if how == "twice":
        yield honest + honest
    elif how in ("silent", "gone"):
        raise EOFError(how)
    elif how != "never":
        yield framed(marker, json.dumps(said).encode())


def main(mode: str, argv: list[str]) -> None:
    """Stand between the keeper and the controller until either ends."""
    told = os.environ.pop("HOSTILE_LIED", os.devnull)
    keeper = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert keeper.stdin is not None
    assert keeper.stdout is not None

    def down() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(0, 1 << 16):
                keeper.stdin.write(misled(data) if mode == UNCONNECTED else data)
                keeper.stdin.flush()
        with contextlib.suppress(OSError):
            keeper.stdin.close()

    def lied() -> None:
        with open(told, "w"):
            return

    def write(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    threading.Thread(target=down, daemon=True).start()
    buffer = b""
    with contextlib.suppress(OSError):
        while data := os.read(keeper.stdout.fileno(), 1 << 18):
            buffer += data
            while (found := HEADER.search(buffer)) and len(buffer) > found.end() + int(found[2], 16):
                end = found.end() + int(found[2], 16)
                message = json.loads(buffer[found.end() : end])
                buffer = buffer[end + 1 :]
                if mode in STREAMS:
                    write(framed(found[1], json.dumps(message).encode()))
                    lied()
                    STREAMS[mode](found[1], write)
                    time.sleep(600)
                if mode == UNCONNECTED:
                    write(framed(found[1], json.dumps(message).encode()))
                    continue
                try:
                    for said in spoken(mode, found[1], message, lied):
                        write(said)
                except EOFError as end_of_words:
                    if str(end_of_words) == "gone":
                        return
                    time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
