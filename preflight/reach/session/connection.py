"""How do we talk with a node: open one connection, call, stream, close?

All sessions live on one asyncio loop in one thread for the whole run, so leases are renewed while a check computes
or a person sits in a debugger. Everything here is a coroutine on that loop; `Fleet.run` is the door from other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from preflight.node.agent import frames
from preflight.reach.host import Host
from preflight.reach.session import payload, replies
from preflight.reach.session.budget import Budget, Pool
from preflight.reach.session.inbox import Inbox
from preflight.reach.session.line import LAST_WORDS_SECONDS, Line, Own
from preflight.reach.session.pulse import Pulse
from preflight.reach.transport import Reach, command, transport_of
from preflight.reach.transport.reach import last_line
from preflight.said import knowing, plain_values, said
from preflight.said.errors import BadReply, Busy, HostError, TimedOut, Unreachable

LEASE_SECONDS = 10.0
BEAT_SECONDS = 2.0
BEAT = -1  # the number of the pings that only ask whether a node is still there
LOOK_AGAIN_SECONDS = 1.0  # how long a node that says nothing may take is asked so often
QUIET_BEATS = 2  # of silence, before a node with a call under way is asked for a sign of life;
SILENT_BEATS = 7  # before it is taken for lost: without our beats it would have ended itself by then
HELLO_SECONDS = 20.0
NOISE_LIMIT_BYTES = 1 << 20
CLOSE_SECONDS = 6.0
CLOSE_LATE_SECONDS = 3.0  # past the deadline: by then the agent ends by itself
PINGS = 4  # at most, until one came back so soon, or a later one within so many times more each:
SURE_SECONDS = 0.02
LESS_SURE = 4  # where all nodes log in at once, each ping costs what they wait for, and none comes back sooner
CLOCK_SECONDS = 5.0
ENDED_EARLY = "the call's process ended without a result"  # words by the agent; who ended it may end the agent next
ENDING_SECONDS = 5.0
NO_OUTPUT = "no output"
# Our code's first line, its length, reached a shell as a command; or the line was gone, and the next came in its place.
READ_BY_OTHERS = re.compile(
    r"not found: \d+$|\b\d+: (?:command )?not found|Unknown command: \d+|literal for int\(\)", re.MULTILINE
)
INPUT_TAKEN = (
    "what the login starts (`read`, ssh, `exec` of another shell in ~/.bashrc or the like) reads what is meant for "
    "Python: it may do so only at a terminal (`[ -t 0 ]`)"
)
# A startup file hands the login to a program that this node lacks: the message names that file, not our command.
STARTS_WHAT_IS_ABSENT = re.compile(
    r"(\S*/\.\w+|/etc/\S+): (?:line )?\d+: (?:exec: )?(\S+): "
    r"(?:cannot execute: )?(?:not found|No such file or directory)$"
)


@dataclass
class Bounds:
    """What all sessions of a run share: when the present stage ends, how much they may say together, a name."""

    until: float = float("inf")  # time.monotonic()
    pool: Pool = field(default_factory=Pool)
    pulse: Pulse = field(default_factory=lambda: Pulse(LEASE_SECONDS - BEAT_SECONDS))
    beat_seconds: float = BEAT_SECONDS
    # Of the folder for temporary files: beyond guessing, and short, since sockets of launchers have long names in it
    # and may have 107 characters.
    scratch: str = field(default_factory=lambda: secrets.token_hex(8))


class Call:
    """A call under way on one node; ask it for its events and its result."""

    def __init__(self, session: Session, number: int, deadline: float) -> None:
        self.session = session
        self.number = number
        self.deadline = deadline
        self.inbox: Inbox[dict[str, Any] | HostError] = Inbox()

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """The events until the result; raises HostError when there will be none."""
        while True:
            message = await self._next()
            if "result" in message:
                self.result: dict[str, Any] = message["result"]
                return
            yield message["event"]

    async def first(self, key: str, kind: Any) -> Any:
        """The value of the first event that has `key`, which must be of this kind; raises HostError elsewhere."""
        async for event in self.events():
            if key in event:
                return replies.read(self.session.host.name, kind, event[key], key)
        raise BadReply(self.session.host.name, said("the call ended without {key!r}", key))

    async def end(self, kind: Any) -> Any:
        """The result of the call, which must be of this kind; events before it are passed over."""
        async for _ in self.events():
            continue
        return replies.read(self.session.host.name, kind, self.result, "result")

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message into the running call."""
        await self.session.write({"to": self.number, "send": message})

    async def cancel(self) -> None:
        """End the call on the node."""
        self.session.calls.pop(self.number, None)
        if not self.session.failure:
            await self.session.write({"cancel": self.number})

    async def _next(self) -> dict[str, Any]:
        left = min(self.deadline, self.session.bounds.until) - time.monotonic()
        try:
            message = await self.inbox.take(left)
        except asyncio.TimeoutError:
            await self.cancel()
            raise TimedOut(self.session.host.name, "no answer within the time limit of the call") from None
        if isinstance(message, HostError):
            raise message
        if message.get("error") == ENDED_EARLY:
            await self.session.may_fail(ENDING_SECONDS)
            if self.session.failure:
                raise self.session.failure
        if "error" in message:
            raise HostError(self.session.host.name, str(message["error"]))
        return message


