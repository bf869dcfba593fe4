"""How does a test run pytest or preflight again and again without importing it each time? In forks of one process.

    forks = Forks()
    process = forks.start(["pytest", "--version"], cwd=folder, env=dict(os.environ))
    output, _ = process.communicate(timeout=90)     # and process.returncode, as of subprocess
    forks.close()

A fork has its own folder, variables, streams, signals and exit code, and ends as any Python does. What Python reads at
its start alone is not read again: a test of PYTHONPATH, -O and the like starts a Python.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# What every session imports; pytest warns of plugins that were imported before it, so none of them is here.
PRELOADED = (
    "pytest",
    "asyncio",
    "jinja2",
    "preflight.cli.main",
    "preflight.run.suite.session",
    "preflight.report.html.page",
)
MESSAGE_BYTES = 1 << 17


class Fork:
    """A program that runs in a fork; its standard output and error are one stream, its input is empty."""

    def __init__(self, forks: Forks, pid: int, output: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._forks = forks
        self._output = output

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless its end is known."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def communicate(self, *, timeout: float) -> tuple[str, None]:
        """All that it says until it ends. Raises TimeoutError, after which it is killed."""
        text = b""
        with open(self._output, "rb", buffering=0) as stream:
            while select.select([stream], [], [], timeout)[0]:
                piece = stream.read(1 << 16)
                if not piece:
                    self.returncode = self._forks.code_of(self.pid, timeout)
                    return text.decode(), None
                text += piece
        os.kill(self.pid, signal.SIGKILL)
        raise TimeoutError(f"it said nothing for {timeout} s; before: {text.decode()}")


class Forks:
    """The process that all of them are forks of."""

    def __init__(self) -> None:
        self._channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._codes: dict[int, int] = {}
        with other:
            words = [sys.executable, "-m", __name__, str(other.fileno())]
            root = Path(__file__).parent.parent
            self._process = subprocess.Popen(words, pass_fds=[other.fileno()], cwd=root, stdin=subprocess.DEVNULL)

    def start(self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Fork:
        """Run a module by its name with its words, as `python -m` does."""
        output, written = os.pipe()
        message = json.dumps({"words": list(words), "cwd": str(cwd), "env": dict(env)}).encode()
        try:
            socket.send_fds(self._channel, [message], [written])
        finally:
            os.close(written)
        while (told := self._told(60))[0] != "started":
            pass
        return Fork(self, told[1], output)

    def code_of(self, pid: int, timeout: float) -> int:
        """The exit code, or the number of the signal that ended it below zero, once it has ended."""
        while pid not in self._codes:
            self._told(timeout)
        return self._codes.pop(pid)

    def close(self) -> None:
        """End the process."""
        self._channel.close()
        self._process.wait(timeout=30)

    def _told(self, timeout: float) -> Any:
        """The next thing that the process says; how a fork ended is kept."""
        self._channel.settimeout(timeout)
        kind, pid, code = json.loads(self._channel.recv(MESSAGE_BYTES))
        if kind == "ended":
            self._codes[pid] = code
        return kind, pid


def serve(channel: socket.socket) -> None:
    """Fork for every message until the other end is closed; comes back in a fork, as the program that it is to be."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([channel, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 1 << 10)
            with contextlib.suppress(ChildProcessError):
                while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    channel.send(json.dumps(["ended", ended[0], os.waitstatus_to_exitcode(ended[1])]).encode())
        if channel not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 1)
        if not message:
            sys.exit()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (woken, waker):
                os.close(descriptor)
            channel.close()
            become(json.loads(message), descriptors[0])
            return
        os.close(descriptors[0])
        channel.send(json.dumps(["started", pid, 0]).encode())


def become(wanted: Mapping[str, Any], output: int) -> None:
    """Take the streams, folder, variables and words of the program."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    sys.path[0] = wanted["cwd"]
    sys.argv = wanted["words"]


if __name__ == "__main__":
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # what all forks share stays shared
    serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
