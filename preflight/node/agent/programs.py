"""What does a program of the node print, if it ends within its time?"""

from __future__ import annotations

import os
import select
import time

from preflight.node.agent.missing import missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from subprocess import Popen

    from preflight.node.agent.missing import TextOrMissing

FOLDERS = ("/usr/bin", "/usr/sbin", "/usr/local/nvidia/bin", "/opt/rocm/bin")
AFTER_KILL_S = 1.0
STARVED_S = 5.0  # that a killed program may take to exit where it gets no CPU
LARGEST_REPLY_BYTES = 16 << 20
FIRST_OF_SIGNALS = 128  # a shell's exit code of a program that a signal has ended is this and the signal's number


def find(name: str, path: str, root: str = "") -> str:
    """Where a program is, on the job's PATH or where its package puts it below a root; "" where it is not."""
    for folder in [*filter(None, path.split(":")), *(f"{root}{folder}" for folder in FOLDERS)]:
        program = f"{folder}/{name}"
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return ""


def run(argv: list[str], *, limit_s: float) -> str:
    """What a program prints, whatever its exit code; TimeoutError past the limit: a driver may block it forever.

    ValueError where it prints more than 16 MiB.
    """
    started = Started(argv, limit_s=limit_s)
    return started.text()


def run_all(commands: Mapping[str, list[str]], *, limit_s: float) -> dict[str, TextOrMissing]:
    """Run several programs at once, each under a name of ours: its output, or why there is none."""
    started = {name: Started(argv, limit_s=limit_s) for name, argv in commands.items()}
    outputs: dict[str, TextOrMissing] = {}
    for name, program in started.items():
        try:
            outputs[name] = program.text()
        except (OSError, ValueError) as error:
            outputs[name] = missing(str(error))
    return outputs


class Started:
    """A program that was started; `text` waits for it and always ends it."""

    def __init__(self, argv: list[str], *, limit_s: float) -> None:
        import subprocess

        from preflight.node.agent import children

        self.name = " ".join([os.path.basename(argv[0]), *argv[1:]])
        self.limit_s = limit_s
        self.end = time.monotonic() + limit_s
        self.error = self.silence = ""
        reader, writer = os.pipe()
        self.output = open(reader, "rb", buffering=0)  # noqa: SIM115 - closed by text()
        try:
            # stderr too: some failures are printed only there, and the parsers skip lines that they do not know.
            environment = {**os.environ, "LC_ALL": "C"}
            self.process = children.start(
                argv, seconds=limit_s, stdout=writer, stderr=subprocess.STDOUT, env=environment
            )
        except OSError as error:
            other = error.filename if error.filename != argv[0] else None  # /dev/null that the user may not write
            self.error = f"{self.name}: {f'{other}: ' if other else ''}{error.strerror}"
        finally:
            os.close(writer)

    def text(self) -> str:
        """Everything it printed."""
        with self.output:
            if self.error:
                raise OSError(self.error)
            try:
                data = self._read_all()
                self.silence = self._of_silence() if data is not None and not data.strip() else ""
            finally:
                stuck = stop(self.process)
        if data is None:
            raise TimeoutError(f"{self.name} did not finish within {self.limit_s:g} s{stuck}")
        return data.decode("utf-8", "backslashreplace")

    def _of_silence(self) -> str:
        """How a program ended that closed its output and had printed nothing; "" where it has not ended."""
        import subprocess

        try:
            code = self.process.wait(AFTER_KILL_S)
        except subprocess.TimeoutExpired:
            return ""
        number = -code if code < 0 else code - FIRST_OF_SIGNALS if code > FIRST_OF_SIGNALS else 0
        name = _name_of_signal(number)
        return f"it printed nothing and was ended by {name}" if name else f"it printed nothing, exit code {code}"

    def _read_all(self) -> bytes | None:
        """Everything that comes until the other side closes; nothing if it does not close in time."""
        poller = select.poll()
        poller.register(self.output.fileno(), select.POLLIN)
        parts: list[bytes] = []
        size = 0
        while poller.poll(max(0.0, 1000 * (self.end - time.monotonic()))):
            part = os.read(self.output.fileno(), 1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > LARGEST_REPLY_BYTES:
                raise ValueError(f"{self.name} printed more than {LARGEST_REPLY_BYTES >> 20} MiB")
        return None


def _name_of_signal(number: int) -> str:
    """SIGSEGV for 11; "" for what is no signal."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def stop(process: Popen[bytes]) -> str:
    """End the program; says so if even SIGKILL does not: it hangs in the kernel (D state).

    One that was killed and is not in D state waits for a CPU of a busy node: it gets longer, and is not reported.
    """
    import subprocess

    process.kill()
    until = time.monotonic() + STARVED_S
    while True:
        try:
            process.wait(AFTER_KILL_S)
        except subprocess.TimeoutExpired:
            if not is_blocked(process.pid) and time.monotonic() < until:
                continue
            process.returncode = -9  # given up: without a return code Popen would warn when it is garbage-collected
            return f" and cannot be killed: process {process.pid} hangs in the driver"
        return ""


def is_blocked(pid: int, proc: str = "/proc") -> bool:
    """Whether a process is in uninterruptible sleep (D); True also where that cannot be read."""
    try:
        with open(f"{proc}/{pid}/stat") as text:
            return text.read().rpartition(")")[2].split()[0] == "D"
    except (OSError, IndexError):
        return True
