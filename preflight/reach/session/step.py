"""How does one command open the sessions of many nodes? It starts a task on each, and the tasks connect to us.

What a task runs is a program of a few lines in its environment, which no other user sees; it holds the key by which a
task and we prove ourselves to each other. Until all tasks have connected, a task does nothing:
where some do not come, or the command gives up, it is tried once more for those that came, and the others get
commands of their own, which say why.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import signal
import socket
import zlib
from collections import Counter
from collections.abc import Callable, Sequence

from preflight.reach.host import Host
from preflight.reach.session.budget import STDERR_BYTES
from preflight.reach.session.line import send_signal
from preflight.reach.session.task import TaskLine, endure
from preflight.reach.transport import TASK_PROGRAM, Gathering, Reach, gathering_of
from preflight.reach.transport.reach import UNREAD_SECONDS

FIRST_SECONDS = 12.0  # until half of the tasks must have connected;
LATE_SECONDS = 3.0  # the others get twice the time that half took, plus these seconds
GREETING_SECONDS = 5.0
END_SECONDS = 1.5
HURRY_SECONDS = 0.2
STDERR_KEPT_BYTES = 256 << 10  # of all tasks together
PAUSE_SECONDS = 0.1  # after each piece of what is said beyond STDERR_BYTES
STRANGERS = 64  # connections without a proof that may be open, beside the tasks
KEY_BYTES = NONCE_BYTES = 16
MAC_BYTES = 32
TRIES = 2

# Run by the task's loader, whose `os`, `sys` and `zlib` these are: connect, prove, run what comes over the connection.
TASK = """
import hashlib, socket, _signal
where = next(filter(None, map(os.environ.get, {controller!r})))
try: wire = socket.create_connection((where, {port}), {seconds})
except OSError as error: sys.exit("no connection to the controller of preflight at %s port {port}: %s" % (where, error))
wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def receive(count):
    data = b""
    while len(data) < count:
        more = wire.recv(count - len(data))
        if not more: sys.exit("the controller of preflight refused this task")
        data += more
    return data
