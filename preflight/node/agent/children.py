"""How is a program started so that it cannot outlive us?"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import subprocess
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet
    from typing import Any
else:
    import _signal as signal  # the module signal makes enums of all numbers: 2 ms more

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def in_libc(name: str, *arguments: Any) -> int:
    """What a function of the C library gives for integers of 32 bits and bytes; why it failed is not reported.

    The module ctypes, which would tell, takes 2 ms longer to load.
    """
    return found_in_libc(name)(*arguments)


def found_in_libc(name: str) -> Callable[..., int]:
    """The same function, to be called later: looking it up takes a lock that another thread may hold at a fork."""
    import _ctypes

    call = _ctypes.call_function
    function = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), name)  # type: ignore[arg-type]
    return lambda *arguments: call(function, arguments)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel for this signal to this process when the thread that forked it ends."""
    in_libc("prctl", PR_SET_PDEATHSIG, number, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, so that none escapes a kill."""
    in_libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def start(argv: list[str], *, seconds: float, **options: Any) -> subprocess.Popen[bytes]:
    """Start a program that dies with us and, should we be killed in a way that spares it, by its own alarm.

    ``seconds`` is the time left until that alarm; ``options`` go to Popen.
    """
    import subprocess  # 8 ms to load, wasted where no program is started

    parent = os.getpid()
    alarm = max(1, int(seconds) + 5)
    prctl = found_in_libc("prctl")

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.alarm(alarm)  # kept across exec: a second deadline, which holds even when the keeper is gone
        if os.getppid() != parent:
            os._exit(1)

    options.setdefault("stdin", subprocess.DEVNULL)
    # preexec_fn is safe here: beside ours there are at most threads that wait for a resolver, and it takes no lock.
    return subprocess.Popen(argv, preexec_fn=prepare, close_fds=True, **options)  # noqa: PLW1509


def descendants(root: int, *, but: AbstractSet[int] = frozenset()) -> list[int]:
    """The pids of every living descendant of `root`, children before grandchildren, without those trees."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as stat:
                    fields = stat.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] not in (b"Z", b"X"):
                parents.setdefault(int(fields[1]), []).append(int(entry))
    found = []
    ring = [root]
    while ring:
        ring = [child for parent in ring for child in parents.get(parent, []) if child not in but]
        found.extend(ring)
    return found


def holding(text: str, *, but: set[int]) -> list[int]:
    """The pids of processes that were started with this text in a variable, as far as we may see, without those named.

    The text is beyond guessing: nobody else has it.
    """
    wanted = text.encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in but:
            try:
                with open(f"/proc/{entry}/environ", "rb") as environ:
                    held = environ.read()
            except OSError:
                continue
            if wanted in held:
                found.append(int(entry))
    return found


def kill_all(pids: list[int], number: int) -> None:
    """Signal each pid; a process that has already ended is no error."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
