"""How is the user's own script started on a node, with our hook before every Python of it, and what became of it?

``arguments``:
  ``login``        whether the account's login shell is between, as for a person who logs in
  ``environment``  list of [layer, {NAME: value}] laid over it
  ``drop``         names and prefixes (ending in ``*``) of variables that must not be inherited
  ``hook``         the text of sitecustomize.py
  ``settings``     what the hook reads; in a text of "trainee" ``{scratch}`` stands for our folder, ``{network}`` for
                   the network of the node
  ``seconds``      time limit
The blob is the program of the trainee.

A message {"start": {"path", "text", "shell", "words", "folders", "job"}} starts the script: as it was given, by the
words of its shell, in the first of the folders that is there. With a "job" the batch shell of that job of
Slurm starts it, which waits here for a file of that name. {"stop": true} ends the rehearsal.

Events: {"ready": true}, {"began": ...}, {"rows": [...]} of the trace, {"notes": [[name, {...}]]} of hooks and ranks,
{"ended": code}, and at the end {"processes": [...]}, {"output": {"out", "err"}}.
"""

from __future__ import annotations

import json
import os
import selectors
import shlex
import signal
import time

from preflight.node.agent import children, strict
from preflight.node.calls import hanging
from preflight.node.sources import shells
from preflight.node.sources.rehearsal import tracing
from preflight.node.sources.rehearsal.output import Held, Output, text_of
from preflight.node.sources.rehearsal.tail import Tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Any

    from preflight.node.agent.channel import Channel

LOOK_SECONDS = 0.2
MOST_SENT = 4000  # rows and notes of one look
GRACE_SECONDS = 0.7
SURE_SECONDS = 0.3
SEARCH_SECONDS = 1.0
STRAY_SECONDS = 8.0  # by then a rank has left its first note, which it does before it imports torch
START = """
printf '{mark}\\n'; printf '{mark}\\n' >&2
{path}export PYTHONPATH={hook}"${{PYTHONPATH:+:$PYTHONPATH}}"
export PREFLIGHT_BASH_ENV="${{BASH_ENV-}}" BASH_ENV={trace}
export PREFLIGHT_REHEARSAL=1
for folder in {folders}; do cd "$folder" 2>/dev/null && break; done
exec {command}
"""


