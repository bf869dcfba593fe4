"""What must a transport provide, and what did the user say about reaching nodes?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from preflight.reach.host import Host

# A loader waits for its program no longer: where the link is cut as it begins, sshd holds its input open for hours.
UNREAD_SECONDS = 30
# One line without quotes, "!" or newline: dash, bash and tcsh pass it on unchanged. What it runs stops the alarm.
LOADER = (
    "import sys,zlib;sys.version_info<(3,9)and(print(sys.version),sys.exit(97));"
    f"import _signal;_signal.alarm({UNREAD_SECONDS});"
    "i=sys.stdin.buffer;exec(zlib.decompress(i.read(int(i.readline()))))"
)


# Isolated, without site (software.own_site says why), and nothing is written to the node's disk.
FLAGS = ("-I", "-S", "-B", "-c")
# For tasks that are given their program in their environment, which no other user of a node can read.
TASK_PROGRAM = "PREFLIGHT_TASK"
TASK_LOADER = (
    "import os,sys,zlib;sys.version_info<(3,9)and(print(sys.version),sys.exit(97));"
    f"exec(zlib.decompress(bytes.fromhex(os.environ.pop('{TASK_PROGRAM}'))))"
)


@dataclass(frozen=True)
class Reach:
    """What the user said about reaching nodes."""

    python: str | None = None
    wrap: tuple[str, ...] = ()
    ssh_options: tuple[str, ...] = ()
    connect_seconds: int = 10

    def loader(self, host: Host, *, python: str = "python3", program: str = LOADER) -> list[str]:
        """The words that start the loader on a host: in its own Python, the user's, or else `python`."""
        return [*self.wrap, host.python or self.python or python, *FLAGS, program]


class Found(NamedTuple):
    """A host, or a folded set of them, that NAME:REST stands for."""

    name: str
    address: str
    trouble: str = ""  # why nothing can run there now, and what to do, where that is known before it is tried
    is_remembered: bool = False  # written by an earlier run: nobody was asked whether it is still the same machine
    engine: Mapping[str, Any] = {}  # what whoever knows the hosts says of its GPUs, as the subject `engine` has it


class Transport(Protocol):
    """A way to reach a Python on a node; its hosts are written NAME or NAME:REST in HOSTS, those of ssh as they are."""

    name: str
    form: str  # how people write its hosts, for help; "" where they are written without its name
    starting_seconds: float  # what may pass until a Python runs there, beyond what a login takes

    def named(self, rest: str) -> tuple[Found, ...]:
        """Every host that NAME:REST stands for; `rest` is "" for NAME alone.

        A folded name, node[1-3], stands for all of them. Raises ValueError, which says what is wrong with `rest`, and
        OSError where whoever knows the hosts could not be asked.
        """

    def argv(self, host: Host, reach: Reach) -> list[str]:
        """The command, here, whose standard input and output are those of the loader in the host's Python."""

    def explain(self, node: str, code: int, stderr: str) -> str:
        """Why the node was not reached, and what to do; "" where it was, and its Python ended with this code."""

    def is_worth_a_retry(self, stderr: str) -> bool:
        """Whether a node that was not reached may be reached a moment later."""

    def log_in_hint(self, node: str) -> str:
        """What to try by hand when a node is not reached."""


@dataclass(frozen=True)
class Gathering:
    """One command that starts TASK_LOADER on many hosts, whose tasks then connect to us.

    Its environment goes to every task, and its standard error begins each task's lines with the task's number.
    """

    argv: tuple[str, ...]
    controller: tuple[str, ...]  # variables of a task of which one holds our address as the task can reach it
    address: str  # the variable that holds the host's address, as `Host.address`
    number: str  # the variable that holds the task's number
    ask_ports: tuple[str, ...] = ()  # prints, here, at which of our ports tasks may connect; any where nobody is asked:
    ports_printed: str = ""  # a regular expression, whose two groups are the first of them and the last
    listen_at: str = ""  # our address at which tasks connect; "" for any

    def ports(self, text: str) -> range:
        """Those ports, read from what `ask_ports` printed; port 0 alone for any."""
        found = re.search(self.ports_printed, text) if self.ask_ports else None
        first, last = (int(found[1]), int(found[2])) if found else (0, 0)
        return range(first, min(last, 65535) + 1)


@runtime_checkable
class Gatherer(Transport, Protocol):
    """A transport that starts the loader on many hosts by one command, where the hosts and `reach` allow it."""

    def gathering(self, hosts: Sequence[Host], reach: Reach) -> Gathering | None:
        """How these hosts, two or more, come by one command; None where each needs its own."""


def last_line(stderr: str, otherwise: str) -> str:
    """The last line that is not empty."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1] if lines else otherwise