async def own_line(host: Host, reach: Reach) -> Own:
    """The line of the host's own command. Raises Unreachable where that cannot be started here, or cannot succeed."""
    if host.trouble:
        raise Unreachable(host.name, host.trouble)
    argv = command(host, reach)
    try:
        return await Own.start(argv)
    except OSError as error:
        words = said("cannot start {argv}: {strerror}", argv[0], error.strerror)
        raise Unreachable(host.name, knowing(words, loss="no such python" if argv[0].startswith("/") else "")) from None


class Session:
    """One live connection to one node, over a line at whose other end the loader waits."""

    def __init__(self, host: Host, line: Line, *, run_id: str, deadline: float, bounds: Bounds | None = None) -> None:
        self.host = host
        self.line = line
        self.run_id = run_id
        self.deadline = deadline
        self.bounds = bounds or Bounds()
        self.marker = secrets.token_hex(16).encode()
        self.budget = Budget(self.bounds.pool)
        self.decoder = frames.Decoder(self.marker, self.budget.read)
        self.calls: dict[int, Call] = {}
        self.failure: HostError | None = None
        self._failing = asyncio.Event()
        self.hello: replies.Greeting | None = None
        self.remarks: tuple[str, ...] = ()  # what the node reported when its lock was taken
        self.residue: list[str] = []
        self.ended = False
        self._has_rest = False
        self._quiet_beats = 0  # since its last message, while it had something to say
        self.clock: tuple[float, float] = (0.0, float("inf"))
        self._numbers = iter(range(1, sys.maxsize))
        self._control: Inbox[dict[str, Any]] = Inbox()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, *, seconds: float, patience: Callable[[], float] = lambda: float("inf")) -> None:
        """Load the node agent, take the node's lock, measure its clock. Raises HostError.

        `patience` is asked again and again while the node is silent: what others tell meanwhile may shorten `seconds`.
        """
        self._tasks = [asyncio.create_task(self._read())]
        try:
            await self._greet(seconds, patience)
        except BaseException:  # cancelled too: whoever ran out of patience leaves no connection behind
            await self.abort()
            raise
        self._tasks.append(asyncio.create_task(self._beat()))

    async def _greet(self, seconds: float, patience: Callable[[], float]) -> None:
        begun = time.monotonic()
        most = min(seconds, max(1.0, self.deadline - begun))

        def end() -> float:
            return begun + min(most, patience())

        first = payload.first_message(self.marker)
        started: replies.Start = await self._answer(first, "start", replies.Start, end)
        if started.wants:
            started = await self._answer(payload.as_text(), "start", replies.Start, end)
        if started.hello is None:
            raise BadReply(self.host.name, "it asked for our code twice")
        self.hello = started.hello
        modules = payload.missing_modules(self.hello)
        opening = {
            "run": self.run_id,
            "scratch": self.bounds.scratch,
            "lease_seconds": LEASE_SECONDS,
            "deadline_seconds": max(1.0, self.deadline - time.monotonic()),
            "modules": list(modules.contents),
        }
        orders = frames.order(self.marker, {"open": opening}, modules.blob), frames.order(self.marker, {"ping": 0})
        asked = time.monotonic(), time.time()
        both = b"".join(orders)  # one message wakes four processes on its way
        opened: replies.Opened = await self._answer(both, "opened", replies.Opened, end)
        if opened.busy:
            raise Busy(self.host.name, opened.busy)
        self.remarks = (
            *(said("removed what a killed run had left: {path}", path) for path in opened.removed),
            *(said("{other} is running preflight here too: figures may be lower", other) for other in opened.others),
        )
        await self._take_pong(*asked, end)
        await self._measure_clock(end, done=1)

    async def _measure_clock(self, end: Callable[[], float], *, done: int = 0) -> None:
        for number in range(done, PINGS):
            if number and self.clock[1] < SURE_SECONDS * LESS_SURE ** (number - 1):
                return
            asked = time.monotonic(), time.time()
            await self.write({"ping": number})
            await self._take_pong(*asked, end)

    async def _take_pong(self, sent: float, wall: float, end: Callable[[], float]) -> None:
        reply = await self._expect("pong", replies.Pong, end)
        half = (time.monotonic() - sent) / 2
        if half < self.clock[1]:
            self.clock = (reply.time - (wall + half), half)

    async def look_at_clock(self) -> tuple[float, float]:
        """Measure the node's clock against ours again: its offset and the uncertainty, in seconds."""
        self.clock = (0.0, float("inf"))
        until = time.monotonic() + CLOCK_SECONDS
        await self._measure_clock(lambda: until)
        return self.clock

    async def _answer(self, data: bytes, key: str, kind: Any, end: Callable[[], float]) -> Any:
        """Send what may be more than pipes hold, and take its answer: a node that reads nothing is given up as well."""
        sending = asyncio.create_task(self._write_raw(data))
        try:
            return await self._expect(key, kind, end)
        finally:
            sending.cancel()

    async def _expect(self, key: str, kind: Any, end: Callable[[], float]) -> Any:
        message = None
        while message is None:
            left = min(end(), self.bounds.until) - time.monotonic()
            try:
                message = await self._control.take(min(left, LOOK_AGAIN_SECONDS))
            except asyncio.TimeoutError:
                if left > LOOK_AGAIN_SECONDS:
                    continue
                noise = self.decoder.text()[:200]
                printed = said("; its output was {noise!r}", noise) if noise else ""
                reason = said(
                    "no Python answered in time, and whether the login succeeded is unknown{printed}", printed
                )
                raise TimedOut(self.host.name, knowing(reason, loss="no python")) from None
        if "failure" in message and self.failure:
            raise self.failure
        return replies.read(self.host.name, kind, message, key)

    async def start(self, name: str, arguments: dict[str, Any], *, seconds: float, blob: bytes = b"") -> Call:
        """Start a call; it is ended on the node after `seconds`."""
        if self.failure:
            raise self.failure
        call = Call(self, next(self._numbers), time.monotonic() + seconds + 2.0)
        self.calls[call.number] = call
        if payload.needs_rest(name) and not self._has_rest:
            self._has_rest = True
            await self.write({"rest": True}, payload.rest(self.hello.magic if self.hello else ""))
        message = {"call": call.number, "name": name, "arguments": arguments, "seconds": seconds}
        await self.write(message, blob)
        return call

    async def may_fail(self, seconds: float) -> None:
        """Wait a little for the end of the session, where something else may be the first sign of it."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._failing.wait(), seconds)

    async def write(self, message: dict[str, Any], blob: bytes = b"") -> None:
        """Send one frame."""
        try:
            data = frames.order(self.marker, message, blob)
        except ValueError:  # marshal takes plain texts alone
            data = frames.order(self.marker, plain_values(message), blob)
        await self._write_raw(data)

    async def _write_raw(self, data: bytes) -> None:
        try:
            await self.line.write(data)
        except (OSError, RuntimeError):
            # The reader meets the end of the stream and says why.
            return

    async def _read(self) -> None:
        broken = ""
        try:
            while data := await self.line.read():
                self.budget.arrived(len(data))
                for message, _ in self.decoder.feed(data):
                    self._deliver(message)
                if self.decoder.noise_bytes > NOISE_LIMIT_BYTES:
                    raise frames.FrameError("more than 1 MiB of text that is not ours")
        except HostError as error:
            self._give_up(error)
            return
        except (frames.FrameError, MemoryError) as error:
            self._give_up(BadReply(self.host.name, said("{name}: {error}", type(error).__name__, error)))
            return
        except OSError as error:  # from a socket: a pipe just ends
            broken = self.line.broken_by(error)
            self.line.cut()
        await self._explain_end(broken)

    def _give_up(self, error: HostError) -> None:
        """Fail the session and stop reading: the node's messages can no longer be trusted."""
        self._fail(error)
        self.line.cut()

    async def _explain_end(self, broken: str) -> None:
        self.line.met_end()
        code = await self.line.ended()
        await self.line.last_words(lambda stderr: transport_of(self.host).explain(self.host.written, code, stderr))
        if self.line.flood:
            self._fail(BadReply(self.host.name, self.line.flood))
            return
        stderr = self.line.stderr
        unreached = transport_of(self.host).explain(self.host.written, code, stderr)
        if self.hello:
            last = unreached or broken or last_line(stderr, "")
            words = said("the connection ended in mid-run{last}", said(" ({last})", last) if last else "")
            self._fail(HostError(self.host.name, knowing(words, loss="mid-run")))
        elif unreached:
            self._fail(Unreachable(self.host.name, unreached))
        elif code == 97:
            found = self.decoder.text().split(" ")[0]
            words = said("Python {found} is too old; wanted 3.9 or newer: give --python PATH", found)
            self._fail(HostError(self.host.name, knowing(words, loss="no such python")))
        elif READ_BY_OTHERS.search(stderr):
            words = said("no Python answered: {INPUT_TAKEN}", INPUT_TAKEN)
            self._fail(HostError(self.host.name, knowing(words, loss="input taken")))
        elif absent := STARTS_WHAT_IS_ABSENT.match(last_line(stderr, "")):
            file, program = absent.groups()
            words = said(
                "no Python answered: {file} there starts {program}, which is not installed there", file, program
            )
            self._fail(HostError(self.host.name, knowing(words, loss="no python")))
        elif code in {126, 127} or "not found" in stderr:
            words = said("no Python could be started ({reason}): give --python PATH", self._last_words(stderr))
            self._fail(HostError(self.host.name, knowing(words, loss="no such python")))
        else:
            words = said(
                "the command ended with code {code} and no Python answered: {last_words}",
                code,
                self._last_words(stderr),
            )
            self._fail(HostError(self.host.name, knowing(words, loss="no python")))

    def _last_words(self, stderr: str) -> str:
        """The last words of a login: nologin and expired passwords print them on standard output."""
        return last_line(stderr, last_line(self.decoder.text(), NO_OUTPUT))

    def _deliver(self, message: dict[str, Any]) -> None:
        """Hand a message to whoever waits for it. Raises BadReply where it has none of the shapes of a message."""
        self._quiet_beats = 0
        if "end" in message:
            end = replies.read(self.host.name, replies.End, message["end"], "end")
            self.ended = True
            self.residue = list(end.residue)
            if end.reason.startswith("signal"):  # the agent does not know why; its transport may (Slurm does)
                self._tasks.append(asyncio.create_task(self._tell_end(end.reason)))
            else:
                self._fail(HostError(self.host.name, said("the node agent ended: {reason}", end.reason)))
        elif "call" not in message:
            if message.get("pong") != BEAT:
                self._control.put(message)
        else:
            reply = replies.read(self.host.name, replies.Reply, message, "call")
            call = self.calls.get(reply.call)
            if call is not None:
                if reply.event is None:
                    del self.calls[call.number]
                call.inbox.put(message)

    async def _tell_end(self, reason: str) -> None:
        """Fail the session with the transport's explanation of why the node agent got a signal."""
        code = 0
        with contextlib.suppress(asyncio.TimeoutError):
            code = await asyncio.wait_for(self.line.ended(), LAST_WORDS_SECONDS)
        await self.line.last_words(lambda stderr: transport_of(self.host).explain(self.host.name, code, stderr))
        explained = transport_of(self.host).explain(self.host.name, code, self.line.stderr)
        self._fail(HostError(self.host.name, explained or said("the node agent ended: {reason}", reason)))

    def _fail(self, error: HostError) -> None:
        if self.failure is None:
            self.failure = self.bounds.pulse.blamed_on_us(error) if self.hello else error
            self._failing.set()
        for call in self.calls.values():
            call.inbox.put(self.failure)
        self._control.put({"failure": True})

    async def _beat(self) -> None:
        while self.failure is None:
            await asyncio.sleep(self.bounds.beat_seconds)
            # Counted, not measured: were we stopped ourselves, no node was silent meanwhile.
            is_awaited = bool(self.calls) or self._quiet_beats >= QUIET_BEATS
            self._quiet_beats = self._quiet_beats + 1 if is_awaited else 0
            if self._quiet_beats > SILENT_BEATS:
                silent_seconds = self.bounds.beat_seconds * SILENT_BEATS
                words = said("it has said nothing for {silent_seconds:.0f} s, though asked", silent_seconds)
                self._give_up(TimedOut(self.host.name, knowing(words, loss="mid-run")))
                return
            word = {"ping": BEAT} if self._quiet_beats >= QUIET_BEATS else {"beat": True}
            with contextlib.suppress(asyncio.TimeoutError):  # the other end does not read
                await asyncio.wait_for(self.write(word), self.bounds.beat_seconds)

    async def close(self) -> None:
        """End the node agent and wait, within bounds, for its report that nothing is left."""
        if self.failure is None:
            await self.write({"close": True})
        try:
            left = max(CLOSE_LATE_SECONDS, self.deadline - time.monotonic())
            await asyncio.wait_for(self.line.ended(), min(CLOSE_SECONDS, left))
        except asyncio.TimeoutError:
            self.line.cut()
        await self.abort()

    async def abort(self) -> None:
        """Drop the connection; the node agent notices and cleans up."""
        self.line.cut()
        await self.line.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
