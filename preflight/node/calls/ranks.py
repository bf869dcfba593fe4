"""How are the processes of a job started and watched on a node, and how do their records reach us?

``arguments``:
  ``processes``    list of {"name", "argv", "environment", "files", "shared", "serves"}; ``{python}`` and ``{script}``
                   in argv stand for this interpreter and for the program that came with the call, ``{file:NAME}`` for
                   a file of "files" ({NAME: text}; left out where there is none). ``{shared:NAME}`` is a file of
                   "shared", which has the same path on every node of a run; in its text ``{exports}`` stands for
                   the lines that set what a rank of this node is given. Without argv the ranks are started by a
                   process on another node; one that "serves" ends when no other process of the node is left
  ``environment``  list of [layer, {NAME: value}] laid over the node's own environment
  ``drop``         names and prefixes (ending in ``*``) of variables that must not be inherited
  ``seconds``      time limit of the whole job
  ``keep_bytes``   how much of each file that NCCL and torch wrote is kept, where the job failed

Events: {"record": {..., "rank": r}}, {"exit": code, "name": n, "log": tail}, {"file": kind, "rank": r, "text": t}.
A message {"go": true} is handed to every rank, those that connect later too; {"stop": true} ends the job.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import shlex
import signal
import socket
import sys
import time

from preflight.node.agent import children, lock, strict

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import IO, Any

    from preflight.node.agent.channel import Channel

LOG_BYTES = 64 << 10
RECORD_BYTES = 4 << 20
DRAIN_SECONDS = 2.0


CACHE = "TORCHINDUCTOR_CACHE_DIR"


class Job:
    """The processes of one job on this node and the sockets they report through."""

    def __init__(self, arguments: dict[str, Any], channel: Channel) -> None:
        self.arguments = arguments
        self.channel = channel
        self.deadline = min(channel.deadline, time.monotonic() + float(arguments["seconds"]))
        self.selector = selectors.DefaultSelector()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, bytes] = {}
        self.serving: set[str] = set()
        self.records: dict[socket.socket, bytes] = {}
        self.speakers: dict[socket.socket, int] = {}
        self.may_go = False
        self.has_failed = False
        self.script = self._keep(channel.blob) if channel.blob else ""
        self.address = "preflight-" + secrets.token_hex(16)
        self.listener = self._listen()

    def _keep(self, text: bytes) -> str:
        """The path of a file in memory that any process of the job may open."""
        from preflight.node.agent import bootstrap

        create = getattr(os, "memfd_create", None) or bootstrap._memfd_create  # noqa: SLF001
        descriptor = create("preflight-job", 0)
        view = memoryview(text)
        while view:
            view = view[os.write(descriptor, view) :]
        # Opened by path and not inherited, because some launchers close the descriptors of their children.
        return f"/proc/{os.getpid()}/fd/{descriptor}"

    def _share(self, name: str, text: str, meant: dict[str, str], own: dict[str, str]) -> str:
        """The path of a file that a process on another node may name: it is the same on all nodes of a run."""
        exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in self.given(own).items())
        path = os.path.join(self.channel.scratch, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "w") as stream:
            stream.write(_put_in(text, {**meant, "{exports}": exports}))
        return path

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind("\0" + self.address)
        listener.listen(512)
        listener.setblocking(False)
        self.selector.register(listener, selectors.EVENT_READ, self._accept)
        return listener

    def environment(self, own: dict[str, str]) -> dict[str, str]:
        """The environment of one process: the node's own, then the layers, then the variables of this process."""
        drop = self.arguments["drop"]
        prefixes = tuple(name[:-1] for name in drop if name.endswith("*"))
        kept = {n: v for n, v in os.environ.items() if n not in drop and not (prefixes and n.startswith(prefixes))}
        return {**kept, **self.given(own)}

    def given(self, own: dict[str, str]) -> dict[str, str]:
        """The part of it that is not the node's own."""
        kept: dict[str, str] = {}
        for _, layer in self.arguments["environment"]:
            kept.update(layer)
        kept.update(own)
        kept["PREFLIGHT_RECORDS"] = self.address
        kept["PYTHONDONTWRITEBYTECODE"] = "1"
        kept["PYTHONUNBUFFERED"] = "1"
        if self.arguments.get("scratch"):
            kept["TMPDIR"] = self.channel.scratch
            # Into a full /dev/shm Python puts no temporary file; torch's folder would then stay in /tmp.
            if CACHE not in kept and CACHE not in os.environ:
                kept[CACHE] = f"{self.channel.scratch}/torchinductor"
        return kept

    def outlive_keeper(self) -> None:
        """Survive a killed keeper until the job has ended: nobody else could end what its ranks started."""

        def leave(_number: int, _frame: Any) -> None:
            self.end_all()
            os._exit(0)

        signal.signal(signal.SIGTERM, leave)
        children.die_with_parent(signal.SIGTERM)

    def start(self) -> None:
        """Start every process of the job."""
        for process in self.arguments["processes"]:
            meant = {"{python}": sys.executable, "{script}": self.script, "{scratch}": self.channel.scratch}
            for name, text in process.get("files", {}).items():
                meant["{file:" + name + "}"] = self._keep(text.encode())
            for name, text in process.get("shared", {}).items():
                meant["{shared:" + name + "}"] = self._share(name, text, meant, process["environment"])
            argv = [_put_in(word, meant) for word in process["argv"]]
            if not argv:
                continue
            own = {key: _put_in(value, meant) for key, value in process["environment"].items()}
            child = children.start(
                argv,
                seconds=self.deadline - time.monotonic(),
                env=self.environment(own),
                stdout=-1,
                stderr=-2,
                start_new_session=True,
                cwd="/",
            )
            name = process["name"]
            self.running[name] = child
            if process.get("serves"):
                self.serving.add(name)
            self.logs[name] = b""
            assert child.stdout is not None
            os.set_blocking(child.stdout.fileno(), False)
            self.selector.register(child.stdout, selectors.EVENT_READ, self._reader(name, child.stdout))

    def _reader(self, name: str, stream: IO[bytes]) -> Callable[[], None]:
        def read() -> None:
            data = stream.read(1 << 16)
            if data:
                self.logs[name] = (self.logs[name] + data)[-LOG_BYTES:]
            elif data == b"":
                self.selector.unregister(stream)

        return read

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        if lock.peer_uid(connection) != os.geteuid():  # any user may connect to an abstract socket
            connection.close()
            return
        connection.setblocking(False)
        self.records[connection] = b""
        self.speakers[connection] = -1
        self.selector.register(connection, selectors.EVENT_READ, lambda: self._hear(connection))

    def _hear(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(connection)
            connection.close()
            del self.records[connection], self.speakers[connection]
            return
        *lines, rest = (self.records[connection] + data).split(b"\n")
        if len(rest) > RECORD_BYTES:
            raise ValueError(f"a rank sent a record of more than {RECORD_BYTES} bytes")
        self.records[connection] = rest
        for line in lines:
            self._relay(connection, strict.strict_json(line))

    def _relay(self, connection: socket.socket, record: dict[str, Any]) -> None:
        """Pass records on under the name that the first line of their connection gives."""
        if self.speakers[connection] < 0:
            self.speakers[connection] = int(record["rank"])
            if self.may_go:
                self._let_go(connection)
        else:
            self.channel.emit({"record": {**record, "rank": self.speakers[connection]}})

    def _let_go(self, connection: socket.socket) -> None:
        """Tell a rank that all are ready, unless it has ended meanwhile."""
        with contextlib.suppress(OSError):
            connection.send(b"go\n")

    def watch(self) -> None:
        """Relay records until every process has ended, the time is up, or the controller says stop."""
        self.selector.register(self.channel.down, selectors.EVENT_READ)
        waits = all(process.get("serves") or not process["argv"] for process in self.arguments["processes"])
        while waits or self.running.keys() - self.serving:
            left = self.deadline - time.monotonic()
            if left <= 0:
                self._stop("time limit")
                return
            for key, _ in self.selector.select(min(left, 0.1)):
                if key.fileobj != self.channel.down:
                    key.data()
                    continue
                message = self.channel.receive(1.0)
                if "stop" in message:
                    self._stop("stopped")
                    return
                if "go" in message:
                    self.may_go = True
                    for connection in self.speakers:
                        self._let_go(connection)
            self._collect_ended()
        self._stop("stopped")  # servers of the job, and daemons that its processes left behind

    def _collect_ended(self) -> None:
        for name, child in list(self.running.items()):
            if child.poll() is not None:
                self._drain()
                self._report_end(name, str(child.returncode))

    def _drain(self) -> None:
        """Read what an ended process left in its pipes and sockets."""
        end = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < end:
            ready = [key for key, _ in self.selector.select(0) if key.fileobj != self.channel.down]
            if not ready:
                return
            for key in ready:
                key.data()

    def _report_end(self, name: str, how: str) -> None:
        del self.running[name]
        self.has_failed = self.has_failed or (how != "0" and name not in self.serving)
        log = self.logs[name].decode("utf-8", "replace")
        self.channel.emit({"exit": how, "name": name, "log": log})

    def _stop(self, how: str) -> None:
        self.end_all()
        self._drain()
        for name in list(self.running):
            self._report_end(name, how)

    def end_all(self) -> None:
        """End everything that this job started; orphans of it have become our own children."""
        children.kill_all(self._ours(), signal.SIGTERM)
        end = time.monotonic() + 1.0
        while time.monotonic() < end and self._ours():
            time.sleep(0.02)
        children.kill_all(self._ours(), signal.SIGKILL)

    def _ours(self) -> list[int]:
        """Our descendants, and the ranks that a process on another node has started here."""
        found = children.descendants(os.getpid())
        if any(process.get("shared") for process in self.arguments["processes"]):
            found += children.holding(f"PREFLIGHT_RECORDS={self.address}", but={*found, os.getpid()})
        return found


def _put_in(word: str, meant: dict[str, str]) -> str:
    for placeholder, value in meant.items():
        word = word.replace(placeholder, value)
    return word


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Run the job of this node; the result is how many processes were started."""
    children.adopt_orphans()
    job = Job(arguments, channel)
    job.outlive_keeper()
    try:
        job.start()
        job.watch()
    except BaseException:  # a killed keeper's pipe may be the first sign of it
        job.end_all()
        raise
    from preflight.node.sources import rank_files

    files = rank_files.kept(channel.scratch, int(arguments.get("keep_bytes", 0)))
    if job.has_failed:
        channel.emit(*files)
    return {"started": len(arguments["processes"])}
