"""What lives on a node for one run, serves its calls, and leaves nothing behind when it ends?

The keeper has one thread. Each call runs in a process of its own, so a crash, a hang or a process stuck in the kernel
costs that call and nothing else; only the facts of a node where nothing can block are collected by the keeper itself,
in steps (calls/own.py). The keeper ends, and kills all it started, when its input ends, when the lease is not
renewed, at the absolute deadline, or on request.
"""

from __future__ import annotations

import gc
import marshal
import os
import select
import sys
import time
import zlib

from preflight.node.agent import children, frames, netlink, worker
from preflight.node.agent.channel import Channel
from preflight.node.agent.lock import NodeLock, other_users
from preflight.node.agent.scratch import Scratch, sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any, Protocol

    class Finder(Protocol):
        """What finds modules in memory, as the bootstrap's does."""

        sources: dict[str, str | bytes]
        extensions: dict[str, bytes]
        packages: set[str]
        memfds: dict[str, int]

        def add(self, sources: dict[str, str | bytes]) -> None:
            """Find these modules too."""

    Message = dict[str, Any]
else:
    import _signal as signal  # the module signal makes enums of all numbers: 2 ms more

TERM_SECONDS = 1.0
KILL_SECONDS = 3.0
# A message wakes four processes on its way. So the subjects of the facts are collected here into one, but for no
# longer than this: where the next subject hangs, those before it must arrive.
PATIENT = b'{"subject":'
PATIENCE_SECONDS = 1.0
OWN = "preflight.node.calls.own"


class Call:
    """A running call: its process and the two pipes."""

    def __init__(self, number: int, pid: int, up: int, down: int, marker: bytes) -> None:
        self.number = number
        self.pid = pid
        self.up = up
        self.down = down
        self.decoder = frames.Decoder(marker, frames.unmarshalled)
        self.ended = False
        # Marker, header and {"call":N,"event": -- enough to tell an event from the end; next, a subject.
        self.prefix_bytes = len(marker) + frames.HEADER_BYTES + len(f'{{"call":{number},"event":')


