"""How are the raw TCP streams of a round run: every node sends to one peer and receives from another at once?"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from preflight.facts.results import Slow, Stream
from preflight.job.measure import slow
from preflight.judge.blame import attested
from preflight.reach.session import replies
from preflight.reach.session.connection import Call, Session
from preflight.said import said
from preflight.said.errors import BadReply

ROUNDS_SECONDS = 3.5  # of all rounds of a search together, each within these
SHORTEST_SECONDS, LONGEST_SECONDS = 0.5, 1.0
OVERHEAD_SECONDS = 0.25  # of a round, for its orders and its connections
SLACK_SECONDS = 20.0
GIVEN_UP_AFTER = 3  # partners: a round with a stream that never begins takes its whole patience
MOST_ROUND_SECONDS = 8.0  # where the nodes are so busy that connections take their whole time
FASTEST_GBYTES_PER_S = 1000.0  # of one TCP stream: some hundred times what one core can copy


Side = tuple[str, str]  # "sends" or "receives", and the node
WORKS = ""  # is no node's name


def _sides(source: str, target: str) -> tuple[Side, Side]:
    return ("sends", source), ("receives", target)


class RoundReply(replies.Message, frozen=True, rename={"source": "from"}):
    """What a node reports of one round: what it received, and what of the bytes it sent was acknowledged."""

    shift: int
    source: replies.Word | None = None
    received_bytes: replies.Bytes = 0
    seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0
    gbytes_per_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    sent_bytes: replies.Bytes | None = None
    sent_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0
    sent_again: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    error: replies.Line = ""
    send_error: replies.Line = ""

    @property
    def sends_gbytes_per_s(self) -> float:
        """What the receiver acknowledged, in GB/s."""
        return (self.sent_bytes or 0) / max(self.sent_seconds, 1e-9) / 1e9

    def wrong(self, source: str | None, target: str | None, *, longest_seconds: float) -> str:
        """Which of the figures that it had to report is impossible; "" where none is."""
        rate = self.received_bytes / max(self.seconds, 1e-9) / 1e9
        if source is not None and (
            self.seconds > longest_seconds or abs(rate - self.gbytes_per_s) > 0.01 * rate + 1e-6
        ):
            return said(
                "{gbytes_per_s:g} GB/s is not {received_bytes} bytes in the round's time",
                self.gbytes_per_s,
                self.received_bytes,
            )
        if source is not None and rate > FASTEST_GBYTES_PER_S:
            return said("{rate:g} GB/s from {source}: no network is that fast", rate, source)
        if target is not None and (self.sent_bytes is None or self.sent_seconds > longest_seconds):
            return said("it does not say what it sent to {target} in the round's time", target)
        if target is not None and self.sends_gbytes_per_s > FASTEST_GBYTES_PER_S:
            return said(
                "{sends_gbytes_per_s:g} GB/s to {target}: no network is that fast", self.sends_gbytes_per_s, target
            )
        return ""


async def search(
    sessions: dict[str, Session],
    addresses: dict[str, str],
    *,
    threshold: float,
    is_full: bool = False,
    say: Callable[[str], None] = lambda _text: None,
) -> tuple[tuple[Stream, ...], tuple[Slow, ...]]:
    """The best stream of each pair that was measured, and the slow places. Raises HostError when a node fails."""
    names = tuple(addresses)
    planned = len(slow.full_mesh_rounds(names) if is_full else slow.shift_rounds(names))
    seconds = round_seconds(planned)
    total = planned * (seconds + OVERHEAD_SECONDS)
    done = 0
    # Busy nodes doubt more streams, and are slower to connect: the calls last for all that may be asked again.
    most = planned * (1 + slow.MOST_CONFIRMATIONS) * (seconds + MOST_ROUND_SECONDS)
    streams = Streams(sessions, addresses, seconds=most + SLACK_SECONDS)
    rounds = slow.search(names, threshold=threshold, is_full=is_full)
    try:
        await streams.open()
        pairs = next(rounds)
        while True:
            left = max(0.0, total - done * (seconds + OVERHEAD_SECONDS))
            say(
                said(
                    "streams between {names} nodes, round {done} of {planned}, {left:.0f} s left",
                    len(names),
                    done + 1,
                    planned,
                    left,
                )
            )
            pairs = rounds.send(await streams.round(pairs, seconds=seconds))
            done += 1
    except StopIteration as end:
        found: tuple[tuple[Stream, ...], tuple[Slow, ...]] = end.value
        return found
    finally:
        await streams.close()


def round_seconds(rounds: int) -> float:
    """How long each of so many rounds lasts."""
    return max(SHORTEST_SECONDS, min(LONGEST_SECONDS, ROUNDS_SECONDS / rounds)) if rounds else LONGEST_SECONDS


def full_mesh_seconds(nodes: int) -> float:
    """About how long a full mesh takes."""
    rounds = len(slow.full_mesh_rounds([str(number) for number in range(nodes)]))
    return rounds * (round_seconds(rounds) + OVERHEAD_SECONDS)


class Streams:
    """A call on every node that listens, sends and counts, round by round."""

    def __init__(self, sessions: dict[str, Session], addresses: dict[str, str], *, seconds: float) -> None:
        self.sessions = sessions
        self.addresses = addresses
        self.seconds = seconds
        self.calls: dict[str, Call] = {}
        self.where: dict[str, tuple[str, int]] = {}
        self.places = {node: place for place, node in enumerate(addresses)}
        self.rounds = 0
        self.failed: dict[Side, set[str]] = defaultdict(set)  # the partners with whom no stream came about

    async def open(self) -> None:
        """Make every node listen."""
        key = secrets.token_hex(32)
        await asyncio.gather(*(self._listen(node, key) for node in self.addresses))

    async def close(self) -> None:
        """Tell every node that no further stream comes, and end its call."""
        for call in self.calls.values():
            await call.send({"finish": True})
            await call.cancel()

    async def round(self, pairs: slow.Round, *, seconds: float) -> tuple[Stream, ...]:
        """The stream of each pair, all at once, timed at both ends.

        A node that has failed with several partners on one side, and with all it had there, is left out on that side.
        """
        self.rounds += 1
        pairs = tuple(pair for pair in pairs if not any(self._is_given_up(side) for side in _sides(*pair)))
        sends = dict(pairs)
        receives = {target: source for source, target in pairs}
        busy = [node for node in self.addresses if node in sends or node in receives]
        parts = await asyncio.gather(*(self._part(node, sends, receives, seconds) for node in busy))
        reported = dict(zip(busy, parts, strict=True))
        streams = tuple(self._stream(source, target, reported) for source, target in pairs)
        for stream in streams:
            self._note(stream)
        return streams

    def _note(self, stream: Stream) -> None:
        """Keep with whom a node failed on either side; one stream that came about clears it for good."""
        for side, partner in zip(_sides(stream.source, stream.target), (stream.target, stream.source), strict=True):
            if not stream.failure:
                self.failed[side] = {WORKS}
            elif WORKS not in self.failed[side]:
                self.failed[side].add(partner)

    def _is_given_up(self, side: Side) -> bool:
        return len(self.failed[side]) >= GIVEN_UP_AFTER

    def _stream(self, source: str, target: str, reported: Mapping[str, RoundReply]) -> Stream:
        shift = (self.places[target] - self.places[source]) % len(self.places)
        sender, receiver = reported[source], reported[target]
        failure = ""
        if receiver.error:  # a sender that never connects must not make its receiver the one that failed
            words = sender.send_error or said("it sent {sends_gbytes_per_s:.4g} GB/s", sender.sends_gbytes_per_s)
            failure = said("{target} says: {error}; {source} says: {words}", target, receiver.error, source, words)
        sent = sender.sends_gbytes_per_s
        stream = attested(source, target, shift, sent=sent, received=receiver.gbytes_per_s, failure=failure)
        return msgspec.structs.replace(stream, sent_again=sender.sent_again)

    async def _listen(self, node: str, key: str) -> None:
        arguments = {"name": node, "address": self.addresses[node], "key": key, "total_seconds": self.seconds}
        self.calls[node] = await self.sessions[node].start("stream", arguments, seconds=self.seconds + 2.0)
        address = self.addresses[node]
        self.where[node] = replies.listening(node, await self.calls[node].first("listening", Any), asked=address)

    async def _part(self, node: str, sends: dict[str, str], receives: dict[str, str], seconds: float) -> RoundReply:
        """What one node sent and received in one round."""
        target, source = sends.get(node), receives.get(node)
        order: dict[str, Any] = {"shift": self.rounds, "send_to": None, "receive_from": source, "seconds": seconds}
        if target is not None:
            address, port = self.where[target]
            order["send_to"] = {"name": target, "address": address, "port": port}
        await self.calls[node].send({"round": order})
        reply: RoundReply = await self.calls[node].first("round", RoundReply)
        if reply.shift != self.rounds or reply.source != source:
            raise BadReply(
                node, said("it reports round {shift} from {source!r}, not what it was asked", reply.shift, reply.source)
            )
        wrong = reply.wrong(source, target, longest_seconds=2 * seconds + SLACK_SECONDS)
        if wrong:
            raise BadReply(node, wrong)
        return reply
