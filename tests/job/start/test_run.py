"""Is a job followed to its end on every node, each speaking for its own ranks only?"""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from preflight.job.start import run
from preflight.job.start.outcome import RankStory, conclude
from preflight.job.start.run import INHERITED_NEVER, Watch
from preflight.judge.ledger.findings import Where
from preflight.launch.job import Job, Placement, Start, Starting
from preflight.reach.session import replies
from preflight.said.errors import HostError, NotMeasured, StoodStill


def job(*nodes: str, restarts: int = 0) -> Job:
    """One rank a node named, in that order."""
    placements = tuple(
        Placement(rank, node, nodes[:rank].count(node), nodes.count(node)) for rank, node in enumerate(nodes)
    )
    return Job("train", {"steps": 3}, placements, "10.0.0.1", (("--env", {"A": "1"}),), 60.0, restarts)


THREE = job("node1", "node2", "node3")


def watch(asked: Job = THREE) -> Watch:
    return Watch(asked, {placement.rank: RankStory(placement) for placement in asked.placements})


def noted(record: dict, node: str, asked: Job = THREE) -> tuple[dict[int, RankStory], bool]:
    """The stories after one record of a node, and whether something is wrong now."""
    made = watch(asked)
    made.take({"record": record}, node)
    return made.stories, made.trouble.is_set()


def test_a_node_speaks_for_its_own_ranks_only():
    """A hostile or confused node cannot end or spoil the rank of another."""
    for record in ({"record": "failed", "rank": 0, "error": "x"}, {"record": "done", "rank": 0}, {"rank": 0, "n": 1}):
        told, trouble = noted(record, "node2")
        assert not trouble
        assert (told[0].stage, told[0].error, told[0].records) == ("start", "", [])


@pytest.mark.parametrize("rank", [3, -1, "0", None, 1.5])
def test_a_rank_that_nobody_started_is_not_heard(rank):
    """Neither is a record without a rank."""
    told, trouble = noted({"record": "failed", "rank": rank, "error": "x"}, "node1")
    assert not trouble
    assert not any(story.error for story in told.values())


def test_records_tell_stage_end_failure_and_figures():
    """A failure is trouble at once; a stage that does not exist is kept as a figure and moves nothing."""
    assert noted({"record": "stage", "stage": "running", "rank": 1}, "node2")[0][1].stage == "running"
    assert noted({"record": "stage", "stage": "sleeping", "rank": 1}, "node2")[0][1].stage == "start"
    assert noted({"record": "done", "rank": 1}, "node2")[0][1].is_done
    told, trouble = noted({"record": "failed", "rank": 1}, "node2")
    assert trouble
    assert told[1].error == "failed without a message"
    told, _ = noted({"record": "result", "rank": 1, "op": "all_reduce"}, "node2")
    assert told[1].records == [{"record": "result", "rank": 1, "op": "all_reduce"}]


@pytest.mark.parametrize(("name", "node"), [("rank1", "node1"), ("rank9", "node2"), ("node1", "node2")])
def test_the_end_of_a_process_is_taken_from_its_own_node(name, node):
    """node1 cannot tell the end of rank 1, which runs on node2."""
    made = watch()
    made.take({"name": name, "exit": "-9", "log": "x"}, node)
    assert not made.trouble.is_set()
    assert not any(story.exit for story in made.stories.values())


def test_an_end_before_the_work_is_done_is_trouble():
    """The others are given a few seconds, not the whole time limit."""
    made = watch()
    made.stories[0].stage = "done"
    made.take({"name": "rank0", "exit": "0", "log": ""}, "node1")
    assert not made.trouble.is_set()
    made.take({"name": "rank1", "exit": "-11", "log": "boom"}, "node2")
    assert made.trouble.is_set()
    assert (made.stories[1].exit, made.stories[1].log) == ("-11", "boom")


def test_a_rank_that_its_agent_may_start_again_is_no_trouble_yet():
    """The agent has the last word."""
    record = {"record": "failed", "rank": 1, "error": "planted"}
    assert noted(record, "node2", job("node1", "node2", restarts=1))[1] is False
    assert noted(record, "node2", job("node1", "node2"))[1] is True


def test_progress_is_passed_on_and_not_kept():
    """A record a step for an hour would fill the memory."""
    heard: list[dict] = []
    made = watch()
    made.hear = heard.append
    made.take({"record": {"record": "progress", "rank": 0, "step": 7}}, "node1")
    assert heard == [{"record": "progress", "rank": 0, "step": 7}]
    assert made.stories[0].records == []


