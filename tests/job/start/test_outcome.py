"""Is a failed job blamed on the rank that failed, and not on those that noticed?"""

from __future__ import annotations

import pytest

from preflight.job.start import outcome
from preflight.job.start.outcome import Outcome, RankStory
from preflight.job.start.words import PEER_IS_GONE
from preflight.launch.job import Job, Placement
from preflight.launch.launchers.torchrun import AGENT


def job(*nodes: str) -> Job:
    """One rank a node named, in that order."""
    placements = tuple(
        Placement(rank, node, nodes[:rank].count(node), nodes.count(node)) for rank, node in enumerate(nodes)
    )
    return Job("train", {"steps": 3}, placements, "10.0.0.1", (("--env", {"A": "1"}),), 60.0)


def stories(asked: Job) -> dict[int, RankStory]:
    return {placement.rank: RankStory(placement) for placement in asked.placements}


def concluded(told: dict[int, RankStory], asked: Job, **failures: str) -> Outcome:
    return outcome.conclude(asked, told, failures, 1.5)


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
    ended = concluded(told, THREE)
    assert (ended.failure, ended.guilty, ended.seconds) == ("", (), 1.5)
    assert [story.placement.rank for story in ended.stories] == [0, 1, 2]


def test_an_exit_of_zero_without_a_word_is_a_failure(told):
    """A rank that left without saying that it is done has proved nothing."""
    broken(told[2], exited="0")
    ended = concluded(told, THREE)
    assert ended.guilty == ("node3",)
    assert (
        ended.failure == "rank 2 on node3 stopped at stage running, ended with 0, and its work was not done: no output"
    )


@pytest.mark.parametrize("sign", PEER_IS_GONE)
def test_a_killed_rank_is_named_and_not_those_whose_peer_is_gone(told, sign):
    """The out-of-memory killer takes one rank; the others fail with whatever their library says of a lost peer."""
    broken(told[0], error=f"RuntimeError: [gloo] {sign} [10.0.0.2]:4711")
    broken(told[1], exited="-9", log="step 3\n")
    broken(told[2], error=f"RuntimeError: {sign}")
    ended = concluded(told, THREE)
    assert ended.guilty == ("node2",)
    assert ended.failure == "rank 1 on node2 stopped at stage running, ended with -9 (SIGKILL): step 3"


def test_ranks_that_nccl_aborted_have_waited_for_the_one_that_is_named(told):
    """Its watchdog ends them by a signal, with the reason in the log only; the rank that hangs says nothing."""
    for rank in (0, 2):
        log = f"[rank{rank}]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)\n"
        broken(told[rank], exited="-6", log=log)
    broken(told[1], exited="stopped")
    ended = concluded(told, THREE)
    assert (ended.guilty, ended.is_proven) == (("node2",), True)


NCCL_ERROR = """DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:77, {kind}, NCCL version 2.27.3
{group}
Last error:
{last}
Exception raised from create at /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77 (most recent call first):
C++ CapturedTraceback:
#4 c10d::Connection refused in a name of the stack"""


def test_a_rank_whose_peer_is_gone_is_not_guilty_whatever_nccl_calls_it(told):
    """A system error of the library, but its last words are of a peer that does not answer."""
    system = {"kind": "unhandled system error", "group": "ncclSystemError: System call (e.g. socket, malloc) failed."}
    for rank, last in (
        (0, "NET/IB: Got completion from peer 10.0.0.2<53422> with status=12 opcode=0 len=0 vendor err 129 (Recv)"),
        (2, "socketProgress: Connection closed by remote peer node2<45678>"),
    ):
        broken(told[rank], exited="1", error=NCCL_ERROR.format(**system, last=last))
    broken(told[1], exited="stopped")
    ended = concluded(told, THREE)
    assert (ended.guilty, ended.is_proven) == (("node2",), True)


def test_ranks_that_nccl_ended_for_a_peer_are_not_guilty(told):
    """They die by SIGABRT with nothing said but what the watchdog left in their logs."""
    log = "NCCL error: remote process exited or there was a network error, NCCL version 2.27.3\nterminate called\n"
    for rank in (0, 2):
        broken(told[rank], exited="-6", log=log)
    broken(told[1], exited="-9", log="step 3\n")
    assert concluded(told, THREE).guilty == ("node2",)
    broken(told[1], exited="-9", log=log)  # killed is killed, whatever it said before
    assert concluded(told, THREE).guilty == ("node2",)


