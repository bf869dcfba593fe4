"""What must a transport say, and what did the user say about reaching nodes?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from preflight.hosts import Host

# One line without quotes, "!" or newline: dash, bash and tcsh hand it over alike.
LOADER = (
    "import sys,zlib;sys.version_info<(3,9)and(print(sys.version),sys.exit(97));"
    "i=sys.stdin.buffer;exec(zlib.decompress(i.read(int(i.readline()))))"
)


@dataclass(frozen=True)
class Reach:
    """What the user said about reaching nodes."""

    python: str | None = None
    wrap: tuple[str, ...] = ()
    ssh_options: tuple[str, ...] = ()
    connect_seconds: int = 10

    def loader(self, host: Host, *, python: str = "python3") -> list[str]:
        """The words that start the loader on a host: in its own Python, the user's, or else `python`."""
        return [*self.wrap, host.python or self.python or python, "-I", "-B", "-c", LOADER]


class Found(NamedTuple):
    """A host, or a folded set of them, that NAME:REST stands for."""

    name: str
    address: str
    trouble: str = ""  # why nothing can run there now, and what to do, where that is known before it is tried


class Transport(Protocol):
    """A way to reach a Python on a node; its hosts are written NAME or NAME:REST in HOSTS, those of ssh as they are."""

    name: str
    form: str  # how people write its hosts, for help; "" where they are written without its name

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


def last_line(stderr: str, otherwise: str) -> str:
    """The last line that is not empty."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1] if lines else otherwise
