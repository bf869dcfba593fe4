"""Is it told who failed, who waits for whom, and which address leads nowhere?"""

from __future__ import annotations

from preflight.job.measure.rehearsal.meeting import failed_alone, judged
from preflight.job.start.rehearsal.story import Meets, Process, Socket
from tests.job.measure.rehearsal.stories import cast, node, rank, story, torchrun


def test_ranks_that_are_done_are_good():
    """Nothing is said of them."""
    assert list(judged(story(), cast())) == []


def test_the_rank_is_named_that_failed_first():
    """The other one only lost a peer."""
    lost = rank(0, "node1", stage="communicator", error="RuntimeError: Connection closed by peer [10.0.0.2]:1")
    broken = rank(1, "node2", stage="import", error="ModuleNotFoundError: No module named 'torch'")
    told = story(node("node1", lost), node("node2", broken))
    (cause,) = judged(told, cast())
    assert cause.nodes == ("node2",)
    assert "No module named 'torch'" in cause.message
    assert failed_alone(told)


def test_a_place_to_which_no_way_leads_is_named():
    """What the kernel of that node says."""
    first, second = rank(0, "node1", stage="rendezvous"), rank(1, "node2", stage="rendezvous")
    first.meets = Meets("node1:29500", ("10.0.0.1",), True, "")
    second.meets = Meets("node1:29500", ("10.0.0.1",), False, "there is no way to 10.0.0.1 (node1): unreachable")
    (cause,) = judged(story(node("node1", first), node("node2", second)), cast())
    assert (cause.nodes, cause.where) == (("node2",), (("run.sh", 4),))
    assert cause.message == "on node2 there is no way to 10.0.0.1 (node1): unreachable (run.sh:4)"


def test_an_address_of_another_machine_is_named():
    """Rank 0 cannot be met where it is not."""
    ranks = [rank(number, f"node{number + 1}", stage="rendezvous") for number in range(2)]
    for each in ranks:
        each.meets = Meets("10.0.0.9:29500", ("10.0.0.9",), False, "")
    (cause,) = judged(story(*(node(each.node, each) for each in ranks)), cast())
    assert cause.nodes == ("node1",)
    assert "is no address of that node" in cause.message


def test_launchers_that_wait_for_a_node_are_told():
    """No rank has come; what calls and has no answer is named first."""
    waits = node("node1", code=None, words=torchrun(0))
    (cause,) = judged(story(waits, node("node2", code=None, lines=((2, 0),)), why="still"), cast())
    assert cause.nodes == ("node2",)
    assert cause.message.startswith("the launcher on node1 waits, for node2")
    waits.processes = (Process(5, 1, "S", "python torchrun", (Socket("10.0.0.9:29500", "connecting"),)),)
    (cause,) = judged(story(waits, node("node2", code=None), why="still"), cast())
    assert "`python torchrun` on node1 calls 10.0.0.9:29500, and nobody answers" in cause.message


def test_ranks_in_a_network_of_their_own_are_named():
    """As long as that keeps the job from its end."""
    first, second = rank(0, "node1", stage="rendezvous", own_network=True), rank(1, "node2", stage="rendezvous")
    for each in (first, second):
        each.meets = Meets("node1:29500", ("10.0.0.1",), False, "")
    (cause,) = judged(story(node("node1", first), node("node2", second)), cast())
    assert cause.nodes == ("node1",)
    assert cause.message == (
        "the ranks on node1 are in a network of their own, as a container without the host's network has, where nobody "
        "reaches node1:29500 (run.sh:4)"
    )
    first.stage = second.stage = "done"
    assert list(judged(story(node("node1", first), node("node2", second)), cast())) == []


def test_launchers_that_another_node_starts_are_told_too():
    """The script of node1 has started that of node2, and not its own."""
    waits = node("node2", code=None, words=torchrun(1))
    (cause,) = judged(story(node("node1", code=None), waits, why="still"), cast(scripts=("node1",)))
    assert cause.nodes == ("node1",)
    assert cause.message.startswith("the launcher on node2 waits, for node1")
