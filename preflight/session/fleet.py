"""How do all nodes of a run live side by side: one loop, one thread, every connection at once?"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import random
import resource
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from preflight.errors import HostError, PreflightError, Unreachable
from preflight.hosts import Host
from preflight.session.connection import CLOSE_SECONDS, Session
from preflight.transport import Reach, transport_of

T = TypeVar("T")
CONCURRENT_CONNECTS = 64
EARLY_CLOSE_RETRIES = 3
RETRY_SECONDS = (0.2, 1.0)  # before the first of them; twice as long before each further one


async def _nothing(_session: Session) -> None:
    return


class Fleet:
    """Every session of a run, and the thread they live in."""

    def __init__(self, hosts: Iterable[Host], reach: Reach, *, run_id: str, deadline: float) -> None:
        self.hosts = tuple(hosts)
        self.reach = reach
        self.run_id = run_id
        self.deadline = deadline
        self.sessions: dict[str, Session] = {}
        self.failures: dict[str, HostError] = {}
        _raise_file_limit()
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="preflight-sessions", daemon=True)
        self._thread.start()

    def waiting(self) -> list[str]:
        """The nodes that are not up yet, or have a call under way."""
        sessions = dict(self.sessions)
        return [
            host.name
            for host in self.hosts
            if host.name not in self.failures and (host.name not in sessions or sessions[host.name].calls)
        ]

    def run(self, work: Coroutine[Any, Any, T], *, seconds: float) -> T:
        """Run a coroutine on the sessions' loop and wait at most `seconds` for it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout=seconds)
        except concurrent.futures.TimeoutError:  # TimeoutError itself only from 3.11 on
            future.cancel()
            raise PreflightError(f"not finished within {seconds:.0f} s") from None
        except BaseException:
            future.cancel()
            raise

    async def open(self, then: Callable[[Session], Awaitable[None]] = _nothing) -> None:
        """Open a session to every host at once, and do `then` with each as soon as it is up.

        Hosts that fail in either are in `failures`.
        """
        gate = asyncio.Semaphore(CONCURRENT_CONNECTS)

        async def one(host: Host) -> None:
            try:
                async with gate:
                    self.sessions[host.name] = await self._open_patiently(host)
                await then(self.sessions[host.name])
            except HostError as error:
                self.failures[host.name] = error

        await asyncio.gather(*(one(host) for host in self.hosts))

    async def _open_patiently(self, host: Host) -> Session:
        for attempt in range(EARLY_CLOSE_RETRIES + 1):
            session = Session(host, run_id=self.run_id, deadline=self.deadline)
            try:
                await session.open(self.reach)
                return session
            except Unreachable:
                stderr = session.stderr.decode("utf-8", "replace")
                if not transport_of(host).is_worth_a_retry(stderr) or attempt == EARLY_CLOSE_RETRIES:
                    raise
            await asyncio.sleep(random.uniform(*RETRY_SECONDS) * 2**attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def close(self) -> None:
        """Close every session, then the loop; bounded, and safe to call twice."""
        if not self._thread.is_alive():
            return

        async def all_of_them() -> None:
            await asyncio.gather(*(session.close() for session in self.sessions.values()), return_exceptions=True)
            # What a stage left waiting when one of its nodes failed: a closed loop would complain of it.
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        with contextlib.suppress(PreflightError):
            self.run(all_of_them(), seconds=CLOSE_SECONDS + 4.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=2.0)
        if not self._thread.is_alive():
            self._loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    if sys.version_info < (3, 12):
        # The default watcher of 3.10 and 3.11 starts a thread for every child.
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(loop)
        asyncio.set_child_watcher(watcher)
    return loop


def _raise_file_limit() -> None:
    """A connection takes three descriptors; the soft limit of 1024 is not enough for 400 nodes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
