"""Which variables has the shell that a person types in on this node, beside those of a command over ssh?

~/.profile, module files and what stands in ~/.bashrc behind "if not running interactively, return" are read by login
and interactive shells alone. Their output is thrown away, and what they start is ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time

SECONDS = 3.0  # for all of them: conda and module files take tenths
# For what a start file has to remove: pyenv keeps a lock for which every later shell of the account waits a minute.
GRACE_SECONDS = 0.3
# What a person gets: who logs in over ssh, and who opens a window of tmux or an editor.
KINDS = {"a login over ssh": ("-l", "-i"), "a new window": ("-i",)}
SHELLS = ("bash", "zsh", "ksh", "dash", "sh", "fish")
BYTES = 1 << 20


def collect() -> dict[str, dict[str, str] | str]:
    """Kind of shell -> every variable that it has, secrets and all: not for the wire; or why that is not known."""
    shell = of_account()
    if os.path.basename(shell) not in SHELLS:
        return dict.fromkeys(KINDS, f"the account's shell is {shell or 'not known'}")
    deadline = time.monotonic() + SECONDS
    mark = os.urandom(16).hex()
    started = {kind: start(shell, options, mark) for kind, options in KINDS.items()}
    return {kind: answer(process, mark, deadline) for kind, process in started.items()}


def of_account() -> str:
    """The shell of the user's account, "" where there is no account."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        return ""


def start(shell: str, options: tuple[str, ...], mark: str) -> subprocess.Popen[bytes] | str:
    """A shell that says its variables behind the mark; it has no terminal, and leaves no history."""
    environment = {**os.environ, "TERM": "dumb", "HISTFILE": ""}
    try:
        return subprocess.Popen(
            [shell, *options, "-c", f"printf '%s\\0' {mark}; exec env -0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return f"{shell}: {error.strerror}"


def hang_up(process: subprocess.Popen[bytes]) -> None:
    """End a shell and what it started as closing its window does; what is there a moment later is killed."""
    end = time.monotonic() + GRACE_SECONDS
    with contextlib.suppress(OSError):  # until nothing of it is left
        os.killpg(process.pid, signal.SIGHUP)
        while time.monotonic() < end:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)


def answer(process: subprocess.Popen[bytes] | str, mark: str, deadline: float) -> dict[str, str] | str:
    """What one shell says before the deadline; whatever it started is killed."""
    if isinstance(process, str):
        return process
    assert process.stdout is not None
    text = b""
    descriptor = process.stdout.fileno()
    try:
        while (left := deadline - time.monotonic()) > 0 and len(text) < BYTES:
            if select.select([descriptor], [], [], left)[0]:
                piece = os.read(descriptor, BYTES)
                if not piece:
                    break
                text += piece
    finally:
        hang_up(process)
        process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in a file system is the keeper's to end
            process.wait(timeout=1.0)
    _, found, after = text.partition(f"{mark}\0".encode())
    if not found or not after.endswith(b"\0"):
        return f"its start did not end within {SECONDS:g} s" if time.monotonic() >= deadline else "it said nothing"
    words = [item.decode("utf-8", "backslashreplace") for item in after.split(b"\0")]
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}