def test_of_ranks_that_all_waited_the_one_that_entered_fewer_collectives_is_named(told):
    """By their flight recorders: it never came to the one that the others are in. Without them nobody is picked."""
    for rank, story in told.items():
        broken(story, exited="-6", error="Timed out waiting 50 s at stage running")
        story.files["trace"] = f'{{"pg_status": {{"0": {{"last_enqueued_collective": {16 if rank == 1 else 17}}}}}}}'
    ended = concluded(told, THREE)
    assert (ended.guilty, ended.is_proven) == (("node2",), True)
    del told[1].files["trace"]
    assert concluded(told, THREE).guilty == ("node1", "node2", "node3")


def test_of_ranks_that_all_lost_a_peer_the_one_that_most_speak_of_is_named(told):
    """A link that breaks: both neighbours tell its address; where each is told of once, all are named."""
    closed = "socketProgress: Connection closed by remote peer 10.0.0.{}<4711>"
    for rank, peer in ((0, 2), (1, 1), (2, 2)):
        broken(told[rank], exited="1", error=NCCL_ERROR.format(kind="remote", group="", last=closed.format(peer)))
        told[rank].files["nccl"] = f"n:1:1 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.{rank + 1}<0>\n"
    assert concluded(told, THREE).guilty == ("node2",)
    told[2].error = NCCL_ERROR.format(kind="remote", group="", last=closed.format(1))
    told[0].error = NCCL_ERROR.format(kind="remote", group="", last="Socket recv failed while polling for opId=0x7f")
    assert concluded(told, THREE).guilty == ("node1",)
    told[2].error = told[0].error
    assert concluded(told, THREE).guilty == ("node1", "node2", "node3")


def test_what_nccl_says_last_is_told_and_read(told):
    """The cause stands behind `Last error:`; the native stack is for nobody."""
    last = "Call to ibv_reg_mr failed with error Cannot allocate memory"
    broken(told[1], exited="1", error=NCCL_ERROR.format(kind="unhandled system error", group="", last=last))
    ended = concluded(told, THREE)
    assert ended.guilty == ("node2",)
    assert f"last error: {last}" in ended.failure
    assert "CapturedTraceback" not in ended.failure
    assert "memlock" in ended.why.cause


def test_the_rank_that_nobody_can_connect_to_is_named(told):
    """It listens on another network and says nothing; of one that alone cannot connect, the error is its own."""
    for story in told.values():
        broken(story, stage="communicator")
    told[0].error = told[2].error = "RuntimeError: connect: Network is unreachable"
    ended = concluded(told, THREE)
    assert (ended.guilty, ended.is_proven) == (("node2",), True)
    assert "no route" in ended.why.cause
    told[0].error = ""
    assert concluded(told, THREE).guilty == ("node3",)
    told[0].stage = "done"
    assert concluded(told, THREE).guilty == ("node2", "node3")  # of a pair either may be wrong


def test_the_first_node_is_named_where_no_other_reaches_it(told):
    """Its firewall keeps all others out; where it keeps out one, that one is named."""
    for story in told.values():
        broken(story, stage="rendezvous", error="The client socket has timed out while trying to connect to (10.0.0.1)")
    told[0].error = "DistStoreError: Timed out after 31 seconds waiting for clients. 1/3 clients joined."
    assert concluded(told, THREE).guilty == ("node1",)
    told[1].error = ""
    assert concluded(told, THREE).guilty == ("node3",)


def test_noise_of_torch_is_no_last_word(told):
    """Warnings and native stacks come after what matters."""
    told[0].log = "it matters\n[W1121 15:07:03.1 socket.cpp:207] [c10d] a warning\nframe #30: <unknown function>\n"
    assert told[0].last_lines == ["it matters"]


def test_a_rank_that_never_came_is_named_and_not_the_one_that_counted(told):
    """Rank 0 keeps the list of those who have joined; the one that is missing is at fault."""
    broken(told[0], stage="rendezvous", error="DistStoreError: Timed out after 31 seconds waiting for clients. 2/3")
    broken(told[1], stage="start")
    broken(told[2], stage="rendezvous")
    assert concluded(told, THREE).guilty == ("node2",)


def test_a_rank_with_an_error_of_its_own_is_named_and_not_those_whose_peer_is_gone(told):
    """An import that fails on one node leaves the others waiting."""
    broken(told[0], stage="rendezvous", error="DistStoreError: Timed out waiting for clients")
    broken(told[1], stage="import", error="ImportError: libcudnn.so.9", exited="1")
    broken(told[2], stage="rendezvous")
    ended = concluded(told, THREE)
    assert ended.guilty == ("node2",)
    assert "stopped at stage import, ended with 1: ImportError: libcudnn.so.9" in ended.failure


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
    ended = concluded(told, THREE)
    assert ended.guilty == ("node3",)
    assert "rank 2 on node3 stopped at stage import, went no further and was ended at the time limit" in ended.failure


def test_all_are_named_where_all_only_lost_a_peer(told):
    """Nobody is picked by chance."""
    for story in told.values():
        broken(story, error="Connection reset by peer")
    assert concluded(told, THREE).guilty == ("node1", "node2", "node3")


