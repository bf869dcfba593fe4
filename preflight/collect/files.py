"""How do all nodes look at their folders, and at the paths that they must share or that must be the same on all?"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from preflight.errors import HostError
from preflight.facts.decode import Answer
from preflight.facts.value import Missing
from preflight.options.options import Options
from preflight.session import said
from preflight.session.connection import Call, Session

SECONDS = 100.0
WRITERS = 3  # how many nodes are asked to write into a path before it counts as closed to all


async def collect(sessions: dict[str, Session], options: Options) -> dict[str, Answer]:
    """The subject files of every node: its facts, or why they are missing."""
    arguments = {
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
            calls[name] = await sessions[name].start("files", {**arguments, "name": name}, seconds=SECONDS)
            if options.paths_to_share:
                await calls[name].first("looked", bool)
        except HostError as error:
            failed[name] = error.reason

    await asyncio.gather(*(start(name) for name in sessions))
    if options.paths_to_share:
        await _share(calls, failed, options.paths_to_share)
    return dict(await asyncio.gather(*(_end(name, calls, failed) for name in sessions)))


async def _share(calls: dict[str, Call], failed: dict[str, str], paths: tuple[str, ...]) -> None:
    """One node writes a token into each path, then all look for it; the next one tries where one cannot write."""
    tokens = {path: secrets.token_hex(16) for path in paths}
    written: dict[str, str] = {}
    refused: dict[str, dict[str, str]] = {}  # path -> why the last node that was asked could not write there
    for name in [name for name in calls if name not in failed][:WRITERS]:
        wanted = {path: token for path, token in tokens.items() if path not in written}
        if wanted:
            try:
                await calls[name].send({"write": wanted})
                troubles = await calls[name].first("written", dict[said.Line, said.Line])
            except HostError as error:
                failed[name] = error.reason
                continue
            written.update(dict.fromkeys(wanted.keys() - troubles.keys(), name))
            refused.update({path: {"refused": why, "asked": name} for path, why in troubles.items() if path in wanted})
    order = {path: {"token": tokens[path], "writer": writer} for path, writer in written.items()}
    order.update({path: why for path, why in refused.items() if path not in written})

    async def read(name: str) -> None:
        try:
            await calls[name].send({"read": order})
            await calls[name].first("read", bool)
        except HostError as error:
            failed[name] = error.reason

    await asyncio.gather(*(read(name) for name in calls if name not in failed))


async def _end(name: str, calls: dict[str, Call], failed: dict[str, str]) -> tuple[str, Answer]:
    """Let a node take its token away, and take its facts."""
    try:
        if name not in failed:
            await calls[name].send({"finish": True})
            return name, ({"files": await calls[name].end(dict[str, Any])}, {})
    except HostError as error:
        failed[name] = error.reason
    return name, ({}, {"files": Missing(failed[name])})
