"""How is a command started while all other sessions go on?

Starting a program blocks the caller until the kernel has loaded it, for a millisecond or two, and subprocess holds
Python's lock (the GIL) for that time: a quarter of the run time of a loop that visits thousands of nodes. Here a thread
calls posix_spawn of the C library through ctypes, which releases the lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any

SET_SIGNALS, NEW_SESSION = 0x04, 0x80  # POSIX_SPAWN_SETSIGDEF and POSIX_SPAWN_SETSID
STRUCT_BYTES = 1024  # no posix_spawnattr_t, posix_spawn_file_actions_t or sigset_t is larger
NEEDED = "posix_spawn_file_actions_addclosefrom_np"  # in glibc since 2.34
STANDARD = 3  # descriptors: input, output and errors
REAPING_SECONDS = 2.0  # after a SIGKILL; longer it only takes where the kernel is stuck
AT_ONCE = 3  # each has three further descriptors for as long as it takes


@dataclass(frozen=True)
class Command:
    """A child process and our ends of its three pipes; the owner closes them."""

    pid: int
    poll: Callable[[], int | None]  # the exit code, once it has ended and is reaped; None while it runs
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]

    def close(self) -> None:
        """Close the pipes."""
        for end in (self.stdin, self.stdout, self.stderr):
            end.close()


async def started(argv: Sequence[str]) -> Command:
    """Start a command with pipes, in a new session. Raises OSError where that fails."""
    start = by_subprocess if _library() is None else by_the_library
    starting = _threads().submit(start, argv)
    try:
        return await asyncio.wrap_future(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_end)  # in its thread: nobody may run our loop by then
        raise


def _end(starting: Future[Command]) -> None:
    """Kill and reap a command whose start was cancelled."""
    if starting.cancelled() or starting.exception() is not None:
        return
    command = starting.result()
    command.close()
    with contextlib.suppress(ProcessLookupError):
        os.kill(command.pid, signal.SIGKILL)
    until = time.monotonic() + REAPING_SECONDS
    while command.poll() is None and time.monotonic() < until:
        time.sleep(0.002)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="preflight-starting")


def by_subprocess(argv: Sequence[str]) -> Command:
    """By subprocess, where the C library lacks a function."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return Command(process.pid, process.poll, process.stdin, process.stdout, process.stderr)


def by_the_library(argv: Sequence[str]) -> Command:
    """By posix_spawn, which blocks the calling thread alone."""
    words = [os.fsencode(word) for word in argv]
    if any(b"\0" in word for word in words):
        return by_subprocess(argv)  # which refuses it; posix_spawn would cut it short
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        stdin = _pipe(theirs, ours)
        stdout, stderr = (_pipe(ours, theirs) for _ in ("stdout", "stderr"))
        pid = _spawned(words, [stdin[0].fileno(), stdout[1].fileno(), stderr[1].fileno()])
        ours.pop_all()
    return Command(pid, functools.partial(_exit_code, pid), stdin[1], stdout[0], stderr[0])


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    ends = os.pipe()
    return reader.enter_context(os.fdopen(ends[0], "rb", 0)), writer.enter_context(os.fdopen(ends[1], "wb", 0))


def _spawned(words: list[bytes], ends: list[int]) -> int:
    """The id of a process that has these three descriptors and no other. Raises OSError."""
    library = _library()
    pid, actions = ctypes.c_int(), ctypes.create_string_buffer(STRUCT_BYTES)
    library.posix_spawn_file_actions_init(actions)
    for number, end in enumerate(ends):
        library.posix_spawn_file_actions_adddup2(actions, end, number)
    library.posix_spawn_file_actions_addclosefrom_np(actions, STANDARD)
    error = library.posix_spawnp(
        ctypes.byref(pid),
        words[0],
        actions,
        _attributes(),
        (ctypes.c_char_p * (len(words) + 1))(*words, None),
        ctypes.c_void_p.in_dll(library, "environ"),
    )
    library.posix_spawn_file_actions_destroy(actions)
    if error:
        raise OSError(error, os.strerror(error), os.fsdecode(words[0]))
    return pid.value


def _exit_code(pid: int) -> int | None:
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # where SIGCHLD is ignored, there is nothing to reap
        return 0
    return os.waitstatus_to_exitcode(status) if ended else None


@functools.cache
def _library() -> Any:
    """The C library; None where it cannot close all other descriptors, or descriptors 0 to 2 are not open."""
    library = ctypes.CDLL(None)
    has_standard = all(os.path.exists(f"/proc/self/fd/{number}") for number in range(STANDARD))
    return library if has_standard and hasattr(library, NEEDED) else None


@functools.cache
def _attributes() -> Any:
    """A new session, and default handling of the signals that Python ignores."""
    library = _library()
    signals, attributes = (ctypes.create_string_buffer(STRUCT_BYTES) for _ in range(2))
    library.sigemptyset(signals)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        library.sigaddset(signals, number)
    library.posix_spawnattr_init(attributes)
    library.posix_spawnattr_setsigdefault(attributes, signals)
    library.posix_spawnattr_setflags(attributes, ctypes.c_short(SET_SIGNALS | NEW_SESSION))
    return attributes
