"""How is a rehearsal run: the scripts started on their nodes, followed to their end, and all of it ended?"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from preflight.job.start.rehearsal.over import why_over
from preflight.job.start.rehearsal.story import NodeStory, Story
from preflight.job.start.script import RANKS, script_of
from preflight.launch.cast import Cast
from preflight.reach.session import replies
from preflight.reach.session.connection import Call, Session
from preflight.said import said
from preflight.said.errors import HostError

LOOK_SECONDS = 0.2
FINISH_SECONDS = 8.0  # for what the nodes say at the end
OUT_OF_TIME = "time"
STEPS = 3


class FreePort(replies.Message, frozen=True):
    """A port that a node reports free."""

    port: replies.Port


async def rehearse(
    sessions: Mapping[str, Session],
    cast: Cast,
    *,
    layers: tuple[tuple[str, dict[str, str]], ...],
    backend: str,
    address: str,
    is_login: Mapping[str, bool],
    drop: Mapping[str, tuple[str, ...]],
    job: str = "",
    seconds: float,
    say: Callable[[str], None] = lambda _text: None,
) -> Story:
    """Start every script of the cast, and follow all nodes until it is over; whatever was started has ended then.

    `address` is where ranks meet that a scheduler numbers and nobody tells that; `job` one of Slurm whose batch shell
    waits for the script.
    """
    began = time.monotonic()
    story = Story({name: NodeStory(name, moved=began) for name in cast.nodes}, began)
    calls: dict[str, Call] = {}
    port = 0
    for name in cast.nodes:
        try:
            port = port or await _free_port(sessions[name], address)
            arguments = {
                "login": is_login[name],
                "environment": [list(layer) for layer in layers],
                "drop": list(drop[name]),
                "hook": (RANKS / "rehearsal" / "hook.py").read_text(encoding="utf-8"),
                "settings": settings_of(cast.programs, backend, address=address, port=port, seconds=seconds),
                "seconds": seconds + FINISH_SECONDS,
                "scratch": True,
            }
            blob = script_of("rehearsal.rank")
            calls[name] = await sessions[name].start("rehearse", arguments, seconds=seconds + 15.0, blob=blob)
        except HostError as error:
            story.nodes[name].failure = error.reason
    followers = [asyncio.create_task(_follow(call, story.nodes[name])) for name, call in calls.items()]
    try:
        # Every node has the hook before the first script begins: its ranks may come to any of them.
        await _ready(story, calls)
        for name, script in cast.scripts.items():
            if name in calls:
                start = {"path": script.path, "text": script.text, "words": list(script.words)}
                start |= {"shell": list(script.shell), "folders": [str(Path.cwd()), str(Path(script.path).parent), "~"]}
                start |= {"job": job}
                await calls[name].send({"start": start})
        await _until_over(story, cast, seconds=seconds, say=say)
        for call in calls.values():
            with contextlib.suppress(HostError):
                await call.send({"stop": True})
        await asyncio.wait(followers, timeout=FINISH_SECONDS)
    finally:
        for follower in followers:
            follower.cancel()
    story.seconds = time.monotonic() - story.began
    return story


async def _ready(story: Story, calls: Mapping[str, Call]) -> None:
    end = time.monotonic() + FINISH_SECONDS
    while any(not story.nodes[name].is_ready and not story.nodes[name].failure for name in calls):
        if time.monotonic() > end:
            return
        await asyncio.sleep(0.02)


async def _until_over(story: Story, cast: Cast, *, seconds: float, say: Callable[[str], None]) -> None:
    end = time.monotonic() + seconds
    last = ""
    while not story.why_over:
        await asyncio.sleep(LOOK_SECONDS)
        now = time.monotonic()
        story.why_over = why_over(story, cast, now) or (OUT_OF_TIME if now > end else "")
        text = progress(story)
        if text != last:
            say(text)
            last = text


def progress(story: Story) -> str:
    """How far it has come, in a few words."""
    ranks = story.ranks
    wanted = max((rank.world_size for rank in ranks), default=0)
    done = sum(rank.stage == "done" for rank in ranks)
    return said("{ranks} of {wanted} ranks came, {done} are done", len(ranks), wanted or "?", done)


def settings_of(programs: Sequence[str], backend: str, *, address: str, port: int, seconds: float) -> dict[str, Any]:
    """What the hook reads, and hands on to the trainee."""
    training = {"steps": STEPS, "join_seconds": seconds, "wait_seconds": min(45.0, seconds)}
    fallback = {"address": address, "port": str(port)}
    trainee = {"training": training, "backend": backend, "fallback": fallback, "scratch": "{scratch}"}
    trainee["network"] = "{network}"
    return {"programs": list(programs), "trainee": trainee}


async def _free_port(session: Session, address: str) -> int:
    call = await session.start("free_port", {"address": address}, seconds=5.0)
    free: FreePort = await call.end(FreePort)
    return free.port


async def _follow(call: Call, node: NodeStory) -> None:
    try:
        async for event in call.events():
            node.take(event)
    except HostError as error:
        node.failure = error.reason