def proof(*words): return hashlib.blake2b(b"".join(words), key={key!r}, digest_size={mac}).digest()
me = (os.environ[{number!r}] + " " + os.environ[{address!r}]).encode()
theirs, mine = receive({nonce}), os.urandom({nonce})
wire.sendall(mine + proof(b"task", theirs, mine, me) + bytes([len(me)]) + me)
if receive({mac}) != proof(b"controller", mine, theirs): sys.exit("not the controller of preflight")
wire.settimeout(None)
_signal.alarm({unread})
os.dup2(wire.fileno(), 0)
os.dup2(wire.fileno(), 1)
wire.close()
i = open(0, "rb", closefd=False)
size = i.readline()
if not size: sys.exit("the controller of preflight ended this task before it began")
exec(zlib.decompress(i.read(int(size))))
"""


class Step:
    """One run of the command: the tasks that connected, and what it printed."""

    def __init__(self, hosts: Sequence[Host], gathering: Gathering) -> None:
        self.hosts = {host.address: host for host in hosts}
        self.gathering = gathering
        self.key = secrets.token_bytes(KEY_BYTES)
        self.lines: dict[str, TaskLine] = {}  # by the host's name
        self.stderr = b""
        self._claimed_twice: set[str] = set()
        self._strangers: dict[asyncio.StreamWriter, str] = {}  # connections without proof so far, with their addresses
        self._server: asyncio.Server | None = None
        self._news = asyncio.Condition()
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> bool:
        """Start the command, and wait for its tasks -> whether every host's has connected."""
        with contextlib.suppress(OSError):
            listener = await _listen(self.gathering)
            self._server = await asyncio.start_server(self._greet, sock=listener)
            await self._launch(listener.getsockname()[1])
            await self._gather()
        return self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether the command runs and every host's task has connected."""
        runs = self._process is not None and self._process.returncode is None
        return runs and len(self.lines) == len(self.hosts)

    async def has_printed(self, enough: Callable[[], bool]) -> None:
        """Wait until the command has printed enough, or has ended."""
        async with self._news:
            await self._news.wait_for(lambda: enough() or self._has_ended)

    async def end(self, *, patience_seconds: float = END_SECONDS) -> None:
        """Cut the connections, and let the command end with its tasks; kill it where it does not."""
        if self._server is not None:
            self._server.close()
        for writer in self._strangers:
            writer.transport.abort()
        for line in self.lines.values():
            line.cut()
        if self._process is not None:
            for number in (0, signal.SIGTERM, signal.SIGKILL):
                send_signal(self._process, number)
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._process.wait(), patience_seconds)
                    break
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _launch(self, port: int) -> None:
        program = TASK.format(
            controller=self.gathering.controller,
            port=port,
            seconds=GREETING_SECONDS,
            key=self.key,
            mac=MAC_BYTES,
            nonce=NONCE_BYTES,
            number=self.gathering.number,
            address=self.gathering.address,
            unread=UNREAD_SECONDS,
        )
        self._process = await asyncio.create_subprocess_exec(
            *self.gathering.argv,
            env={**os.environ, TASK_PROGRAM: zlib.compress(program.encode()).hex()},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._tasks = [asyncio.create_task(self._read_errors())]

    async def _gather(self) -> None:
        """Wait for the tasks: half of them within FIRST_SECONDS, the others a little longer than these took."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for wanted in (-(-len(self.hosts) // 2), len(self.hosts)):
            until = FIRST_SECONDS if wanted < len(self.hosts) else 2 * (loop.time() - begun) + LATE_SECONDS
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._come(wanted), max(0.0, begun + until - loop.time()))

    async def _come(self, wanted: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: len(self.lines) + len(self._claimed_twice) >= wanted or self._has_ended)

    @property
    def _has_ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let a task prove that it is one of ours; whoever cannot is cut.

        All tasks hold one key, so one of them could come in the name of another: we listen until the end, for the
        other comes too.
        """
        self._take_in(writer)
        try:
            line = await asyncio.wait_for(self._prove(reader, writer), GREETING_SECONDS)
        except (OSError, ValueError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError):
            writer.transport.abort()
            return
        finally:
            self._strangers.pop(writer, None)
        async with self._news:
            name = self.hosts[line[0]].name
            if name in self.lines or name in self._claimed_twice:
                # One of the two is false, and we cannot know which: neither is trusted.
                self._claimed_twice.add(name)
                for each in (line[1], self.lines.pop(name, line[1])):
                    each.flood = "two tasks came in its name, and nobody knows which of them is its own"
                    each.cut()
            else:
                self.lines[name] = line[1]
            self._news.notify_all()

    def _take_in(self, writer: asyncio.StreamWriter) -> None:
        """Note an unproven connection; of too many, the oldest from the address with most of them is dropped."""
        peer = writer.get_extra_info("peername") or ("",)
        self._strangers[writer] = peer[0]
        if len(self._strangers) > len(self.hosts) + STRANGERS:
            busiest = Counter(self._strangers.values()).most_common(1)[0][0]
            first = next(each for each, place in self._strangers.items() if place == busiest)
            del self._strangers[first]
            first.transport.abort()

    async def _prove(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, TaskLine]:
        ours = secrets.token_bytes(NONCE_BYTES)
        writer.write(ours)
        theirs, proof = await reader.readexactly(NONCE_BYTES), await reader.readexactly(MAC_BYTES)
        place = await reader.readexactly((await reader.readexactly(1))[0])
        if not secrets.compare_digest(proof, self._proof(b"task", ours, theirs, place)):
            raise ValueError("not one of our tasks")
        number, _, address = place.decode("ascii").partition(" ")
        if address not in self.hosts:
            raise ValueError("a task of no host of ours")
        line = TaskLine(self, int(number), reader, writer)
        endure(writer.get_extra_info("socket"))
        writer.write(self._proof(b"controller", theirs, ours))
        return address, line

    def _proof(self, *words: bytes) -> bytes:
        return hashlib.blake2b(b"".join(words), key=self.key, digest_size=MAC_BYTES).digest()

    async def _read_errors(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        count = 0
        while data := await self._process.stderr.read(1 << 16):
            async with self._news:
                self.stderr = (self.stderr + data)[-STDERR_KEPT_BYTES:]
                self._news.notify_all()
            count += len(data)
            if count > STDERR_BYTES:  # a task floods us: its output can wait, the other nodes cannot
                await asyncio.sleep(PAUSE_SECONDS)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_SECONDS)
        async with self._news:
            self._news.notify_all()


class Gatherings:
    """The lines of a fleet's hosts that come by one command; those of all others are None."""

    def __init__(self, hosts: Sequence[Host], reach: Reach) -> None:
        self.reach = reach
        self._steps: list[Step] = []
        self._lines = {host.name: asyncio.get_running_loop().create_future() for host in hosts}
        self._resolve({host.name: None for host in hosts if host.trouble})
        self._work = asyncio.create_task(self._gather([host for host in hosts if not host.trouble]))

    async def line(self, host: Host) -> TaskLine | None:
        """The line of a host, once the step is known to work; None where the host has no task in it."""
        found: TaskLine | None = await asyncio.shield(self._lines[host.name])
        return found

    async def close(self) -> None:
        """End what still runs; sessions have said their last words."""
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)
        await asyncio.gather(*(step.end() for step in self._steps), return_exceptions=True)

    async def _gather(self, hosts: list[Host]) -> None:
        try:
            for _ in range(TRIES):
                gathering = gathering_of(hosts, self.reach) if hosts else None
                if gathering is None:
                    return
                step = Step(hosts, gathering)
                self._steps.append(step)
                if await step.start():
                    self._resolve(dict(step.lines))
                    return
                hosts = [host for host in hosts if host.name in step.lines]
                self._resolve(dict.fromkeys(self._lines.keys() - {host.name for host in hosts}))
                await step.end(patience_seconds=HURRY_SECONDS)  # it may wait for the node that does not answer
        finally:
            self._resolve(dict.fromkeys(self._lines))

    def _resolve(self, lines: dict[str, TaskLine] | dict[str, None]) -> None:
        for name, line in lines.items():
            if not self._lines[name].done():
                self._lines[name].set_result(line)


async def _listen(gathering: Gathering) -> socket.socket:
    """A listening socket at a port where tasks may connect. Raises OSError where none is free."""
    printed = await _printed(gathering.ask_ports) if gathering.ask_ports else b""
    if gathering.listen_at:
        with contextlib.suppress(OSError):  # our own resolver gives another address for our name
            kind = socket.AF_INET6 if ":" in gathering.listen_at else socket.AF_INET
            return socket.create_server((gathering.listen_at, 0), family=kind, backlog=4096)
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    for port in gathering.ports(printed.decode("utf-8", "replace")):
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), family=family, backlog=4096, dualstack_ipv6=both)
    raise OSError("no port is free where tasks may connect")


async def _printed(argv: Sequence[str]) -> bytes:
    """What a command prints. Raises OSError where it does not come back."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        return (await asyncio.wait_for(process.communicate(), GREETING_SECONDS))[0]
    except asyncio.TimeoutError:
        send_signal(process, signal.SIGKILL)
        raise OSError("no answer to where tasks may connect") from None
