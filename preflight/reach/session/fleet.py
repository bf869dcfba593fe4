"""How do all nodes of a run live side by side: one loop, one thread, every connection at once?"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import random
import resource
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from preflight.reach.host import Host
from preflight.reach.hosts import fold
from preflight.reach.session.connection import CLOSE_SECONDS, HELLO_SECONDS, Bounds, Session, own_line
from preflight.reach.session.line import Line
from preflight.reach.session.step import Gatherings
from preflight.reach.transport import Reach, gathering_of, transport_of
from preflight.said import knowing, said
from preflight.said.errors import BadReply, Busy, HostError, PreflightError, StoodStill, TimedOut, Unreachable

T = TypeVar("T")
CONCURRENT_CONNECTS = 64
EARLY_CLOSE_RETRIES = 3
RETRY_SECONDS = (0.2, 1.0)  # before the first of them; twice as long before each further one
MARGIN_SECONDS = 2.0  # before a stage's time is over, calls without an answer end, so that the rest of it counts
OWN_FILES = 100
OF_A_COMMAND = 4  # its three pipes, and the descriptor that shows its end
FILES_WHILE_MADE = 10
FEW_GREETINGS = 32  # after this many we know how long nodes usually take to answer:
PATIENCE_FACTOR = 10.0  # a node that takes this many times longer than nearly all others,
PATIENCE_SECONDS = 8.0  # and at least this long, gives its place to the next
# For another run of ours to end: so long at most, this part of the time there is, looking again after so many seconds.
BUSY_SECONDS = 20.0
BUSY_SHARE = 0.4
BUSY_PAUSE_SECONDS = (0.5, 1.5)
SAME_MOMENT = timedelta(minutes=1)


async def _nothing(_session: Session) -> None:
    return


@dataclass(frozen=True)
class Parting:
    """The notes about a session that has ended."""

    remarks: tuple[str, ...]
    noise: str
    residue: tuple[str, ...]
    ended: bool


class Fleet:
    """Every session of a run, and the thread they live in.

    Of more nodes than this machine can hold connections, `at_once` are visited at a time.
    """

    def __init__(self, hosts: Iterable[Host], reach: Reach, *, run_id: str, deadline: float) -> None:
        self.hosts = tuple(hosts)
        self.reach = reach
        self.run_id = run_id
        self.deadline = deadline
        self.sessions: dict[str, Session] = {}
        self.failures: dict[str, HostError] = {}
        self.bounds = Bounds()
        self.partings: dict[str, Parting] = {}  # of visits
        self.busy_seconds = BUSY_SECONDS  # how long another run of our user is waited for
        self.remarks: tuple[str, ...] = ()  # about no node by itself
        self.late: set[str] = set()  # visited, but out of time before they had answered everything
        self._greetings: list[float] = []  # seconds
        self._patient = (0, 0.0)  # after so many of them: how many seconds are many times more than nearly all took
        self.gatherings: Gatherings | None = None
        # A socket for each task of one command; else a command for each.
        self.files_of_each = 1 if gathering_of(self.hosts, reach) else OF_A_COMMAND
        _raise_file_limit(_files_for(len(self.hosts), each=self.files_of_each))
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.at_once = most_at_once(len(self.hosts), files=files, each=self.files_of_each)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="preflight-sessions", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.bounds.pulse.beat(), self._loop)

    @property
    def is_whole(self) -> bool:
        """Whether all nodes are connected at the same time."""
        return self.at_once >= len(self.hosts)

    def why_in_turns(self) -> str:
        """Why a job that needs all nodes at once cannot run here, and what to do."""
        wanted = self.files_of_each * len(self.hosts) + 1000
        return said(
            "this machine allows a process {getrlimit} open files, so of {hosts} nodes {at_once} were "
            "visited at a time: `ulimit -n {wanted}`",
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            len(self.hosts),
            self.at_once,
            wanted,
        )

    def waiting(self) -> list[str]:
        """The nodes that are not up yet, or have a call under way."""
        sessions, parted = dict(self.sessions), set(self.partings)
        return [
            host.name
            for host in self.hosts
            if host.name not in self.failures
            and (sessions[host.name].calls if host.name in sessions else host.name not in parted)
        ]

    def run(self, work: Coroutine[Any, Any, T], *, seconds: float) -> T:
        """Run a coroutine on the sessions' loop and wait at most `seconds` for it.

        Calls without an answer shortly before that are TimedOut for their own node: the other nodes' answers count.
        """
        self.bounds.until = time.monotonic() + seconds - min(MARGIN_SECONDS, seconds / 10)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout=seconds)
        except concurrent.futures.TimeoutError:  # TimeoutError itself only from 3.11 on
            future.cancel()
            raise PreflightError(said("not finished within {seconds:.0f} s", seconds)) from None
        except BaseException:
            future.cancel()
            raise
        finally:
            self.bounds.until = float("inf")

    async def open(
        self, then: Callable[[Session], Awaitable[None]] = _nothing, *, seconds: float = float("inf")
    ) -> None:
        """Open a session to every host at once, and do `then` with each as soon as it is up.

        Hosts that fail in either, or are not done within `seconds`, are in `failures`. Where another run of our user
        holds some, we wait a while for its end.
        """
        begun = time.monotonic()
        until = min(begun + seconds, self.bounds.until)
        patient_until = begun + min(self.busy_seconds, BUSY_SHARE * (until - begun))
        await self._open(self.hosts, then, until)
        while held := {name: error.run for name, error in self.failures.items() if isinstance(error, Busy)}:
            again = [host for host in self.hosts if host.name in held]
            asked = next((host for host in again if not self._is_free(host.name)), again[0])
            if not await self._is_let_go(asked, patient_until):
                return
            kept = fold([name for name in held if not self._is_free(name)])
            for name in held:
                del self.failures[name]
            runs = ", ".join(sorted({*held.values()}))
            self.remarks = (
                said("waited {begun:.0f} s for run {runs}, which held {kept}", time.monotonic() - begun, runs, kept),
            )
            await self._open(again, then, until)

    def _is_free(self, name: str) -> bool:
        """Whether it was let go only because another run holds others of our hosts."""
        error = self.failures[name]
        return isinstance(error, Busy) and bool(error.holds)

    async def _is_let_go(self, host: Host, until: float) -> bool:
        """Whether the run that holds a host ends by then."""
        while (pause := random.uniform(*BUSY_PAUSE_SECONDS)) < until - time.monotonic():
            await asyncio.sleep(pause)
            try:
                await (await self.open_patiently(host)).close()
            except Busy:
                continue
            except HostError:
                return False
            return True
        return False

    async def _open(self, hosts: Sequence[Host], then: Callable[[Session], Awaitable[None]], until: float) -> None:
        """Open a session to each of these hosts.

        Where a run that began in the same moment has the right of way on one of them, we let go of all: else each run
        would hold a part.
        """
        gate = asyncio.Semaphore(CONCURRENT_CONNECTS)
        gatherings = self.gatherings = Gatherings(hosts, self.reach)

        async def one(host: Host) -> None:
            line = await gatherings.line(host)
            if line is not None and await self._join(host, line):
                await then(self.sessions[host.name])
                return
            async with gate:
                self.sessions[host.name] = await self.open_patiently(host)
            await then(self.sessions[host.name])

        async def judged(host: Host) -> None:
            try:
                try:
                    await one(host)
                except StoodStill:
                    await self._once_more(host, then)
            except Exception as error:
                self.failures[host.name] = of_host(host.name, error)
                if self._rival(self.failures[host.name]):
                    raise

        tasks = {host: asyncio.create_task(judged(host)) for host in hosts}
        pending, rival = await self._wait_for(tasks.values(), until)
        if rival:
            await asyncio.gather(*(session.close() for session in self.sessions.values()), return_exceptions=True)
            self.sessions.clear()
            held = [name for name, error in self.failures.items() if isinstance(error, Busy)]
            self.failures = {
                host.name: Busy(host.name, rival, "" if host.name in held else fold(held)) for host in self.hosts
            }
        for host, task in tasks.items():
            if task in pending and host.name not in self.failures:
                self.failures[host.name] = TimedOut(host.name, self._late(host))

    async def _wait_for(
        self, tasks: Collection[asyncio.Task[None]], until: float
    ) -> tuple[set[asyncio.Task[None]], str]:
        """Wait for all, or for a rival, and end the rest -> the tasks that were not done, and the rival."""
        pending, rival = set(tasks), ""
        while pending and not rival:
            left = until - time.monotonic()
            done, pending = await asyncio.wait(
                pending, timeout=None if left == float("inf") else max(0.0, left), return_when=asyncio.FIRST_EXCEPTION
            )
            if not done:
                break
            rival = max(map(self._rival, tuple(self.failures.values())), default="")
        for task in pending:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return pending, rival

    async def visit(
        self,
        hosts: Iterable[Host],
        work: Callable[[Session], Awaitable[None]],
        *,
        seconds: float,
    ) -> None:
        """Do `work` with a session to each of these hosts, `at_once` of them at a time; each is closed after it.

        Those that fail, or have not had their turn within `seconds`, are in `failures`.
        """
        until = min(time.monotonic() + seconds, self.bounds.until)
        left = iter(hosts)

        async def one_by_one() -> None:
            for host in left:
                if time.monotonic() > until:
                    self.failures[host.name] = TimedOut(host.name, "its turn did not come within the time of the stage")
                    continue
                try:
                    try:
                        self.sessions[host.name] = await self.open_patiently(host)
                        await work(self.sessions[host.name])
                    except StoodStill:
                        await self._once_more(host, work)
                except Exception as error:
                    self.failures[host.name] = of_host(host.name, error)
                finally:
                    await self.part([host.name])

        await asyncio.gather(*(one_by_one() for _ in range(self.at_once)))

    async def _once_more(self, host: Host, work: Callable[[Session], Awaitable[None]]) -> None:
        """Start again with a host that gave us up while this machine stood still."""
        if host.name in self.sessions:
            await self.sessions.pop(host.name).abort()
        self.sessions[host.name] = await self.open_patiently(host)
        await work(self.sessions[host.name])

    async def part(self, names: Iterable[str]) -> None:
        """Close these sessions, and keep the notes about them."""
        sessions = {name: self.sessions[name] for name in names if name in self.sessions}
        await asyncio.gather(*(session.close() for session in sessions.values()), return_exceptions=True)
        for name, session in sessions.items():
            noise = session.decoder.text()[:200] if session.decoder.noise.strip() else ""
            self.partings[name] = Parting(session.remarks, noise, tuple(session.residue), session.ended)
            del self.sessions[name]

    def _patience(self) -> float:
        """How long a node may take to answer: as long as usual, but not forever where places are few."""
        usual = self.reach.connect_seconds + HELLO_SECONDS
        if self.is_whole or len(self._greetings) < FEW_GREETINGS:
            return usual
        if len(self._greetings) >= self._patient[0] + FEW_GREETINGS:
            ordered = sorted(self._greetings[-10 * FEW_GREETINGS :])
            self._patient = len(self._greetings), PATIENCE_FACTOR * ordered[len(ordered) * 9 // 10]
        return min(usual, max(PATIENCE_SECONDS, self._patient[1]))

    def _late(self, host: Host) -> str:
        if host.name not in self.sessions:
            return knowing("no Python answered on it within the time of the stage", loss="no python")
        return "it answered, but did not send its facts within the time of the stage"

    def _rival(self, error: HostError) -> str:
        """The run started in the same moment that goes before us, the one whose id sorts first; "" for none."""
        if not isinstance(error, Busy) or error.run >= self.run_id:
            return ""
        begun, ours = _begun(error.run), _begun(self.run_id)
        return error.run if begun and ours and ours - begun < SAME_MOMENT else ""

    async def open_patiently(self, host: Host) -> Session:
        """A session; a connection that was closed before authentication is tried again."""
        for attempt in range(EARLY_CLOSE_RETRIES + 1):
            line = await own_line(host, self.reach)
            try:
                return await self._session(host, line)
            except Unreachable:
                if not transport_of(host).is_worth_a_retry(line.stderr) or attempt == EARLY_CLOSE_RETRIES:
                    raise
            await asyncio.sleep(random.uniform(*RETRY_SECONDS) * 2**attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _join(self, host: Host, line: Line) -> bool:
        """Whether the session could be opened over this line; if not, a command of the host's own says best why."""
        try:
            self.sessions[host.name] = await self._session(host, line)
        except Busy:
            raise
        except HostError:
            return False
        return True

    async def _session(self, host: Host, line: Line) -> Session:
        session = Session(host, line, run_id=self.run_id, deadline=self.deadline, bounds=self.bounds)
        begun = time.monotonic()
        await session.open(seconds=self.reach.connect_seconds + HELLO_SECONDS, patience=self._patience)
        self._greetings.append(time.monotonic() - begun)
        return session

    def close(self) -> None:
        """Close every session, then the loop; bounded, and safe to call twice."""
        if not self._thread.is_alive():
            return

        async def all_of_them() -> None:
            await asyncio.gather(*(session.close() for session in self.sessions.values()), return_exceptions=True)
            if self.gatherings is not None:
                await self.gatherings.close()
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