class Rehearsal:
    """The script of this node, and all that it starts here or that other nodes start here for it."""

    def __init__(self, arguments: dict[str, Any], channel: Channel) -> None:
        self.arguments = arguments
        self.channel = channel
        self.scratch = channel.scratch
        self.deadline = min(channel.deadline, time.monotonic() + float(arguments["seconds"]))
        self.selector = selectors.DefaultSelector()
        self.child: subprocess.Popen[bytes] | Held | None = None
        mark = os.urandom(8).hex()
        self.mark = f"preflight-{mark}"
        self.streams = {"out": Output(self.mark.encode()), "err": Output(self.mark.encode())}
        programs = arguments["settings"].get("programs", ())
        self.programs = frozenset(programs if len(programs) == 1 else ())  # of several one may only prepare
        self.next_search = 0.0
        self.seen: dict[int, float] = {}  # processes that may be ranks: since when
        self.noted: set[int] = set()  # and those that have the hook
        self.trace = Tail(os.path.join(self.scratch, "trace"))
        self.notes = Tail(os.path.join(self.scratch, "ranks"))

    def prepare(self) -> None:
        """Put the hook and what it reads into the scratch folder, which is the same on all nodes of a run."""
        for folder in ("hook", "ranks"):
            os.makedirs(os.path.join(self.scratch, folder), exist_ok=True)
        settings = json.dumps(self.arguments["settings"]).replace("{scratch}", self.scratch)
        settings = settings.replace("{network}", os.readlink("/proc/self/ns/net"))
        files = {"sitecustomize.py": self.arguments["hook"], "settings.json": settings}
        files["trainee.py"] = self.channel.blob.decode()
        for name, text in files.items():
            self._write(os.path.join("hook", name), text)

    def _write(self, name: str, text: str) -> str:
        path = os.path.join(self.scratch, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def start(self, start: dict[str, Any]) -> None:
        """Start the script as its user would, in a session of its own."""
        own = text_of(start["path"])
        path = start["path"] if own is not None else self._write(os.path.basename(start["path"]), start["text"])
        folder = next((folder for folder in map(os.path.expanduser, start["folders"]) if os.path.isdir(folder)), "/")
        words = [*start["shell"], path, *start["words"]]
        shell = shells.of_account() if self.arguments["login"] else ""
        is_login = os.path.basename(shell) == "bash"
        program = START.format(
            mark=self.mark,
            path=_more_path() if is_login else "",
            hook=shlex.quote(os.path.join(self.scratch, "hook")),
            trace=shlex.quote(tracing.write(self.scratch)),
            folders=shlex.quote(folder),
            command=shlex.join(words),
        )
        starter = self._write("start", program)
        argv = ["/bin/sh", starter]
        if is_login:
            argv = [shell, "-l", "-i", "-c", f"exec /bin/sh {shlex.quote(starter)}"]
        self.channel.emit(
            {"began": {"path": path, "folder": folder, "differs": own not in (None, start["text"]), "at": time.time()}}
        )
        if start["job"]:
            self.child = Held(self.scratch, start["job"], self.streams)
            return
        self.child = child = children.start(
            argv,
            seconds=self.deadline - time.monotonic(),
            env=self._environment(),
            stdout=-1,
            stderr=-1,
            start_new_session=True,
            cwd="/",
        )
        for name, stream in (("out", child.stdout), ("err", child.stderr)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self.selector.register(stream, selectors.EVENT_READ, self.streams[name])

    def _environment(self) -> dict[str, str]:
        drop = self.arguments["drop"]
        prefixes = tuple(name[:-1] for name in drop if name.endswith("*"))
        kept = {n: v for n, v in os.environ.items() if n not in drop and not (prefixes and n.startswith(prefixes))}
        if self.arguments["login"]:
            kept.update({"TERM": "dumb", "HISTFILE": ""})
        for _, layer in self.arguments["environment"]:
            kept.update(layer)
        return kept

    def watch(self) -> str:
        """Report until the controller says stop, or time is up -> which of the two."""
        self.selector.register(self.channel.down, selectors.EVENT_READ)
        next_look = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= self.deadline:
                return "time limit"
            for key, _ in self.selector.select(min(max(0.0, next_look - now), self.deadline - now)):
                if key.fileobj == self.channel.down:
                    message = self.channel.receive(1.0)
                    if "stop" in message:
                        return "stopped"
                    self.start(message["start"])
                else:
                    self._read(key.fileobj, key.data)
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + LOOK_SECONDS
                self._look()

    def _read(self, stream: Any, output: Output) -> None:
        data = stream.read(1 << 16)
        if data:
            output.take(data)
        elif data == b"":
            self.selector.unregister(stream)

    def _look(self) -> None:
        """Send what is new: first whether the script has ended, so that no line of it comes after its end."""
        code = self.child.poll() if self.child is not None else None
        rows = [found for _, line in self.trace.lines() for found in [tracing.row(line)] if found]
        notes: list[Any] = [[name, strict.strict_json(line)] for name, line in self.notes.lines()]
        self.noted |= {int(note["pid"]) for _, note in notes if "pid" in note}
        self._end_strays()
        for start in range(0, len(rows), MOST_SENT):
            self.channel.emit({"rows": rows[start : start + MOST_SENT]})
        for start in range(0, len(notes), MOST_SENT):
            self.channel.emit({"notes": notes[start : start + MOST_SENT]})
        if code is not None and self.child is not None:
            self.channel.emit({"ended": code, "shell": self.child.pid, "at": time.time()})
            self.child = None

    def _end_strays(self) -> None:
        """End what runs the user's own program without our hook: that is the training itself."""
        now = time.monotonic()
        if not self.programs or now < self.next_search:
            return
        self.next_search = now + SEARCH_SECONDS
        for pid in children.descendants(os.getpid()):
            words = hanging.text_of(f"/proc/{pid}/cmdline").split("\0")
            main = next((word for word in words[1:] if word and not word.startswith("-")), "")
            if not os.path.basename(words[0]).startswith("python") or os.path.basename(main) not in self.programs:
                continue
            own = {pid, *map(int, _pids_inside(pid))}
            if not own & self.noted and now - self.seen.setdefault(pid, now) > STRAY_SECONDS:
                self.channel.emit({"stray": " ".join(words)[:400].strip()})
                children.kill_all([pid], signal.SIGKILL)

    def finish(self) -> None:
        """Say what is still there and what was printed, then end it."""
        for stream in [key for key in self.selector.get_map().values() if key.fileobj != self.channel.down]:
            self._read(stream.fileobj, stream.data)
        self._look()
        self.channel.emit({"processes": processes(set(self.ours()))})
        texts = {name: output.text() for name, output in self.streams.items()}
        before = {f"{name}_before": o.before.decode("utf-8", "replace") for name, o in self.streams.items()}
        self.channel.emit({"output": {**texts, **before, "has_begun": self.streams["out"].has_begun}})
        self.end()

    def end(self, *, grace_s: float = GRACE_SECONDS) -> None:
        """End all of it, then remove the folders that launchers made and left, as they said themselves.

        Their notes are read anew: what was made while they were ended is among them, and so is what a look had read
        when a signal interrupted it.
        """
        import shutil

        self.end_all(grace_s=grace_s)
        notes = (strict.strict_json(line) for _, line in Tail(self.notes.path).lines())
        for path in [note["made"] for note in notes if "made" in note]:
            if os.path.basename(path).startswith("torchelastic_") and os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)

    def ours(self) -> list[int]:
        """Our descendants, and whatever else on this node came by our hook: steps of a scheduler, logins from nodes."""
        found = children.descendants(os.getpid())
        return found + children.holding(self.scratch + "/", but={*found, os.getpid(), os.getppid()})

    def end_all(self, *, grace_s: float = GRACE_SECONDS) -> None:
        """End all of it; what is being started meanwhile too."""
        children.kill_all(self.ours(), signal.SIGTERM)
        end = time.monotonic() + grace_s
        while time.monotonic() < end and self.ours():
            time.sleep(0.02)
        sure = time.monotonic()
        while time.monotonic() - sure < SURE_SECONDS:
            left = self.ours()
            if left:
                children.kill_all(left, signal.SIGKILL)
                sure = time.monotonic()
            elif self.child is None and grace_s == 0.0:
                return
            time.sleep(0.02)

    def outlive_keeper(self) -> None:
        """Survive a killed keeper until all is ended: nobody else could end what a scheduler started here."""

        def leave(_number: int, _frame: Any) -> None:
            children.kill_all(self.ours(), signal.SIGKILL)
            self.end(grace_s=0.0)
            os._exit(0)

        signal.signal(signal.SIGTERM, leave)
        children.die_with_parent(signal.SIGTERM)


def processes(pids: set[int]) -> list[dict[str, Any]]:
    """What each of these processes is and with whom it is connected, or tries to be."""
    sockets = hanging.sockets("/proc")
    return [
        {
            "pid": each["pid"],
            "parent": each["parent"],
            "state": each["state"],
            "command": each["command"][:400],
            "sockets": [
                {"peer": sockets[inode]["peer"], "state": sockets[inode]["state"]}
                for inode in hanging.inodes("/proc", each["pid"])[:64]
                if inode in sockets
            ],
        }
        for each in hanging.everybody("/proc")
        if each["pid"] in pids
    ][:256]


def _pids_inside(pid: int) -> list[str]:
    """The numbers that a process has in the namespaces below ours."""
    lines = hanging.text_of(f"/proc/{pid}/status").splitlines()
    return next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])


def _more_path() -> str:
    """A line that puts what this session has in PATH behind what a login has."""
    path = os.environ.get("PATH", "")
    return f'export PATH="$PATH":{shlex.quote(path)}\n' if path else ""


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Rehearse on this node until it is over; the result is why it was."""
    children.adopt_orphans()
    rehearsal = Rehearsal(arguments, channel)
    rehearsal.outlive_keeper()
    try:
        rehearsal.prepare()
        channel.emit({"ready": True})
        why = rehearsal.watch()
        rehearsal.finish()
    except BaseException:  # a killed keeper's pipe may be the first sign of it
        rehearsal.end(grace_s=0.0)
        raise
    return {"why": why}