class Keeper:
    """The loop: controller's messages in, calls' frames out, deadlines kept."""

    def __init__(self, marker: bytes, finder: Finder) -> None:
        self.marker = marker
        self.finder = finder
        self.decoder = frames.Decoder(marker, frames.unmarshalled)
        self.calls: dict[int, Call] = {}
        self.own: Any = None  # of calls.own, where a call is under way in this process
        self.poll = select.poll()  # the module selectors would take 2 ms to load
        self.ready: dict[int, Callable[[], object]] = {}  # descriptor -> what is done when it is ready
        self.out = bytearray()
        self.flush_at = float("inf")  # time.monotonic()
        self.run_id = ""
        self.scratch = Scratch("")
        self.lease_seconds = 30.0
        self.lease_until = time.monotonic() + self.lease_seconds
        self.deadline = time.monotonic() + 60.0
        self.ending = ""

    def serve(self) -> None:
        """Serve until there is a reason to end, then end everything."""
        os.set_blocking(0, False)
        os.set_blocking(1, False)
        self._watch(0, self._read_controller)
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self._watch(wake_read, lambda: os.read(wake_read, 512))
        children.adopt_orphans()
        self.send(self._hello())
        gc.freeze()  # what exists now stays until the end: garbage collection need not visit it
        gc.enable()  # off until here: while modules load there is no garbage to find
        try:
            self._loop()
        except Exception as error:
            # An unexpected error ends the keeper like any other reason, so that nothing stays on the node.
            self.ending = f"{type(error).__name__}: {error}"
        self._end()

    def _loop(self) -> None:
        while not self.ending:
            now = time.monotonic()
            if now >= self.deadline:
                self.ending = "deadline"
            elif now >= self.lease_until:
                self.ending = "lease"
            elif (own := self.own) and not own.is_waiting:
                self._wait(0.0)
                self._go_on(own)
            else:
                self._wait(min(self.deadline, self.lease_until, self.flush_at) - now)
            if time.monotonic() >= self.flush_at:
                self._flush()
            self._reap()

    def _go_on(self, own: Any) -> None:
        """Do the next step of a call of our own. What comes meanwhile waits, so the lease lasts longer by that time."""
        if self.ending or self.own is not own:  # by a message that has just come
            return
        begun = time.monotonic()
        messages = own.step()
        for message in messages:
            self._queue(message)
        ended = time.monotonic()
        self.lease_until += ended - begun
        if "event" not in messages[-1]:
            self._end_own()
        self.flush_at = min(self.flush_at, ended + (0.0 if self.own is None or own.is_waiting else PATIENCE_SECONDS))

    def _end_own(self) -> None:
        self.own = None
        gc.freeze()
        gc.enable()

    def send(self, message: Message) -> None:
        """Give the controller a frame."""
        self._queue(message)
        self._flush()

    def _queue(self, message: Message) -> None:
        """Queue a frame, to be sent with the next: a stalled connection must not stall the lease."""
        self.out += frames.encode(self.marker, message)

    def _hello(self) -> Message:
        # importlib.util and importlib.machinery would say the same, for 2 ms more on every node.
        from _frozen_importlib_external import EXTENSION_SUFFIXES, MAGIC_NUMBER, PathFinder

        # They are the fallback where the kernel refuses netlink; elsewhere they are neither looked for nor sent.
        wanted = () if netlink.is_open() else ("psutil", "netifaces")
        if wanted:
            import site

            site.main()  # this Python was started without it, and knows no installed packages yet
        return {
            "hello": {
                "python": "{}.{}.{}".format(*sys.version_info[:3]),
                "magic": MAGIC_NUMBER.hex(),
                "suffix": EXTENSION_SUFFIXES[0],
                "machine": os.uname().machine,
                "lacks": [name for name in wanted if PathFinder.find_spec(name) is None],
                # "client port server port": the address of this node by which the controller reached it
                "reached": os.environ.get("SSH_CONNECTION", "").split(" ")[2:3],
                "pid": os.getpid(),
            }
        }

    def _wait(self, seconds: float) -> None:
        found = [(descriptor, self.ready[descriptor]) for descriptor, _ in self.poll.poll(max(0.0, seconds) * 1000)]
        for descriptor, act in found:
            # A callback before this one may have closed it.
            if self.ready.get(descriptor) is act:
                act()

    def _watch(self, descriptor: int, act: Callable[[], object], events: int = select.POLLIN) -> None:
        self.poll.register(descriptor, events)
        self.ready[descriptor] = act

    def _forget(self, descriptor: int) -> None:
        self.poll.unregister(descriptor)
        del self.ready[descriptor]

    def _on_signal(self, number: int, _frame: Any) -> None:
        if number != signal.SIGCHLD:
            self.ending = f"signal {number}"

    def _read_controller(self) -> None:
        try:
            data = os.read(0, 1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.ending = "connection"
            return
        try:
            messages = self.decoder.feed(data)
        except frames.FrameError as error:
            self.ending = f"protocol: {error}"
            return
        self.lease_until = time.monotonic() + self.lease_seconds
        for message, blob in messages:
            self._obey(message, blob)
        self._flush()  # answers to messages that came together are sent together

    def _obey(self, message: Message, blob: bytes) -> None:
        if "ping" in message:
            self._queue({"pong": message["ping"], "time": time.time()})
        elif "open" in message:
            self._open(message["open"], blob)
        elif "rest" in message:
            self.finder.add(marshal.loads(zlib.decompress(blob)))  # noqa: S302 - code of ours like the first
        elif "call" in message:
            self._start_call(message, blob)
        elif "send" in message:
            self._pass_down(message)
        elif "cancel" in message:
            self._cancel(message["cancel"])
        elif "close" in message:
            self.ending = "closed"

    def _open(self, opening: Message, blob: bytes) -> None:
        self.run_id = opening["run"]
        self.scratch = Scratch(opening["scratch"])
        self.lease_seconds = float(opening["lease_seconds"])
        self.lease_until = time.monotonic() + self.lease_seconds
        self.deadline = time.monotonic() + float(opening["deadline_seconds"])
        self._take_modules(opening["modules"], blob)
        self.lock = NodeLock(self.run_id)
        holder = self.lock.take()
        if self.lock.held:
            self._watch(self.lock.held.fileno(), self.lock.answer_holder)
        if holder:
            self._queue({"busy": holder})
            self.ending = "busy"
            return
        # After the lock is taken: what is still there belongs to no run that is alive.
        reported = {"removed": sweep()[:16], "others": other_users(os.geteuid())[:16]}
        self._queue({"opened": self.run_id, **{key: value for key, value in reported.items() if value}})

    def _take_modules(self, modules: list[Message], blob: bytes) -> None:
        for entry in modules:
            data = blob[entry["start"] : entry["end"]]
            if entry["kind"] == "extension":
                self.finder.extensions[entry["name"]] = data
            else:
                self.finder.sources[entry["name"]] = data.decode() if entry["kind"] == "source" else data
                if entry["package"]:
                    self.finder.packages.add(entry["name"])

    def _start_call(self, message: Message, blob: bytes) -> None:
        if message["name"] == "facts" and message["arguments"].get("subjects", True) and self.own is None:
            own = __import__(OWN, fromlist=("OwnCall",))
            arguments = {**message["arguments"], "scratch": self.scratch.path, "held": {}}
            if not own.may_block(arguments):
                gc.disable()  # as in a call's own process
                self.own = own.OwnCall(message["call"], arguments)
                return
        try:
            scratch = self.scratch.make() if message["arguments"].get("scratch") is True else self.scratch.path
        except OSError as error:
            self.send({"call": message["call"], "error": f"no folder for temporary files: {error}"})
            return
        up_read, up_write = os.pipe()
        down_read, down_write = os.pipe()
        seconds = min(float(message["seconds"]), self.deadline - time.monotonic())
        channel = Channel(
            call=message["call"],
            up=up_write,
            down=down_read,
            marker=self.marker,
            blob=blob,
            deadline=time.monotonic() + seconds,
            scratch=scratch,
        )
        pid = os.fork()
        if pid == 0:
            worker.work(message, channel, memory_files=set(self.finder.memfds.values()))
        os.close(up_write)
        os.close(down_read)
        call = Call(message["call"], pid, up_read, down_write, self.marker)
        self.calls[call.number] = call
        self._watch(up_read, lambda: self._read_call(call))

    def _read_call(self, call: Call) -> None:
        data = os.read(call.up, 1 << 18)
        if not data:
            self._finish_call(call, "the call's process ended without a result")
            return
        try:
            for frame in call.decoder.cut(data):
                # The frame goes on as it is: the controller decodes it, and decoding it here too would only cost time.
                call.ended = call.ended or b'"event":' not in frame[: call.prefix_bytes]
                self.out += frame
                may_wait = frame.startswith(PATIENT, call.prefix_bytes)
                self.flush_at = min(self.flush_at, time.monotonic() + (PATIENCE_SECONDS if may_wait else 0.0))
        except frames.FrameError as error:
            self._finish_call(call, str(error))

    def _finish_call(self, call: Call, reason: str) -> None:
        self._forget(call.up)
        os.close(call.up)
        os.close(call.down)
        del self.calls[call.number]
        # Listing every process of a machine is slow, and a call that gave its result has ended its own.
        self._stop([call.pid] if call.ended else [call.pid, *children.descendants(call.pid)])
        if not call.ended:
            # Where its process was killed, the daemons that its programs made have become children of ours.
            self._stop(children.descendants(os.getpid(), but={other.pid for other in self.calls.values()}))
            self.send({"call": call.number, "error": reason})

    def _pass_down(self, message: Message) -> None:
        if self.own and self.own.number == message["to"]:
            self.own.take(message["send"])
        call = self.calls.get(message["to"])
        if call is None:
            return
        try:
            os.write(call.down, frames.order(self.marker, message["send"]))
        except OSError:
            return

    def _cancel(self, number: int) -> None:
        if self.own and self.own.number == number:
            self._end_own()
            self.send({"call": number, "error": "cancelled"})
        call = self.calls.get(number)
        if call is not None:
            self._finish_call(call, "cancelled")

    def _reap(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return

    def _stop(self, pids: list[int]) -> None:
        children.kill_all(pids, signal.SIGTERM)
        end = time.monotonic() + TERM_SECONDS
        while time.monotonic() < end:
            self._reap()
            if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
                return
            time.sleep(0.02)
        children.kill_all(pids, signal.SIGKILL)
        self._reap()

    def _end(self) -> None:
        """Kill all descendants, remove the scratch folder, report what is left, exit."""
        me = os.getpid()
        self._stop(children.descendants(me))
        end = time.monotonic() + KILL_SECONDS
        left = children.descendants(me)
        while left and time.monotonic() < end:
            children.kill_all(left, signal.SIGKILL)
            self._reap()
            time.sleep(0.02)
            left = children.descendants(me)
        self.scratch.remove()
        self.send({"end": {"reason": self.ending, "residue": [f"process {pid}" for pid in left]}})
        end = time.monotonic() + 1.0
        while self.out and time.monotonic() < end:
            time.sleep(0.01)
            self._flush()
        os._exit(0)

    def _flush(self) -> None:
        self.flush_at = float("inf")
        try:
            while self.out:
                del self.out[: os.write(1, self.out[: 1 << 16])]
        except BlockingIOError:
            if 1 not in self.ready:
                self._watch(1, self._flush, select.POLLOUT)
            return
        except OSError:
            self.out.clear()
            self.ending = self.ending or "connection"
        if 1 in self.ready:
            self._forget(1)


def main(marker: bytes, finder: Finder) -> None:
    """Run the keeper of this node until it ends the process."""
    Keeper(marker, finder).serve()
