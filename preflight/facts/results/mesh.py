"""What did the connections of the mesh show? The section `mesh` of report.json."""

from __future__ import annotations

from typing import Literal

from preflight.facts.results.measured import Measured

Reason = Literal[
    "refused", "filtered", "reset", "no_echo", "wrong_peer", "unreachable", "looped", "local", "not_attested"
]


class Edge(Measured, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """One ordered pair that failed: `source` connected (or tried) to a random port of `target`."""

    source: str
    target: str
    port: int
    reason: Reason
    detail: str = ""


class Filter(Measured, frozen=True, kw_only=True):
    """A rule of a node's packet filter: whose it is, the chain that holds it, its words, and what it drops.

    ``packet`` is the "request" of a connection, its "answer", or "data" that comes later.
    """

    tool: str
    place: str
    rule: str
    packet: str = "request"


class Way(Measured, frozen=True, kw_only=True):
    """How packets to a peer that was not reached leave a node, as its kernel says."""

    to: str
    interface: str = ""
    gateway: str = ""
    hardware: str = ""  # of the next hop; "" where the kernel has none
    state: Literal["", "known", "permanent", "unanswered", "no route"] = ""


class Rendezvous(Measured, frozen=True, kw_only=True):
    """Connections of every other node to the very port where rank 0 will listen, with data and an answer."""

    node: str  # where rank 0 listens
    address: str
    port: int
    tried: int
    failed: tuple[Edge, ...] = ()
    filters: dict[str, tuple[Filter, ...]] = {}  # by node, where a connection failed and the rules could be read
    unmeasured: dict[str, str] = {}


class Mesh(Measured, frozen=True, kw_only=True):
    """Connections on random ports over the training interface; an edge is ok when both ends hold the nonce."""

    edges: int
    ok: int
    failed: tuple[Edge, ...]
    blamed: tuple[tuple[str, ...], ...] = ()  # node sets, from preflight.judge.blame
    unmeasured: dict[str, str] = {}  # nodes that took no part, with the reason
    seconds: float = 0.0
    node_names: tuple[str, ...] = ()  # the nodes it was started on
    filters: dict[str, tuple[Filter, ...]] = {}  # by node, where a connection failed and the rules could be read
    ways: dict[str, tuple[Way, ...]] = {}  # by node, to the first peers that it did not reach
    rendezvous: Rendezvous | None = None  # where the job's MASTER_PORT is known
