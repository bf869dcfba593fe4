"""How are the processes of a job started on a node, watched, and heard?

``arguments``:
  ``processes``    list of {"name", "argv", "environment", "files"}; ``{python}`` and ``{script}`` in argv stand for
                   this interpreter and for the program that came with the call, ``{file:NAME}`` for a file of
                   "files" ({NAME: text}; left out where there is none)
  ``environment``  list of [layer, {NAME: value}] laid over the node's own environment
  ``drop``         names and prefixes (ending in ``*``) of variables that must not be inherited
  ``seconds``      time limit of the whole job

Events: {"record": {..., "rank": r}}, {"exit": code, "name": n, "log": tail}. A message {"stop": true} ends the job.
"""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import socket
import sys
import time

from preflight.node.agent import children, frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import IO, Any

    from preflight.node.agent.channel import Channel

LOG_BYTES = 64 << 10
RECORD_BYTES = 4 << 20
DRAIN_SECONDS = 2.0


class Job:
    """The processes of one job on this node and the sockets they report through."""

    def __init__(self, arguments: dict[str, Any], channel: Channel) -> None:
        self.arguments = arguments
        self.channel = channel
        self.deadline = min(channel.deadline, time.monotonic() + float(arguments["seconds"]))
        self.selector = selectors.DefaultSelector()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, bytes] = {}
        self.records: dict[socket.socket, bytes] = {}
        self.speakers: dict[socket.socket, int] = {}
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
        # Opened anew by path, so a launcher that closes its children's descriptors is no obstacle.
        return f"/proc/{os.getpid()}/fd/{descriptor}"

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind("\0" + self.address)
        listener.listen(512)
        listener.setblocking(False)
        self.selector.register(listener, selectors.EVENT_READ, self._accept)
        return listener

    def environment(self, own: dict[str, str]) -> dict[str, str]:
        """The environment of one process: the node's own, the layers, then what is particular to the process."""
        drop = self.arguments["drop"]
        prefixes = tuple(name[:-1] for name in drop if name.endswith("*"))
        kept = {n: v for n, v in os.environ.items() if n not in drop and not (prefixes and n.startswith(prefixes))}
        for _, layer in self.arguments["environment"]:
            kept.update(layer)
        kept.update(own)
        kept["PREFLIGHT_RECORDS"] = self.address
        kept["PYTHONDONTWRITEBYTECODE"] = "1"
        kept["PYTHONUNBUFFERED"] = "1"
        if self.arguments.get("scratch"):
            os.makedirs(self.channel.scratch, mode=0o700, exist_ok=True)
            kept["TMPDIR"] = self.channel.scratch
        return kept

    def start(self) -> None:
        """Start every process of the job."""
        for process in self.arguments["processes"]:
            meant = {"{python}": sys.executable, "{script}": self.script}
            for name, text in process.get("files", {}).items():
                meant["{file:" + name + "}"] = self._keep(text.encode())
            argv = [_put_in(word, meant) for word in process["argv"]]
            child = children.start(
                argv,
                seconds=self.deadline - time.monotonic(),
                env=self.environment(process["environment"]),
                stdout=-1,
                stderr=-2,
                start_new_session=True,
                cwd="/",
            )
            name = process["name"]
            self.running[name] = child
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
            self._relay(connection, frames.strict_json(line))

    def _relay(self, connection: socket.socket, record: dict[str, Any]) -> None:
        """The first line of a connection says whose it is; every record goes on under that name."""
        if self.speakers[connection] < 0:
            self.speakers[connection] = int(record["rank"])
        else:
            self.channel.emit({"record": {**record, "rank": self.speakers[connection]}})

    def watch(self) -> None:
        """Relay records until every process has ended, the time is up, or the controller says stop."""
        self.selector.register(self.channel.down, selectors.EVENT_READ, lambda: None)
        while self.running:
            left = self.deadline - time.monotonic()
            if left <= 0:
                self._stop("time limit")
                return
            for key, _ in self.selector.select(min(left, 0.1)):
                if key.fileobj == self.channel.down and "stop" in self.channel.receive(1.0):
                    self._stop("stopped")
                    return
                key.data()
            self._collect_ended()
        self._end_all()  # daemons that the job's processes left behind

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
        log = self.logs[name].decode("utf-8", "replace")
        self.channel.emit({"exit": how, "name": name, "log": log})

    def _stop(self, how: str) -> None:
        self._end_all()
        self._drain()
        for name in list(self.running):
            self._report_end(name, how)

    def _end_all(self) -> None:
        """End everything that this job started; what was orphaned has become a child of ours."""
        pids = children.descendants(os.getpid())
        children.kill_all(pids, signal.SIGTERM)
        end = time.monotonic() + 1.0
        while time.monotonic() < end and children.descendants(os.getpid()):
            time.sleep(0.02)
        children.kill_all(children.descendants(os.getpid()), signal.SIGKILL)


def _put_in(word: str, meant: dict[str, str]) -> str:
    for placeholder, value in meant.items():
        word = word.replace(placeholder, value)
    return word


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Run the job of this node; the result is how many processes were started."""
    children.adopt_orphans()
    job = Job(arguments, channel)
    job.start()
    job.watch()
    return {"started": len(arguments["processes"])}
