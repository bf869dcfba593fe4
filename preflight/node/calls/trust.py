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


def ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a program that has closed its output; it is killed where it does not end by itself."""
    import subprocess

    try:
        return process.wait(AFTER_KILL_S)
    except subprocess.TimeoutExpired:
        stop(process)
        return int(process.returncode)


def run(arguments: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Facts of the subject trust."""
    waiting = list(arguments["peers"])
    end = time.monotonic() + float(arguments["seconds"])
    running: dict[int, tuple[str, subprocess.Popen[bytes], float, bytearray]] = {}
    logins: dict[str, dict[str, Any]] = {}
    selector = selectors.SelectSelector()  # it holds no descriptor of its own
    while (waiting or running) and time.monotonic() < end:
        while waiting and len(running) < CONCURRENT:
            peer = waiting.pop(0)
            try:
                begin(peer, arguments["python"], end, selector, running)
            except OSError as error:
                logins[peer] = login(peer, f"ssh: {error.strerror}", 0.0, "")
        for key, _ in selector.select(max(0.0, end - time.monotonic())) if running else ():
            peer, process, begun, data = running[key.fd]
            more = os.read(key.fd, 1 << 16)
            data += more
            if not more:
                selector.unregister(key.fd)
                del running[key.fd]
                os.close(key.fd)
                logins[peer] = outcome(peer, ended(process), bytes(data), time.monotonic() - begun)
    for descriptor, (peer, process, begun, _) in running.items():
        stop(process)
        os.close(descriptor)
        logins[peer] = login(peer, "no answer in time", time.monotonic() - begun, "")
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


def begin(peer: str, python: str, end: float, selector: Any, running: dict[int, Any]) -> None:
    """Start one ssh, its output and errors on one pipe."""
    read, write = os.pipe()
    argv = [*SSH, "--", peer, f"echo {MARK}`command -v {shlex.quote(python)}`"]
    try:
        process = children.start(argv, seconds=end - time.monotonic(), stdout=write, stderr=write)
    except OSError:
        os.close(read)
        raise
    finally:
        os.close(write)
    selector.register(read, selectors.EVENT_READ)
    running[read] = (peer, process, time.monotonic(), bytearray())


def outcome(peer: str, code: int, data: bytes, seconds: float) -> dict[str, Any]:
    """How one ssh ended."""
    lines = data.decode("utf-8", "backslashreplace").splitlines()
    marked = [line for line in lines if line.startswith(MARK)]
    if marked:
        return login(peer, "", seconds, marked[-1][len(MARK) :].strip())
    words = [line.strip() for line in lines if line.strip()]
    return login(peer, words[-1] if words else f"ssh ended with {code}", seconds, "")


def login(peer: str, trouble: str, seconds: float, python: str) -> dict[str, Any]:
    """One attempt as it crosses the wire."""
    return {"peer": peer, "trouble": trouble[:400], "seconds": round(seconds, 3), "python": python[:400]}
