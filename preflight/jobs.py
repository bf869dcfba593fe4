"""How is a workload started on the nodes through a launcher, and what became of it?"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from preflight.errors import HostError
from preflight.launchers import LAUNCHERS, Job, Placement
from preflight.session import Call, Session

WORKLOADS = Path(__file__).parent / "workloads"
STAGES = ("start", "import", "rendezvous", "communicator", "running", "done")
GRACE_SECONDS = 4.0  # what the other ranks get to say their part once one has failed

# How a rank's error reads when it is another rank that failed.
PEER_IS_GONE = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Socket closed",
    "Timed out waiting",
    "Socket Timeout",
    "wait timeout",
    "Connection refused",
    "remote process exited",
)

# What a launcher, a scheduler or a shell may have left behind, and no rank of ours may inherit.
INHERITED_NEVER = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "NODE_RANK",
    "MASTER_*",
    "ROLE_*",
    "TORCHELASTIC_*",
    "PET_*",
    "ACCELERATE_*",
)


@dataclass
class RankStory:
    """What one rank told before it ended."""

    placement: Placement
    stage: str = "start"
    records: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    exit: str = ""
    log: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the rank said that its work is done; an exit code alone proves nothing."""
        return self.stage == "done"


@dataclass(frozen=True)
class Outcome:
    """The end of a job: every rank's story, and why it failed, if it did."""

    stories: tuple[RankStory, ...]
    failure: str
    guilty: tuple[str, ...]
    seconds: float

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Every record of one kind, in rank order."""
        return [record for story in self.stories for record in story.records if record.get("record") == kind]


async def run_job(sessions: dict[str, Session], job: Job, *, launcher: str) -> Outcome:
    """Start the job on its nodes, follow every rank to its end, and say whose fault a failure is."""
    started = time.monotonic()
    stories = {placement.rank: RankStory(placement) for placement in job.placements}
    calls: dict[str, Call] = {}
    failures: dict[str, str] = {}
    script = (WORKLOADS / f"{job.workload}.py").read_bytes()
    try:
        port = await _free_port(sessions[job.nodes[0]], job.master_address)
        for node in job.nodes:
            placements = [placement for placement in job.placements if placement.node == node]
            arguments = {
                "processes": LAUNCHERS[launcher](job, placements, port),
                "environment": [list(layer) for layer in job.environment],
                "drop": list(INHERITED_NEVER),
                "seconds": job.seconds,
                # torch and launchers keep files of their own; here the keeper finds and removes them
                "scratch": True,
            }
            calls[node] = await sessions[node].start("ranks", arguments, seconds=job.seconds + 5.0, blob=script)
    except HostError as error:
        failures[error.host] = error.reason
    trouble = asyncio.Event()
    if failures:
        trouble.set()
    followers = [asyncio.create_task(_follow(node, call, stories, failures, trouble)) for node, call in calls.items()]
    watcher = asyncio.create_task(_stop_after_trouble(trouble, calls))
    await asyncio.gather(*followers)
    watcher.cancel()
    return _conclude(job, stories, failures, time.monotonic() - started)


async def _free_port(session: Session, address: str) -> int:
    call = await session.start("free_port", {"address": address}, seconds=5.0)
    async for _ in call.events():
        continue
    return int(call.result["port"])


async def _follow(
    node: str, call: Call, stories: dict[int, RankStory], failures: dict[str, str], trouble: asyncio.Event
) -> None:
    try:
        async for event in call.events():
            if "record" in event:
                _note_record(event["record"], node, stories, trouble)
            elif "exit" in event:
                _note_exit(event, node, stories, trouble)
    except HostError as error:
        failures[node] = error.reason
        trouble.set()


def _note_record(record: dict[str, Any], node: str, stories: dict[int, RankStory], trouble: asyncio.Event) -> None:
    story = stories.get(record.get("rank", -1))
    if story is None or story.placement.node != node:
        return  # a node speaks for its own ranks only
    kind = record.get("record")
    if kind == "stage" and record.get("stage") in STAGES:
        story.stage = record["stage"]
    elif kind == "done":
        story.stage = "done"
    elif kind == "failed":
        story.error = str(record.get("error", "failed without a word"))
        trouble.set()
    else:
        story.records.append(record)


def _note_exit(event: dict[str, Any], node: str, stories: dict[int, RankStory], trouble: asyncio.Event) -> None:
    for story in stories.values():
        if story.placement.node == node and event["name"] in {f"rank{story.placement.rank}", node}:
            story.exit = str(event["exit"])
            story.log = str(event["log"])
            if not story.is_done:
                trouble.set()


async def _stop_after_trouble(trouble: asyncio.Event, calls: dict[str, Call]) -> None:
    await trouble.wait()
    await asyncio.sleep(GRACE_SECONDS)
    for call in calls.values():
        await call.send({"stop": True})


def _conclude(job: Job, stories: dict[int, RankStory], failures: dict[str, str], seconds: float) -> Outcome:
    ranks = tuple(stories[placement.rank] for placement in job.placements)
    unfinished = [story for story in ranks if not story.is_done]
    if not unfinished:
        return Outcome(ranks, "", (), seconds)
    if failures:
        reason = "; ".join(f"{node}: {why}" for node, why in sorted(failures.items()))
        return Outcome(ranks, reason, tuple(failures), seconds)
    culprits = _first_to_fail(unfinished)
    words = [_last_words(story) for story in culprits[:4]]
    if len(culprits) > len(words):
        words.append(f"and {len(culprits) - len(words)} more ranks")
    guilty = tuple(dict.fromkeys(story.placement.node for story in culprits))
    return Outcome(ranks, "; ".join(words), guilty, seconds)


def _first_to_fail(unfinished: list[RankStory]) -> list[RankStory]:
    """Those that died without a word; else those with a reason of their own; else those that came least far."""
    killed = [story for story in unfinished if story.exit not in {"", "stopped", "time limit"} and not story.error]
    own = [story for story in unfinished if story.error and not any(sign in story.error for sign in PEER_IS_GONE)]
    if killed or own:
        return killed or own
    least = min(STAGES.index(story.stage) for story in unfinished)
    behind = [story for story in unfinished if STAGES.index(story.stage) == least]
    silent = [story for story in behind if not story.error]
    return silent or behind


def _last_words(story: RankStory) -> str:
    where = f"rank {story.placement.rank} on {story.placement.node}"
    lines = [line.strip() for line in story.log.splitlines() if line.strip()]
    said = story.error or (lines[-1] if lines else "it said nothing")
    how = f", ended with {story.exit}" if story.exit not in {"", "0"} else ""
    return f"{where} stopped at stage {story.stage}{how}: {said[:300]}"
