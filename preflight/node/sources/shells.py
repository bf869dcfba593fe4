"""Which variables has the shell that a person types in on this node, beside those of a command over ssh?

~/.profile, module files and what stands in ~/.bashrc behind "if not running interactively, return" are read by login
and interactive shells alone. Their output is thrown away, and what they start is ended.
"""

from __future__ import annotations

import os
import select
import time

from preflight.node.agent.missing import read_text_or_missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable, Mapping
    from typing import Union

    Started = tuple[int, int]  # the process, and what it writes
    StartedOrWhyNot = Union[Started, str]
else:
    import _signal as signal  # the module signal makes enums of all numbers: 2 ms more

SECONDS = 3.0  # for all of them: conda and module files take tenths
# For what a start file has to remove: pyenv keeps a lock for which every later shell of the account waits a minute.
GRACE_SECONDS = 0.3
# What a person gets: who logs in over ssh, and who opens a window of tmux or an editor.
LOGIN, WINDOW = "a login over ssh", "a new window"
KINDS = {LOGIN: ("-l", "-i"), WINDOW: ("-i",)}
# The first of these that is there is read by a login shell of bash; in a new window bash reads the others.
OF_LOGIN = ("~/.bash_profile", "~/.bash_login", "~/.profile")
SYSTEM_LOGIN = "/etc/profile"
OF_WINDOW = {"~/.bashrc": OF_LOGIN, "/etc/bash.bashrc": (SYSTEM_LOGIN,), "/etc/bash/bashrc": (SYSTEM_LOGIN,)}
SHELLS = ("bash", "zsh", "ksh", "dash", "sh", "fish")
PRINT = "printf '%s\\0' {mark}; exec env -0"
# bash prints its variables itself, so that no further program is started. Then it kills itself: exit traps of
# start files would not run after `exec env` either, nor would the history be written.
PRINT_OF_BASH = (
    "builtin printf '%s\\n' {mark}; builtin declare -px; builtin printf '%s\\0' {mark}; builtin kill -KILL $$"
)
# Escaped characters of a value, as bash writes them; with these replaced by tokens, the next quote ends the value.
ASIDE = ((b"\\\\", b"\0b", b"\\"), (b'\\"', b"\0d", b'"'), (b"\\'", b"\0s", b"'"))
BYTES = 1 << 20


def collect(root: str = "") -> dict[str, dict[str, str] | str]:
    """Kind of shell -> every variable that it has, secrets and all: not for the wire; or why that is not known."""
    if root:
        return dict.fromkeys(KINDS, f"not asked: {root} is a tree of files")
    shell = of_account()
    if os.path.basename(shell) not in SHELLS:
        return dict.fromkeys(KINDS, f"the account's shell is {shell or 'not known'}")
    deadline = time.monotonic() + SECONDS
    mark = os.urandom(16).hex()
    is_one = os.path.basename(shell) == "bash" and a_login_reads_all(OF_WINDOW)
    asked = {LOGIN: KINDS[LOGIN]} if is_one else KINDS
    started = {kind: start(shell, options, mark) for kind, options in asked.items()}
    return {kind: answer(process, mark, deadline) for kind, process in started.items()}


def a_login_reads_all(of_window: Mapping[str, Iterable[str]]) -> bool:
    """Whether the files that a login shell reads name every file that is read in a new window.

    So they do nearly everywhere ("if [ -f ~/.bashrc ]; then . ~/.bashrc; fi"): then a second shell would say no more.
    """
    for path, readers in of_window.items():
        if os.path.exists(os.path.expanduser(path)):
            texts = (read_text_or_missing(os.path.expanduser(reader)) for reader in readers)
            text = next((text for text in texts if isinstance(text, str)), "")
            lines = (line.strip() for line in text.splitlines())
            if not any(os.path.basename(path) in line and not line.startswith("#") for line in lines):
                return False
    return True


