"""How is a question asked that the kernel may never answer, say of a file system whose server has gone?

A process that waits for such an answer cannot be interrupted, so each question gets a process of its own.
"""

from __future__ import annotations

import json
import os
import select
import time

from preflight.node.agent import children

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping
    from typing import Any
else:
    import _signal as signal  # the module signal makes enums of all numbers: 2 ms more

READ_BYTES = 1 << 16
LOOK_SECONDS = 0.2  # between two checks of a process that waits for a processor


class Silent(OSError):
    """No answer in time."""


def ask(question: Callable[[], Any], *, seconds: float) -> Any:
    """The answer to one question. Raises OSError: the question's own, or Silent."""
    answer = ask_each({"one": question}, seconds=seconds)["one"]
    if isinstance(answer, OSError):
        raise answer
    return answer


def ask_each(
    questions: Mapping[str, Callable[[], Any]], *, seconds: float, spare_seconds: float = 0.0
) -> dict[str, Any]:
    """The answers to all questions, asked at once: a JSON value each, or the OSError that it ended with.

    `spare_seconds` is for a busy node: waiting for a processor, up to this long, does not count against a question.
    """
    waiting: dict[int, tuple[str, int, bytearray]] = {}
    for key, question in questions.items():
        pid, descriptor = _start(question)
        waiting[descriptor] = (key, pid, bytearray())
    answers: dict[str, Any] = {}
    begun = time.monotonic()
    end = begun + seconds
    while waiting:
        ready, _, _ = select.select(list(waiting), [], [], max(0.0, end - time.monotonic()))
        if not ready:  # an answer that has arrived is in time: we may be the ones who had no processor
            taken = time.monotonic() - begun
            starved = max(starved_seconds(pid, taken - seconds) for _, pid, _ in waiting.values())
            if taken >= seconds + min(spare_seconds, starved):
                break
            end = begun + seconds + min(spare_seconds, starved)
        for descriptor in ready:
            key, pid, data = waiting[descriptor]
            more = os.read(descriptor, READ_BYTES)
            data += more
            if not more:
                del waiting[descriptor]
                os.close(descriptor)
                os.waitpid(pid, 0)
                answers[key] = _answer(bytes(data))
    for descriptor, (key, pid, _) in waiting.items():
        os.close(descriptor)
        children.kill_all([pid], signal.SIGKILL)  # a process that hangs in the kernel ends when the kernel lets it go
        answers[key] = Silent(f"no answer within {seconds:g} s")
    return {key: answers[key] for key in questions}


def starved_seconds(pid: int, late_seconds: float) -> float:
    """How long a process was ready to run, and had no processor; a look longer than it is late where it is so now."""
    try:
        with open(f"/proc/{pid}/stat") as text:
            if text.read().rpartition(")")[2].split()[0] == "R":  # the kernel counts a wait when it has ended
                return late_seconds + LOOK_SECONDS
        with open(f"/proc/{pid}/schedstat") as figures:
            return int(figures.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _start(question: Callable[[], Any]) -> tuple[int, int]:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    try:
        children.die_with_parent()
        os.close(read)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            reply = {"value": question()}
        except OSError as error:
            reply = {"error": error.strerror or str(error), "errno": error.errno or 0}
        with os.fdopen(write, "w") as stream:
            json.dump(reply, stream)
    finally:
        os._exit(0)


def _answer(data: bytes) -> Any:
    if not data:
        return OSError("the process that asked ended without an answer")
    reply = json.loads(data)
    return reply["value"] if "value" in reply else OSError(reply["errno"], reply["error"])
