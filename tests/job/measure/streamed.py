"""What do tests/data/said/measured.txt list of streams: who sends to whom for how long, and what a node may tell?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec

from preflight.job.measure import streams
from preflight.reach.session import replies
from preflight.said.errors import HostError
from tests import found
from tests.clock import Clock
from tests.job.collect.nodes import Call, Node, shown
from tests.job.figures import figures

GIGABYTE = 10**9
TOLD: dict[str, Any] = {
    "received_bytes": 5 * GIGABYTE,
    "seconds": 0.5,
    "gbytes_per_s": 10.0,
    "sent_bytes": 5 * GIGABYTE,
    "sent_seconds": 0.5,
    "sent_again": 0.25,
}
FAILED = {"error": "nobody came", "gbytes_per_s": 0.0, "received_bytes": 0, "send_error": "it is refused"}


class Streaming(Call):
    """A call that tells of each round what its node tells."""

    async def send(self, message: dict[str, Any]) -> None:
        """A round, which is answered, or the end."""
        await super().send(message)
        if "round" in message:
            order = message["round"]
            asked = {"shift": order["shift"], "from": order["receive_from"]}
            told = {**TOLD, **self.node.told_of_rounds}  # type: ignore[attr-defined]
            self.script.append({name: value for name, value in {**asked, **told}.items() if value is not None})


class Streamer(Node):
    """A node that streams."""

    def __init__(self, name: str, told: dict[str, Any]) -> None:
        super().__init__(name)
        self.told_of_rounds = told

    async def start(self, name: str, arguments: dict[str, Any], *, seconds: float, blob: bytes = b"") -> Call:
        """It listens."""
        self.note(f"{name} within {seconds:g} s: {shown({**arguments, 'key': len(arguments['key'])})} {len(blob)}")
        return Streaming(self, [[arguments["address"], 5000]])


def of_streams() -> Iterator[str]:
    """Searches over nodes of which one tells something else: what each is asked, and how long it is said to take."""
    others: dict[str, dict[str, Any]] = {
        "healthy": {},
        "slow": {"received_bytes": GIGABYTE, "gbytes_per_s": 2.0},
        "sends slowly": {"sent_bytes": GIGABYTE},
        "failing": FAILED,
    }
    for (title, told), count, is_full in itertools.product(others.items(), (2, 3, 6), (False, True)):
        yield f"=== {count} nodes, one is {title}{', full mesh' if is_full else ''}"
        yield from searched(count, told, is_full=is_full)
    yield f"{[round(streams.full_mesh_seconds(nodes), 3) for nodes in (1, 2, 3, 4, 5, 8, 9, 16, 17, 64)]}"


def searched(count: int, told: dict[str, Any], *, is_full: bool) -> Iterator[str]:
    """One search: what was said and found, and what the first and the odd node were told."""
    nodes = {f"n{i}": Streamer(f"n{i}", told if i == 2 else {}) for i in range(1, count + 1)}
    addresses = {name: f"10.0.0.{number}" for number, name in enumerate(nodes, 1)}
    heard: list[str] = []
    work = streams.search(nodes, addresses, threshold=0.8, is_full=is_full, say=heard.append)  # type: ignore[arg-type]
    try:
        best, slow = Clock().run(work)
        yield f"{figures(slow)} {' '.join(figures(one) for one in best[:3])} of {len(best)}"
    except HostError as error:
        yield f"{error.host}: {' '.join(found.values(error.reason))}"
    yield " | ".join(" ".join(found.values(line)) for line in heard)
    yield from (f"{name}: {' | '.join(nodes[name].told[:4])} of {len(nodes[name].told)}" for name in ("n1", "n2"))


def of_replies() -> Iterator[str]:
    """Figures at the bounds of what can be: which one is wrong, in a round of each kind."""
    changes: tuple[dict[str, Any], ...] = (
        *({"seconds": seconds, "gbytes_per_s": 5 / seconds} for seconds in (2.0, 2.1)),
        *({"sent_seconds": seconds} for seconds in (2.0, 2.1)),
        *({"gbytes_per_s": rate} for rate in (10.09, 10.11, 9.91, 9.89)),
        *({"received_bytes": rate * GIGABYTE // 2, "gbytes_per_s": float(rate)} for rate in (1000, 1001)),
        *({"sent_bytes": rate * GIGABYTE // 2} for rate in (1000, 1001)),
        {"received_bytes": 0, "gbytes_per_s": 0.0, "seconds": 0.0},
        {"received_bytes": 0, "gbytes_per_s": 2e-6},
        {"sent_bytes": None},
        {"sent_seconds": 0.0, "sent_bytes": 0},
        {},
    )
    ends = (("a", "b"), ("a", None), (None, "b"), (None, None))
    for change in changes:
        told = {name: value for name, value in {"shift": 1, **TOLD, **change}.items() if value is not None}
        reply = replies.read("n", streams.RoundReply, told, "round")
        wrong = [reply.wrong(*each, longest_seconds=2.0) for each in ends]
        why = [" ".join(found.values(words)) or bool(words) for words in wrong]
        yield f"{change}: {figures(reply.sends_gbytes_per_s)} {why}"
    bounds: tuple[dict[str, Any], ...] = (
        *({"seconds": -1}, {"seconds": 3601}, {"gbytes_per_s": 2e9}, {"sent_again": 1.1}),
        *({"shift": None}, {"from": 3}),
    )
    for bound in bounds:
        try:
            yield f"{bound}: {figures(replies.read('n', streams.RoundReply, {'shift': 1, **bound}, 'round'))}"
        except HostError as error:
            yield f"{bound}: {' '.join(found.values(error.reason))}"
    yield f"{msgspec.structs.asdict(streams.RoundReply(shift=0))}"
