"""How does the process of one call live: apart from the keeper, bounded in time, with nothing but its channel?"""

from __future__ import annotations

import errno
import gc
import os
import time

from preflight.node.agent import children

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Set as AbstractSet
    from typing import Any

    from preflight.node.agent.channel import Channel

    Message = dict[str, Any]
else:
    import _signal as signal  # the module signal makes enums of all numbers: 2 ms more

# What a node can be asked -> the module whose `run` answers.
CALLS = {
    "facts": "collect",
    "mesh": "mesh",
    "stream": "stream",
    "ranks": "ranks",
    "free_port": "ports_free",
    "files": "files",
    "trust": "trust",
    "vendor": "gpus.vendor",
    "rdma_serve": "rdma.serve",
    "rdma_write": "rdma.write",
    "ending": "ending",
    "record": "record",
    "hanging": "hanging",
    "rehearse": "rehearse",
}
ALARM_AFTER_S = 5.0  # past the call's own deadline


def work(message: Message, channel: Channel, *, memory_files: AbstractSet[int]) -> None:
    """Answer a call in the process forked for it; never returns. ``memory_files`` are open modules of ours."""
    try:
        gc.disable()  # a call is short: what it leaves goes with its process
        children.die_with_parent()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(max(1, int(channel.deadline - time.monotonic() + ALARM_AFTER_S)))
        leave_keeper({channel.up, channel.down, *memory_files})
        channel.finish(outcome(message, channel))
    finally:
        os._exit(0)


def leave_keeper(kept: AbstractSet[int]) -> None:
    """Drop what belongs to the keeper: its input, its output, its lock and the pipes of other calls."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # a stray print becomes stderr, never a broken frame
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) not in {0, 1, 2, *kept}:
            try:
                os.close(int(entry))
            except OSError:
                continue


def outcome(message: Message, channel: Channel) -> Message:
    """The result of the call, or the error that its code raised: that is an answer about this node too."""
    try:
        module = __import__("preflight.node.calls." + CALLS[message["name"]], fromlist=("run",))
        return {"result": module.run(message["arguments"], channel)}
    except Exception as error:
        # It holds for what lies in memory too.
        limited = "; `ulimit -f` limits what this session may write" if is_too_large(error) else ""
        return {"error": f"{type(error).__name__}: {error}{limited}"}


def is_too_large(error: Exception) -> bool:
    """Whether a limit on the size of files ended it."""
    return isinstance(error, OSError) and error.errno == errno.EFBIG