def test_what_a_launcher_left_behind_is_not_inherited():
    """DESIGN's list: a rank of ours takes its place from nobody else."""
    assert {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_*", "TORCHELASTIC_*", "PET_*"} <= set(INHERITED_NEVER)


class Broken:
    """A session to a node that has just been lost."""

    async def start(self, *_words, **_options):
        """Nothing can be started any more."""
        raise HostError("node1", "the connection ended in mid-run")


def test_a_job_that_cannot_start_names_the_node():
    """Losing the first node before anything runs is a failed job, not an exception."""
    outcome = asyncio.run(run.run_job({"node1": Broken()}, job("node1"), launcher="direct"))
    assert (outcome.failure, outcome.guilty) == ("node1: the connection ended in mid-run", ("node1",))


class FakeCall:
    """A call whose events are given; it hangs afterwards until it is told to stop."""

    def __init__(self, events: list[dict]) -> None:
        self._events = events
        self._stop = asyncio.Event()
        self.result = {"port": 29511}
        self.messages: list[dict] = []

    async def events(self):
        """The events, then silence."""
        for event in self._events:
            yield event
        if self._events:
            await self._stop.wait()

    async def end(self, kind):
        """The result."""
        return replies.read("node1", kind, self.result, "result")

    async def send(self, message: dict) -> None:
        """Note what was sent; a stop ends the silence."""
        self.messages.append(message)
        self._stop.set()


class FakeSession:
    """A session that gives one call after another."""

    def __init__(self, *calls: FakeCall) -> None:
        self.calls = list(calls)

    async def start(self, name: str, _arguments: dict, **_options) -> FakeCall:
        """The port first, where this node is asked for it."""
        return FakeCall([]) if name == "free_port" else self.calls.pop(0)


def test_a_job_that_ends_because_we_stood_still_blames_no_node():
    """The nodes gave us up: there is no figure, and nobody whose fault that is."""

    class Session:
        async def start(self, *_, **__):
            raise StoodStill("node2", "the machine that preflight runs on stood still for 12 s")

    sessions = dict.fromkeys(THREE.nodes, Session())
    with pytest.raises(NotMeasured, match="the machine that preflight runs on stood still"):
        asyncio.run(run.run_job(sessions, THREE, launcher="direct"))


def test_ranks_that_wait_for_a_failed_one_are_stopped(monkeypatch):
    """After a grace in which they may say their part, not at the end of the time limit."""
    monkeypatch.setattr(run, "GRACE_SECONDS", 0.05)
    failing = FakeCall([{"record": {"record": "failed", "rank": 0, "error": "ValueError: no"}}])
    waiting = FakeCall([{"record": {"record": "stage", "stage": "running", "rank": 1}}])
    sessions = {"node1": FakeSession(failing), "node2": FakeSession(waiting)}
    outcome = asyncio.run(asyncio.wait_for(run.run_job(sessions, job("node1", "node2"), launcher="direct"), 5))
    assert outcome.guilty == ("node1",)
    assert outcome.failure == "rank 0 on node1 stopped at stage start: ValueError: no"
    assert waiting.messages == [{"stop": True}]


def test_where_agents_number_the_ranks_the_first_node_to_speak_has_it():
    """A second node that says the same number has started it twice."""
    start = Start("torchrun", Where("f.sh", 1), rendezvous="c10d")
    made = watch(dataclasses.replace(THREE, starting=Starting((start,))))
    made.take({"record": {"record": "stage", "stage": "running", "rank": 0}}, "node3")
    made.take({"record": {"record": "stage", "stage": "checking", "rank": 0}}, "node1")
    assert (made.stories[0].placement.node, made.stories[0].stage) == ("node3", "running")
    assert made.stories[0].elsewhere == ("node1",)


def test_nodes_whose_ranks_another_starts_are_let_go_at_its_end():
    """mpirun runs on the first node; the others hold their ranks' records until it is told that it has ended."""
    log = {"exit": "1", "name": "all ranks", "log": "mpirun: no"}
    first, second = EndingCall([log]), FakeCall([{"record": {"record": "stage", "stage": "start", "rank": 1}}])
    sessions = {"node1": FakeSession(first), "node2": FakeSession(second)}
    outcome = asyncio.run(asyncio.wait_for(run.run_job(sessions, job("node1", "node2"), launcher="mpirun"), 5))
    assert second.messages == [{"stop": True}]
    assert outcome.failure.startswith("rank 0 on node1 stopped at stage start, ended with 1: mpirun: no")


class EndingCall(FakeCall):
    """A call that ends after its events."""

    async def events(self):
        """The events, and no silence."""
        for event in self._events:
            yield event


def test_ranks_are_let_go_once_all_have_imported_torch():
    """Whoever is last; one that has not spoken yet holds the others."""
    made = watch()
    for rank in (0, 1):
        made.take({"record": {"record": "stage", "stage": "rendezvous", "rank": rank}}, f"node{rank + 1}")
    assert not made.ready.is_set()
    made.take({"record": {"record": "stage", "stage": "rendezvous", "rank": 2}}, "node3")
    assert made.ready.is_set()


def test_a_rank_that_stays_behind_is_trouble_and_to_blame():
    """The others wait for it; nobody has failed yet."""
    made = watch()
    for rank in (0, 1):
        made.take({"record": {"record": "stage", "stage": "rendezvous", "rank": rank}}, f"node{rank + 1}")
    made.take({"record": {"record": "stage", "stage": "import", "rank": 2}}, "node3")
    made.look()
    assert not made.trouble.is_set()
    made.patience.since = {rank: (stage, at - 100.0) for rank, (stage, at) in made.patience.since.items()}
    made.look()
    assert made.trouble.is_set()
    for story in made.stories.values():
        story.exit = "stopped"
    ended = conclude(made.job, made.stories, {}, 80.0)
    assert (ended.guilty, ended.is_proven) == (("node3",), True)


def test_what_nccl_wrote_is_kept_with_its_rank():
    """Of a node's own ranks only."""
    made = watch()
    made.take({"file": "nccl", "rank": 1, "text": "NCCL INFO"}, "node2")
    made.take({"file": "nccl", "rank": 0, "text": "forged"}, "node2")
    assert [story.files for story in made.stories.values()] == [{}, {"nccl": "NCCL INFO"}, {}]


def test_a_server_of_the_job_that_ends_is_trouble_of_its_node():
    """Ray has no end of its own; when the job ends it is stopped, and that is none."""
    made = watch()
    made.take({"exit": "stopped", "name": "node2: ray", "log": ""}, "node2")
    assert not made.trouble.is_set()
    made.take({"exit": "1", "name": "node2: ray", "log": "x\nOSError: AF_UNIX path length\n"}, "node2")
    assert made.trouble.is_set()
    assert made.stories[1].error == "node2: ray ended with 1: OSError: AF_UNIX path length"
    assert made.stories[0].error == ""
