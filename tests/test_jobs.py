"""Is a failed job blamed on the rank that failed, and not on those that noticed?"""

from __future__ import annotations

import asyncio

import pytest

from preflight import jobs
from preflight.errors import HostError
from preflight.jobs import INHERITED_NEVER, PEER_IS_GONE, Outcome, RankStory
from preflight.launchers import Job, Placement


def job(*nodes: str) -> Job:
    """One rank a node named, in that order."""
    placements = tuple(
        Placement(rank, node, nodes[:rank].count(node), nodes.count(node)) for rank, node in enumerate(nodes)
    )
    return Job("train", {"steps": 3}, placements, "10.0.0.1", (("--env", {"A": "1"}),), 60.0)


def stories(asked: Job) -> dict[int, RankStory]:
    return {placement.rank: RankStory(placement) for placement in asked.placements}


def concluded(told: dict[int, RankStory], asked: Job, **failures: str) -> Outcome:
    return jobs._conclude(asked, told, failures, 1.5)


THREE = job("node1", "node2", "node3")


@pytest.fixture
def told():
    """Three ranks that all said that they are done."""
    made = stories(THREE)
    for story in made.values():
        story.stage, story.exit = "done", "0"
    return made


def broken(
    story: RankStory, *, stage: str = "running", error: str = "", exited: str = "stopped", log: str = ""
) -> None:
    story.stage, story.error, story.exit, story.log = stage, error, exited, log


def test_a_job_whose_ranks_are_all_done_has_no_failure(told):
    """The word of the ranks counts, whatever their exit codes: teardown may abort after all work is done."""
    told[1].exit = "-6"
    outcome = concluded(told, THREE)
    assert (outcome.failure, outcome.guilty, outcome.seconds) == ("", (), 1.5)
    assert [story.placement.rank for story in outcome.stories] == [0, 1, 2]


def test_an_exit_of_zero_without_a_word_is_a_failure(told):
    """A rank that left without saying that it is done has proved nothing."""
    broken(told[2], exited="0")
    outcome = concluded(told, THREE)
    assert outcome.guilty == ("node3",)
    assert outcome.failure == "rank 2 on node3 stopped at stage running: it said nothing"


@pytest.mark.parametrize("sign", PEER_IS_GONE)
def test_a_killed_rank_is_named_and_not_those_whose_peer_is_gone(told, sign):
    """The out-of-memory killer takes one rank; the others fail with whatever their library says of a lost peer."""
    broken(told[0], error=f"RuntimeError: [gloo] {sign} [10.0.0.2]:4711")
    broken(told[1], exited="-9", log="step 3\n")
    broken(told[2], error=f"RuntimeError: {sign}")
    outcome = concluded(told, THREE)
    assert outcome.guilty == ("node2",)
    assert outcome.failure == "rank 1 on node2 stopped at stage running, ended with -9: step 3"


def test_a_rank_with_an_error_of_its_own_is_named_and_not_those_whose_peer_is_gone(told):
    """An import that fails on one node leaves the others waiting."""
    broken(told[0], stage="rendezvous", error="DistStoreError: Timed out waiting for clients")
    broken(told[1], stage="import", error="ImportError: libcudnn.so.9", exited="1")
    broken(told[2], stage="rendezvous")
    outcome = concluded(told, THREE)
    assert outcome.guilty == ("node2",)
    assert "stopped at stage import, ended with 1: ImportError: libcudnn.so.9" in outcome.failure


def test_a_silent_rank_is_named_and_not_those_that_waited_for_it(told):
    """Of ranks that came equally far, the one that gave no reason is where the job hung."""
    broken(told[0], stage="communicator", error="Timed out waiting 30000ms for recv operation")
    broken(told[1], stage="communicator", exited="time limit", log="connecting\n")
    broken(told[2], stage="communicator", error="Socket Timeout")
    assert concluded(told, THREE).guilty == ("node2",)


def test_the_rank_that_came_least_far_is_named(told):
    """One that still imports is what those in the rendezvous wait for."""
    broken(told[0], stage="rendezvous", exited="time limit")
    broken(told[1], stage="rendezvous", exited="time limit")
    broken(told[2], stage="import", exited="time limit")
    outcome = concluded(told, THREE)
    assert outcome.guilty == ("node3",)
    assert "rank 2 on node3 stopped at stage import, ended with time limit" in outcome.failure


