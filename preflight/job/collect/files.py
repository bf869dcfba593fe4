"""How do all nodes check their folders, and the paths that they must share or that must be the same on all?"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

from preflight.facts.decode import Answer
from preflight.facts.value import Missing
from preflight.job.options.options import Options
from preflight.reach.session import replies
from preflight.reach.session.connection import Call, Session
from preflight.said.errors import HostError

SECONDS = 100.0
PLACES_SECONDS = 20.0  # where no path is shared or compared: each folder is given up after 3 s
# A node that is silent in one round of a shared path must not use up the others' next round.
LOOK_SHARE = 0.5  # of the time: by then each has looked at its folders,
WRITE_SHARE = 0.1  # a writer has so much,
READ_SHARE = 0.9  # by then each has looked for the token, and the rest is for those who wrote to take it away
ORDERED_SHARE = 0.8  # of the time for a round: a node is told so much, and has the rest for its answer
DIGEST_SHARE = 0.8  # of the time for looking
DIGEST_SECONDS = 60.0  # at most for one path that must be the same on all nodes
WRITERS = 3  # how many nodes are asked to write into a path before it counts as closed to all


async def collect(sessions: dict[str, Session], options: Options, *, seconds: float = SECONDS) -> dict[str, Answer]:
    """The subject files of every node: its facts, or why they are missing; all within `seconds`."""
    needs_rounds = bool(options.paths_to_share)
    seconds = min(seconds, SECONDS if needs_rounds or options.same else PLACES_SECONDS)
    looking = seconds * (LOOK_SHARE if needs_rounds else 1.0)
    begun = time.monotonic()
    arguments = {
        "digest_seconds": min(DIGEST_SECONDS, looking * DIGEST_SHARE / max(1, len(options.same))),
        "shared": list(options.paths_to_share),
        "checkpoint": options.checkpoint_dir,
        "same": list(options.same),
        "named": list(options.named),
        "run": options.run_id,
        "environment": [list(layer) for layer in options.layers],
    }
    calls: dict[str, Call] = {}
    failed: dict[str, str] = {}

    async def start(name: str) -> None:
        try:
            calls[name] = await sessions[name].start("files", {**arguments, "name": name}, seconds=seconds)
            if needs_rounds:
                calls[name].deadline = begun + looking
                await calls[name].first("looked", bool)
        except HostError as error:
            failed[name] = error.reason

    await asyncio.gather(*(start(name) for name in sessions))
    answers: dict[str, Answer] = {}
    if needs_rounds:
        calls = {name: calls[name] for name in sessions if name in calls}  # the first of HOSTS is the first to write
        order = await _write(calls, failed, options.paths_to_share, seconds * WRITE_SHARE)
        answers = await _read(calls, failed, order, begun + seconds * READ_SHARE)
    waiting = [name for name in sessions if name not in answers]
    answers.update(await asyncio.gather(*(_end(name, calls, failed, begun + seconds) for name in waiting)))
    return {name: answers[name] for name in sessions}


async def _write(
    calls: dict[str, Call], failed: dict[str, str], paths: tuple[str, ...], seconds: float
) -> dict[str, dict[str, str]]:
    """One node writes a token into each path, the next one where it cannot; what each path then holds, from whom."""
    found: dict[str, dict[str, str]] = {}
    for name in [name for name in calls if name not in failed][:WRITERS]:
        # Tokens of this round only: one that an earlier node wrote and reported too late disturbs nobody.
        wanted = {path: secrets.token_hex(16) for path in paths if "token" not in found.get(path, {})}
        if wanted:
            try:
                calls[name].deadline = time.monotonic() + seconds
                await calls[name].send({"write": wanted, "seconds": seconds * ORDERED_SHARE})
                troubles = await calls[name].first("written", dict[replies.Line, replies.Line])
            except HostError as error:
                failed[name] = error.reason
                continue
            for path, token in wanted.items():
                refused = path in troubles
                found[path] = (
                    {"refused": troubles[path], "asked": name} if refused else {"token": token, "writer": name}
                )
    return found


async def _read(
    calls: dict[str, Call], failed: dict[str, str], order: dict[str, dict[str, str]], until: float
) -> dict[str, Answer]:
    """Make all nodes look for the tokens -> the facts of those that wrote none, which are done then."""
    writers = {held["writer"] for held in order.values() if "writer" in held}
    answers: dict[str, Answer] = {}

    async def read(name: str) -> None:
        try:
            calls[name].deadline = until
            await calls[name].send({"read": order, "seconds": (until - time.monotonic()) * ORDERED_SHARE})
            await calls[name].first("read", bool)
        except HostError as error:
            failed[name] = error.reason
        if name not in writers:
            _, answers[name] = await _end(name, calls, failed, until)

    await asyncio.gather(*(read(name) for name in calls if name not in failed))
    return answers


async def _end(name: str, calls: dict[str, Call], failed: dict[str, str], until: float) -> tuple[str, Answer]:
    """Make a node remove its token, and take its facts."""
    try:
        if name not in failed:
            calls[name].deadline = until
            await calls[name].send({"finish": True})
            return name, ({"files": await calls[name].end(dict[str, Any])}, {})
    except HostError as error:
        failed[name] = error.reason
    return name, ({}, {"files": Missing(failed[name])})
