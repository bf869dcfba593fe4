"""How is a workload started on the nodes through a launcher, and what became of it?"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from preflight.job.start.outcome import ENDED_BY_US, Outcome, RankStory, conclude, take_exit
from preflight.job.start.patience import STAGES, Patience
from preflight.job.start.records import checked_event
from preflight.job.start.script import script_of
from preflight.launch.job import Job, as_typed
from preflight.launch.traits import AgentOutput
from preflight.reach.session import replies
from preflight.reach.session.connection import Call, Session
from preflight.said import said
from preflight.said.errors import HostError, NotMeasured, StoodStill

GRACE_SECONDS = 4.0  # for the other ranks to report once one has failed
LOOK_SECONDS = 0.5
FILE_BYTES = 64 << 10  # of each file that NCCL and torch wrote for a rank that failed
FILES_BYTES = 128 << 20  # of all of them

# Variables that a launcher, a scheduler or a shell may have set, and no rank of ours may inherit.
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
    "OMPI_*",
    "PMIX_*",
    "PMI_*",
    "RAY_ADDRESS",
)


@dataclass
class Watch:
    """What is known of a running job: its ranks' stories, the nodes that were lost, and whether something is wrong."""

    job: Job
    stories: dict[int, RankStory]
    failures: dict[str, str] = field(default_factory=dict)
    stood_still: str = ""  # why a node gave the job up, where this machine was at fault
    trouble: asyncio.Event = field(default_factory=asyncio.Event)
    hear: Callable[[dict[str, Any]], None] = lambda _record: None
    blames: AgentOutput | None = None  # how the launcher's agents name a rank that failed
    ready: asyncio.Event = field(default_factory=asyncio.Event)  # every rank has imported torch
    patience: Patience = field(default_factory=Patience)

    def lose(self, node: str, error: HostError) -> None:
        """A node is gone, and with it all its ranks."""
        self.failures[node] = error.reason
        if isinstance(error, StoodStill):
            self.stood_still = error.reason
        self.trouble.set()

    def take(self, event: dict[str, Any], node: str) -> None:
        """Write an event of a node into the stories."""
        if "record" in event:
            failed = self._note(event["record"], node)
            # An agent that may start its ranks again has the last word on them.
            if failed and not self.job.restarts:
                self.trouble.set()
        elif "exit" in event and str(event["name"]).startswith(f"{node}: "):
            self._lose_server(event, node)
        elif "exit" in event and not all(story.is_done for story in take_exit(event, node, self.stories, self.blames)):
            self.trouble.set()
        elif "file" in event:
            story = self.stories.get(event["rank"])
            if story is not None and story.placement.node == node:
                story.files[event["file"]] = event["text"]

    def _lose_server(self, event: dict[str, Any], node: str) -> None:
        """A server of the job on a node (Ray) has ended, which it should not: the ranks there can no longer start."""
        if event["exit"] in ENDED_BY_US:
            return
        last = next((line for line in reversed(str(event["log"]).splitlines()) if line.strip()), "no output")
        for story in self.stories.values():
            if story.placement.node == node and not story.is_done:
                story.error = story.error or said(
                    "{event} ended with {event2}: {strip}", event["name"], event["exit"], last.strip()[:300]
                )
        self.trouble.set()

    def look(self) -> None:
        """Note ranks that keep the others waiting for too long: they are to blame."""
        late = self.patience.late({rank: story.stage for rank, story in self.stories.items()}, time.monotonic())
        for rank in late:
            self.stories[rank].kept_waiting = True
        if late:
            self.trouble.set()

    def _note(self, record: dict[str, Any], node: str) -> bool:
        """Write a rank's record into its story -> whether it reports a failure."""
        story = self.stories.get(record.get("rank", -1))
        if story is None:
            return False
        # A node reports its own ranks only; where agents number them, a rank belongs to the node that reports it
        # first, and to another one only after a restart.
        if self.job.numbers_freely and (self.job.restarts or not story.is_placed):
            story.placement = replace(story.placement, node=node)
        if story.placement.node != node:
            story.elsewhere = tuple(dict.fromkeys((*story.elsewhere, node)))
            return False
        story.is_placed = True
        kind = record.get("record")
        if kind == "progress":
            self.hear(record)
        elif kind == "stage" and record.get("stage") in STAGES:
            story.stage = record["stage"]
            if all(STAGES.index(one.stage) >= STAGES.index("rendezvous") for one in self.stories.values()):
                self.ready.set()
        elif kind == "done":
            story.stage, story.error = "done", ""
        elif kind == "failed":
            story.error = str(record.get("error", "failed without a message"))
            return True
        else:
            story.records.append(record)
        return False


