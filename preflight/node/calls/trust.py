"""Can this node log in to the others without being asked anything, and does it find the job's Python there?

``arguments``: ``peers`` (names as the launch would use them, the node's own among them where it logs in to itself),
``python`` (the interpreter to look for), ``seconds``, ``programs`` (that the launch calls), ``variables`` (that it
takes for set) and ``environment`` (layers of the job's).
"""

from __future__ import annotations

import os
import selectors
import shlex
import time

from preflight.node.agent import children
from preflight.node.agent.programs import AFTER_KILL_S, stop
from preflight.node.subjects.environment import job_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Any

    from preflight.node.agent.channel import Channel

CONCURRENT = 16
SSH = (
    *("ssh", "-T", "-oBatchMode=yes", "-oConnectTimeout=5", "-oForwardAgent=no", "-oForwardX11=no"),
    *("-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oControlMaster=no", "-oControlPath=none"),
)
MARK = "preflight-python:"
KEPT_BYTES = 64 << 10


def ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a program that has closed its output; it is killed where it does not end by itself."""
    import subprocess

    try:
        return process.wait(AFTER_KILL_S)
    except subprocess.TimeoutExpired:
        stop(process)
        return int(process.returncode)


class Attempt:
    """One ssh that runs, and what it has printed and complained so far."""

    def __init__(self, peer: str, process: subprocess.Popen[bytes], output: int, errors: int) -> None:
        self.peer = peer
        self.process = process
        self.begun = time.monotonic()
        self.output, self.errors = output, errors
        self.open = {output: bytearray(), errors: bytearray()}
        self.ended: dict[int, bytes] = {}

    def read(self, descriptor: int) -> bool:
        """Take what is there -> whether more may come; what is read beyond a limit is not kept."""
        more = os.read(descriptor, 1 << 16)
        text = self.open[descriptor]
        text += more[: max(0, KEPT_BYTES - len(text))]
        if not more:
            self.ended[descriptor] = bytes(self.open.pop(descriptor))
            os.close(descriptor)
        return bool(more)

    def outcome(self) -> dict[str, Any]:
        """How it ended, where both its pipes have."""
        code = ended(self.process)
        texts = [self.ended[one].decode("utf-8", "backslashreplace") for one in (self.output, self.errors)]
        return outcome(self.peer, code, texts[0], texts[1], time.monotonic() - self.begun)

    def stop(self) -> dict[str, Any]:
        """End it: it has had its time."""
        stop(self.process)
        for descriptor in self.open:
            os.close(descriptor)
        return login(self.peer, "no answer in time", time.monotonic() - self.begun, "")


def run(arguments: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Facts of the subject trust."""
    waiting = list(arguments["peers"])
    end = time.monotonic() + float(arguments["seconds"])
    running: dict[int, Attempt] = {}  # each under both its descriptors
    logins: dict[str, dict[str, Any]] = {}
    selector = selectors.SelectSelector()  # it holds no descriptor of its own
    while (waiting or running) and time.monotonic() < end:
        while waiting and len(running) < 2 * CONCURRENT:
            peer = waiting.pop(0)
            try:
                attempt = begin(peer, arguments["python"], end)
            except OSError as error:
                logins[peer] = login(peer, f"ssh: {error.strerror}", 0.0, "")
                continue
            for descriptor in attempt.open:
                selector.register(descriptor, selectors.EVENT_READ)
                running[descriptor] = attempt
        for key, _ in selector.select(max(0.0, end - time.monotonic())) if running else ():
            attempt = running[key.fd]
            if not attempt.read(key.fd):
                selector.unregister(key.fd)
                del running[key.fd]
                if not attempt.open:
                    logins[attempt.peer] = attempt.outcome()
    for attempt in {id(one): one for one in running.values()}.values():
        logins[attempt.peer] = attempt.stop()
    for peer in waiting:
        logins[peer] = login(peer, "not tried: out of time", 0.0, "")
    variables = job_variables({"environment": [], **arguments})
    path = variables.get("PATH", (os.defpath, ""))[0]
    return {
        "logins": [logins[peer] for peer in arguments["peers"]],
        "programs": {name: place_of(name, path) for name in arguments.get("programs", ())},
        "unset": [name for name in arguments.get("variables", ()) if name not in variables],
    }


def place_of(program: str, path: str) -> str:
    """Where a PATH finds a program, "" where it does not."""
    folders = [folder for folder in path.split(":") if folder]
    return next((f"{one}/{program}" for one in folders if os.access(f"{one}/{program}", os.X_OK)), "")


def begin(peer: str, python: str, end: float) -> Attempt:
    """Start one ssh, its output and its errors each on a pipe."""
    output, written = os.pipe()
    errors, complained = os.pipe()
    argv = [*SSH, "--", peer, f"echo {MARK}`command -v {shlex.quote(python)}`"]
    try:
        process = children.start(argv, seconds=end - time.monotonic(), stdout=written, stderr=complained)
    except OSError:
        os.close(output)
        os.close(errors)
        raise
    finally:
        os.close(written)
        os.close(complained)
    return Attempt(peer, process, output, errors)


def outcome(peer: str, code: int, output: str, errors: str, seconds: float) -> dict[str, Any]:
    """How one ssh ended; what its output has before our own line is printed by the shell's start files."""
    before, mark, after = output.rpartition(MARK)
    if mark:
        return login(peer, "", seconds, after.partition("\n")[0].strip(), " ".join(before.split()))
    words = [line.strip() for line in (output + errors).splitlines() if line.strip()]
    return login(peer, words[-1] if words else f"ssh ended with {code}", seconds, "")


def login(peer: str, trouble: str, seconds: float, python: str, printed: str = "") -> dict[str, Any]:
    """One attempt as it crosses the wire."""
    return {
        "peer": peer,
        "trouble": trouble[:400],
        "seconds": round(seconds, 3),
        "python": python[:400],
        "printed": printed[:100],
    }