def of_account() -> str:
    """The shell of the user's account, "" where there is no account."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        return ""


def start(shell: str, options: tuple[str, ...], mark: str) -> StartedOrWhyNot:
    """Start a shell that prints its variables after the mark; it has no terminal, and leaves no history."""
    environment = {**os.environ, "TERM": "dumb", "HISTFILE": ""}
    program = PRINT_OF_BASH if os.path.basename(shell) == "bash" else PRINT
    reader, writer = os.pipe()
    try:
        # The module subprocess would do the same, after 5 ms of loading it.
        process = os.posix_spawn(
            shell,
            [shell, *options, "-c", program.format(mark=mark)],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, writer, 1),
            ],
            # Python ignores the first two and nohup the third, which tells a shell to remove its locks.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP],
            setsid=True,
        )
    except (OSError, NotImplementedError) as error:  # the second of a C library from before 2018
        os.close(reader)
        return f"{shell}: {getattr(error, 'strerror', error)}"
    finally:
        os.close(writer)
    return process, reader


def hang_up(process: int) -> None:
    """End a shell and what it started as closing its window does; what is there a moment later is killed."""
    end = time.monotonic() + GRACE_SECONDS
    try:
        os.killpg(process, signal.SIGHUP)
        while time.monotonic() < end:
            reap(process, seconds=0)
            os.killpg(process, 0)
            time.sleep(0.01)
        os.killpg(process, signal.SIGKILL)
    except OSError:  # its process group is already gone
        return


def answer(started: StartedOrWhyNot, mark: str, deadline: float) -> dict[str, str] | str:
    """What one shell prints before the deadline; everything that it started is killed."""
    if isinstance(started, str):
        return started
    process, descriptor = started
    text = b""
    try:
        while (left := deadline - time.monotonic()) > 0 and len(text) < BYTES:
            if select.select([descriptor], [], [], left)[0]:
                piece = os.read(descriptor, BYTES)
                if not piece:
                    break
                text += piece
    finally:
        hang_up(process)
        os.close(descriptor)
        reap(process, seconds=1.0)
    _, _, after = text.partition(mark.encode())
    if not after.endswith(b"\0"):
        return f"its start did not end within {SECONDS:g} s" if time.monotonic() >= deadline else "it said nothing"
    found = declared(after.rpartition(mark.encode())[0]) if after.startswith(b"\n") else listed(after)
    return {name: value.decode("utf-8", "backslashreplace") for name, value in found.items()}


def listed(text: bytes) -> dict[str, bytes]:
    """The variables as `env -0` prints them."""
    pairs = (item.partition(b"=") for item in text.split(b"\0"))
    return {name.decode("utf-8", "backslashreplace"): value for name, equals, value in pairs if equals}


def declared(text: bytes) -> dict[str, bytes]:
    """The variables as `declare -px` of bash prints them, one a line: declare -x NAME="value" or NAME=$'value'."""
    import _codecs

    found: dict[str, bytes] = {}
    for written, token, _ in ASIDE:
        text = text.replace(written, token)
    while b"=" in text:
        words, _, text = text.partition(b"=")
        name = words.rpartition(b" ")[2].decode("utf-8", "backslashreplace")
        if text.startswith(b"("):  # an array, which no program is given
            text = text.partition(b")\n")[2]
            continue
        if text.startswith(b"$"):
            value, _, text = text[2:].partition(b"'")
            value = _codecs.escape_decode(value.replace(b"\\E", b"\\033"))[0]
        else:
            value, _, text = text[1:].partition(b'"')
            value = value.replace(b"\\", b"")
        for _, token, character in ASIDE:
            value = value.replace(token, character)
        found[name] = value
    return found


def reap(process: int, *, seconds: float) -> None:
    """Take in the end of a process; one that hangs in a file system is the keeper's to end."""
    end = time.monotonic() + seconds
    try:
        while os.waitpid(process, os.WNOHANG) == (0, 0) and time.monotonic() < end:
            time.sleep(0.001)
    except ChildProcessError:  # it was taken in before
        return
