"""Which nodes came to the meeting of a job's ranks, and do they agree on the job that they are part of?"""

from __future__ import annotations

import ipaddress
import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

POLL_SECONDS = 0.1
MOST_RANKS = 1_000_000
VERSION = re.compile(r"[\w.+-]{1,40}", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,252}", re.ASCII)


@dataclass(frozen=True)
class Node:
    """What the first rank of a node tells the others."""

    name: str
    address: str  # towards rank 0
    master: str  # what MASTER_ADDR leads to there
    nonce: str
    rank: int
    world: int
    local: int  # ranks on this node
    version: str = ""  # of preflight there


def node_of(text: bytes | str) -> Node | None:
    """A node as a rank told it; None for what no rank of ours would say."""
    try:
        reported = json.loads(text)
        given = {key: reported[key] for key in Node.__dataclass_fields__ if key != "version"}
        node = Node(**given, version=_version(reported))
        for address in (node.address, node.master):
            ipaddress.ip_address(address.partition("%")[0])
        counts = (node.rank, node.world, node.local)
        is_good = NAME.fullmatch(node.name) and isinstance(node.nonce, str) and all(type(one) is int for one in counts)
        is_good = is_good and 0 <= node.rank < node.world <= MOST_RANKS and node.local >= 1
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return node if is_good else None


def _version(reported: Mapping[str, Any]) -> str:
    """Of the preflight that said this; "" of one that does not tell."""
    found = reported.get("version")
    return found if isinstance(found, str) and VERSION.fullmatch(found) else ""


def other_version(text: bytes | str, here: Node) -> str:
    """Why what a rank said is not understood, with what to do; "" where no preflight of another version said it."""
    try:
        reported = json.loads(text)
        name, version = reported["name"], _version(reported)
        is_preflights = bool(NAME.fullmatch(name)) and "rank" in reported and version != here.version
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ""
    if not is_preflights:
        return ""
    return (
        f"preflight: {here.version} on {here.name}, {version or 'another version'} on {name}, and they do not"
        " understand each other; install the same on every node"
    )


def come(store: Any, node: Node) -> None:
    """Tell the others that this node is there."""
    store.set(f"came/{store.add('came', 1)}", json.dumps(asdict(node)))


def gathered(store: Any, first: Node, *, seconds: float) -> tuple[dict[int, Node], str]:
    """The nodes that came in time, by the first rank of each; and what they disagree in, which ends the wait.

    `first` is the node of rank 0, who asks.
    """
    came = {first.rank: first}
    seen: set[int] = set()
    until = time.monotonic() + seconds
    while absent(came, first) and time.monotonic() < until:
        for number in range(1, min(store.add("came", 0), MOST_RANKS) + 1):
            if number in seen or not store.check([f"came/{number}"]):
                continue
            seen.add(number)
            text = store.get(f"came/{number}")
            node = node_of(text)
            if trouble := disagreement(node, first, came) if node is not None else other_version(text, first):
                return came, trouble
            if node is not None:
                came[node.rank] = node
        time.sleep(POLL_SECONDS)
    return dict(sorted(came.items())), ""


def disagreement(node: Node, first: Node, came: Mapping[int, Node]) -> str:
    """Why a node cannot be one of these, with what to do; "" where it can. One that came before may come again."""
    if node.world != first.world:
        return (
            f"world size: {first.world} on {first.name}, {node.world} on {node.name}; give every rank the same"
            " WORLD_SIZE (torchrun: --nnodes and --nproc-per-node)"
        )
    other = came.get(node.rank, node)
    if other.address != node.address:
        return (
            f"rank {node.rank}: on {other.name} and on {node.name}; give each node a rank of its own (RANK, torchrun:"
            " --node-rank)"
        )
    twin = next((each for each in came.values() if each.address == node.address and each.rank != node.rank), node)
    if twin.rank == node.rank:
        return ""
    if twin.name == node.name:
        return (
            f"ranks {twin.rank} and {node.rank}: both say that they are the first of {node.name}; start one rank a"
            " node, or set LOCAL_RANK and LOCAL_WORLD_SIZE"
        )
    return (
        f"{twin.name} and {node.name}: both have the address {node.address} towards MASTER_ADDR; give each node one of"
        " its own (containers: the host's network)"
    )


def absent(came: Mapping[int, Node], first: Node) -> list[int]:
    """The first ranks of the nodes that are not there; they have as many ranks as the first node, as far as we know."""
    lacking = []
    rank = 0
    while rank < first.world:
        if rank in came:
            rank += came[rank].local
        else:
            lacking.append(rank)
            rank = min([each for each in came if each > rank] + [rank + first.local])
    return lacking