async def run_job(
    sessions: dict[str, Session],
    job: Job,
    *,
    launcher: str,
    hear: Callable[[dict[str, Any]], None] = lambda _record: None,
) -> Outcome:
    """Start the job on its nodes, follow every rank to its end, and say whose fault a failure is.

    `hear` gets each progress record as it comes; they are not kept.
    """
    started = time.monotonic()
    stories = {placement.rank: RankStory(placement) for placement in job.placements}
    from preflight.launch.launchers import LAUNCHERS, start_job  # imported here: not every run starts a job

    blames = LAUNCHERS[launcher].blames
    watch = Watch(job, stories, hear=hear, blames=blames, patience=Patience(has_agents=blames is not None))
    calls: dict[str, Call] = {}
    commands: dict[str, str] = {}
    waiting: set[str] = set()  # nodes whose processes serve the job, or are started from another node
    script = script_of(job.workload)
    try:
        port = await _free_port(sessions[job.nodes[0]], job.master_address)
        for node, processes in start_job(launcher, job, port).items():
            commands[node] = as_typed(processes)
            if all(process.get("serves") or not process["argv"] for process in processes):
                waiting.add(node)
            arguments = {
                "processes": processes,
                "environment": [["launch files", dict(job.start_of(node).environment)], *map(list, job.environment)],
                "drop": list(INHERITED_NEVER),
                "seconds": job.seconds,
                # torch and launchers keep files of their own; here the node agent finds and removes them
                "scratch": True,
                "keep_bytes": min(FILE_BYTES, FILES_BYTES // len(job.placements)),
            }
            calls[node] = await sessions[node].start("ranks", arguments, seconds=job.seconds + 5.0, blob=script)
    except HostError as error:
        watch.lose(error.host, error)
    await _follow_all(calls, watch, waiting=waiting)
    if watch.stood_still:  # then missing ranks say nothing about any node
        raise NotMeasured(watch.stood_still)
    return replace(conclude(job, watch.stories, watch.failures, time.monotonic() - started), commands=commands)


async def _follow_all(calls: dict[str, Call], watch: Watch, *, waiting: set[str]) -> None:
    """Follow every node to its end; those that wait for other nodes' processes are told to stop once these ended."""
    followers = {node: asyncio.create_task(_follow(node, call, watch)) for node, call in calls.items()}
    watchers = [
        asyncio.create_task(work)
        for work in (_stop_after_trouble(watch.trouble, calls), _let_go_once_ready(watch.ready, calls), _look(watch))
    ]
    await asyncio.gather(*(follower for node, follower in followers.items() if node not in waiting))
    for node in waiting & calls.keys():
        with contextlib.suppress(HostError):
            await calls[node].send({"stop": True})
    await asyncio.gather(*followers.values())
    for watcher in watchers:
        watcher.cancel()


class FreePort(replies.Message, frozen=True):
    """A port that a node reports free."""

    port: replies.Port


async def _free_port(session: Session, address: str) -> int:
    call = await session.start("free_port", {"address": address}, seconds=5.0)
    free: FreePort = await call.end(FreePort)
    return free.port


async def _follow(node: str, call: Call, watch: Watch) -> None:
    try:
        async for event in call.events():
            watch.take(checked_event(event, node, watch.job), node)
    except HostError as error:
        watch.lose(node, error)


async def _stop_after_trouble(trouble: asyncio.Event, calls: dict[str, Call]) -> None:
    await trouble.wait()
    await asyncio.sleep(GRACE_SECONDS)
    for call in calls.values():
        await call.send({"stop": True})


async def _let_go_once_ready(ready: asyncio.Event, calls: dict[str, Call]) -> None:
    """Let the ranks meet once all have imported torch: slow imports must not use up c10d's time-outs."""
    await ready.wait()
    for call in calls.values():
        await call.send({"go": True})


async def _look(watch: Watch) -> None:
    while not watch.trouble.is_set():
        await asyncio.sleep(LOOK_SECONDS)
        watch.look()
