"""What does the node's own resolver say, within a time limit?"""

from __future__ import annotations

import _thread  # `threading` would cost a node 2 ms, for objects that nothing here needs
import time

from preflight.node.agent import sockets as socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar, Union

    T = TypeVar("T")
    Answer = Union[T, OSError]

LIMIT_S = 5.0
# Where the resolver answers at once, one thread asks everything; each pause without an end brings in more.
THREADS = (1, 3, 28)
PAUSE_S = 0.1
NOT_KNOWN = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


def ask_all(questions: Mapping[str, Callable[[], T]], *, limit_s: float = LIMIT_S) -> dict[str, Answer[T]]:
    """Ask every question in a thread; an answer is the value, or the OSError that stands for it.

    A look-up blocks in libc and cannot be stopped. A question without an answer in time is a TimeoutError and its
    thread is left behind: it ends with the process.
    """
    waiting = list(questions.items())
    answers: dict[str, Answer[T]] = {}
    unfinished = iter(range(len(questions) - 1))
    all_done = _thread.allocate_lock()
    all_done.acquire()

    def work() -> None:
        while True:
            try:
                key, question = waiting.pop(0)
            except IndexError:
                return
            try:
                answers[key] = question()
            except OSError as error:
                answers[key] = error
            except UnicodeError as error:  # how getaddrinfo says "not a host name", say for an empty label
                answers[key] = socket.gaierror(socket.EAI_NONAME, f"not a host name: {error}")
            if next(unfinished, None) is None:
                all_done.release()

    end = time.monotonic() + limit_s
    for count in THREADS if questions else ():
        for _ in range(min(count, len(waiting))):
            _thread.start_new_thread(work, ())
        if all_done.acquire(timeout=PAUSE_S):
            break
    else:
        if questions:
            all_done.acquire(timeout=max(0.0, end - time.monotonic()))
    waiting.clear()
    given = dict(answers)
    silent = TimeoutError(f"the resolver gave no answer within {limit_s:g} s")
    return {key: given.get(key, silent) for key in questions}


def addresses_of(name: str) -> list[str]:
    """Every address that getaddrinfo gives for a name, in its order; none if the resolver knows no such name.

    What connects to a name tries them in this order: where something listens at a wrong first one, no other is tried.
    """
    try:
        found = socket.getaddrinfo(for_resolver(name), None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in NOT_KNOWN:
            return []
        raise
    return list(dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found))


def full_name(name: str) -> str:
    """The fully qualified name, chosen as socket.getfqdn chooses it: the first with a dot in it."""
    try:
        first, aliases, _ = socket.gethostbyaddr(for_resolver(name))  # type: ignore[arg-type]
    except OSError:
        return name
    return next((candidate for candidate in (first, *aliases) if "." in candidate), first)


def for_resolver(name: str) -> bytes:
    """A host name as the resolver takes it; only names beyond ASCII need the codec, which takes 4 ms to load."""
    return name.encode() if name.isascii() else name.encode("idna")