def of_host(name: str, error: BaseException) -> HostError:
    """The error of one host: nothing that goes wrong while its answers are read may end the run of all."""
    if isinstance(error, HostError):
        return error
    if isinstance(error, Exception) and not isinstance(error, OSError):
        return BadReply(name, said("{name} while its answer was read: {error}", type(error).__name__, str(error)[:200]))
    return HostError(name, said("{name}: {error}", type(error).__name__, error))


def most_at_once(hosts: int, *, files: int, each: int = OF_A_COMMAND) -> int:
    """How many of so many hosts can be connected at a time.

    A connection takes `each` descriptors, and five more while it is made; ours are a hundred at most. PreflightError
    where it is not one: that is no fault of the nodes.
    """
    if files == resource.RLIM_INFINITY or (files - OWN_FILES - 5 * min(hosts, CONCURRENT_CONNECTS)) // each >= hosts:
        return hosts
    most = (files - OWN_FILES - FILES_WHILE_MADE) // OF_A_COMMAND
    if hosts > 1 and most < 2:
        raise PreflightError(
            said(
                "this machine allows a process {files} open files, too few for two nodes at a time; {hosts} "
                "are named: raise it with `ulimit -n {each}`",
                files,
                hosts,
                each * hosts + 1000,
            )
        )
    return min(hosts, max(1, most))


def _begun(run_id: str) -> datetime | None:
    """When a run began, as its id says."""
    try:
        return datetime.strptime(run_id[:15], "%Y%m%d-%H%M%S")  # noqa: DTZ007 - of two ids only the difference counts
    except ValueError:
        return None


def _files_for(hosts: int, *, each: int) -> int:
    """The open files that so many connections take."""
    return OWN_FILES + 5 * min(hosts, CONCURRENT_CONNECTS) + each * hosts


def _raise_file_limit(wanted: int) -> None:
    """Raise the soft limit (1024) as far as needed and no further: srun passes our limits on to its tasks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft not in {hard, resource.RLIM_INFINITY} and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