def test_a_node_that_was_lost_outweighs_what_its_ranks_said(told):
    """A connection that ended is the cause, and the ranks elsewhere are its consequence."""
    broken(told[1], stage="running", exited="")
    broken(told[0], error="some error of its own", exited="1")
    ended = concluded(told, THREE, node2="the connection ended in mid-run")
    assert ended.guilty == ("node2",)
    assert ended.failure == "node2: the connection ended in mid-run"


def test_a_node_that_was_lost_after_its_ranks_were_done_spoils_nothing(told):
    """All ranks are done: the figures are there."""
    assert concluded(told, THREE, node2="late").failure == ""


def test_many_culprits_are_told_in_one_line():
    """Four are spelled out, the others counted; a node with several is guilty once."""
    asked = job(*["node1"] * 8)
    told = stories(asked)
    for story in told.values():
        broken(story, exited="-9", log="x" * 1000)
    ended = concluded(told, asked)
    assert ended.guilty == ("node1",)
    assert ended.failure.endswith("; and 4 more ranks")
    assert len(ended.failure) < 2000


def test_records_of_a_kind_come_in_rank_order():
    """Whichever rank was faster."""
    told = stories(THREE)
    for rank in (2, 0):
        told[rank].records = [{"record": "joined", "rank": rank}, {"record": "other"}]
    ended = concluded(told, THREE)
    assert ended.records("joined") == [{"record": "joined", "rank": 0}, {"record": "joined", "rank": 2}]


def test_an_agents_log_is_told_by_rank():
    """Each rank gets its own lines and those of the agent; the exit codes that the agent names are the ranks'."""
    told = stories(job("node1", "node1", "node2"))
    log = "agent: starting\n[default0]:zero\n[default1]:one\nfailed (exitcode: -9) local_rank: 1 (pid: 7)\n"
    taken = outcome.take_exit({"name": "node1", "exit": "1", "log": log}, "node1", told, AGENT)
    assert [story.placement.rank for story in taken] == [0, 1]
    assert (told[0].exit, told[1].exit, told[2].exit) == ("stopped", "-9", "")
    assert "zero" in told[0].log
    assert "one" not in told[0].log
    assert told[1].last_lines[:2] == ["agent: starting", "one"]


def test_a_node_that_took_the_number_of_another_is_named(told):
    """Two nodes with one machine_rank: the one whose rank is not its own."""
    broken(told[1], exited="time limit")
    told[0].elsewhere = ("node2",)
    ended = concluded(told, THREE)
    assert ended.guilty == ("node2",)
    assert ended.failure == "node2 started rank 0, which is node1's"
    assert ended.is_proven


def test_a_guess_is_told_from_a_proof(told):
    """Silence of all proves nothing; a rank that kept the others waiting, or died, does."""
    for story in told.values():
        broken(story, exited="time limit")
    assert not concluded(told, THREE).is_proven
    broken(told[0], stage="communicator", error="Socket Timeout")
    broken(told[1], stage="communicator", error="Socket Timeout")
    broken(told[2], stage="import", exited="time limit")
    assert concluded(told, THREE).is_proven
    broken(told[2], exited="-9")
    assert concluded(told, THREE).is_proven


def test_where_time_ends_for_all_the_rank_that_they_waited_for_is_named(told):
    """A node whose import hangs, and a deadline that ends before its patience: nothing is proven, and it has a name."""
    for story, stage in zip(told.values(), ("rendezvous", "rendezvous", "import"), strict=True):
        broken(story, stage=stage, exited="")
    lost = dict.fromkeys(("node1", "node2", "node3"), "no answer within the time limit of the call")
    ended = concluded(told, THREE, **lost)
    assert (ended.guilty, ended.is_proven) == (("node3",), False)
    assert ended.failure == (
        "no answer within the time limit of the call; by then rank 2 on node3 had come no further than stage import, "
        "and the others waited"
    )
    assert concluded(told, THREE, **{**lost, "node2": "the connection ended"}).guilty == ("node1", "node2", "node3")
    told[2].stage = "rendezvous"
    assert concluded(told, THREE, **lost).guilty == ("node1", "node2", "node3")


def test_the_last_line_of_an_interpreter_that_could_not_start_is_no_reason(told):
    """Python then prints where it was, which is nowhere."""
    last = "ModuleNotFoundError: No module named 'x'"
    nowhere = "\nCurrent thread 0x00007fa52a297b80 (most recent call first):\n<no Python frame>\n"
    broken(told[1], stage="start", exited="1", log=f"{last}\n{nowhere}")
    assert concluded(told, THREE).failure.endswith("ended with 1: ModuleNotFoundError: No module named 'x'")