def test_all_are_named_where_all_only_lost_a_peer(told):
    """Nobody is picked by chance."""
    for story in told.values():
        broken(story, error="Connection reset by peer")
    assert concluded(told, THREE).guilty == ("node1", "node2", "node3")


def test_a_node_that_was_lost_outweighs_what_its_ranks_said(told):
    """A connection that ended is the cause, and the ranks elsewhere are its consequence."""
    broken(told[1], stage="running", exited="")
    broken(told[0], error="some error of its own", exited="1")
    outcome = concluded(told, THREE, node2="the connection ended in mid-run")
    assert outcome.guilty == ("node2",)
    assert outcome.failure == "node2: the connection ended in mid-run"


def test_a_node_that_was_lost_after_its_ranks_were_done_spoils_nothing(told):
    """All ranks are done: the figures are there."""
    assert concluded(told, THREE, node2="late").failure == ""


def test_many_culprits_are_told_in_one_line():
    """Four are spelled out, the others counted; a node with several is guilty once."""
    asked = job(*["node1"] * 8)
    told = stories(asked)
    for story in told.values():
        broken(story, exited="-9", log="x" * 1000)
    outcome = concluded(told, asked)
    assert outcome.guilty == ("node1",)
    assert outcome.failure.endswith("; and 4 more ranks")
    assert len(outcome.failure) < 2000


def noted(record: dict, node: str) -> tuple[dict[int, RankStory], bool]:
    told, trouble = stories(THREE), asyncio.Event()
    jobs._note_record(record, node, told, trouble)
    return told, trouble.is_set()


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
    assert told[1].error == "failed without a word"
    told, _ = noted({"record": "result", "rank": 1, "op": "all_reduce"}, "node2")
    assert told[1].records == [{"record": "result", "rank": 1, "op": "all_reduce"}]


@pytest.mark.parametrize(("name", "node"), [("rank1", "node1"), ("rank9", "node2"), ("node1", "node2")])
def test_the_end_of_a_process_is_taken_from_its_own_node(name, node):
    """node1 cannot tell the end of rank 1, which runs on node2."""
    told, trouble = stories(THREE), asyncio.Event()
    jobs._note_exit({"name": name, "exit": "-9", "log": "x"}, node, told, trouble)
    assert not trouble.is_set()
    assert not any(story.exit for story in told.values())


def test_an_end_before_the_work_is_done_is_trouble():
    """The others are given a few seconds, not the whole time limit."""
    told, trouble = stories(THREE), asyncio.Event()
    told[0].stage = "done"
    jobs._note_exit({"name": "rank0", "exit": "0", "log": ""}, "node1", told, trouble)
    assert not trouble.is_set()
    jobs._note_exit({"name": "rank1", "exit": "-11", "log": "boom"}, "node2", told, trouble)
    assert trouble.is_set()
    assert (told[1].exit, told[1].log) == ("-11", "boom")


def test_records_of_a_kind_come_in_rank_order():
    """Whichever rank was faster."""
    told = stories(THREE)
    for rank in (2, 0):
        told[rank].records = [{"record": "joined", "rank": rank}, {"record": "other"}]
    outcome = concluded(told, THREE)
    assert outcome.records("joined") == [{"record": "joined", "rank": 0}, {"record": "joined", "rank": 2}]


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
    outcome = asyncio.run(jobs.run_job({"node1": Broken()}, job("node1"), launcher="direct"))
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


def test_ranks_that_wait_for_a_failed_one_are_stopped(monkeypatch):
    """After a grace in which they may say their part, not at the end of the time limit."""
    monkeypatch.setattr(jobs, "GRACE_SECONDS", 0.05)
    failing = FakeCall([{"record": {"record": "failed", "rank": 0, "error": "ValueError: no"}}])
    waiting = FakeCall([{"record": {"record": "stage", "stage": "running", "rank": 1}}])
    sessions = {"node1": FakeSession(failing), "node2": FakeSession(waiting)}
    outcome = asyncio.run(asyncio.wait_for(jobs.run_job(sessions, job("node1", "node2"), launcher="direct"), 5))
    assert outcome.guilty == ("node1",)
    assert outcome.failure == "rank 0 on node1 stopped at stage start: ValueError: no"
    assert waiting.messages == [{"stop": True}]
