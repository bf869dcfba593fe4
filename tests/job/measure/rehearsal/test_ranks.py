"""Are ranks named that did not come, came twice, or came alone?"""

from __future__ import annotations

import pytest

from preflight.job.measure.rehearsal.ranks import judged
from tests.job.measure.rehearsal.stories import cast, node, rank, story


def message(*nodes, text=None):
    """The only cause, and its nodes."""
    (cause,) = judged(story(*nodes), cast(text) if text else cast())
    return cause.message, cause.nodes


def test_ranks_that_came_once_are_good():
    """Nothing is said of them."""
    assert list(judged(story(), cast())) == []


def test_a_rank_that_came_twice_is_named_with_both_nodes():
    """The rank file of another node."""
    text, nodes = message(node("node1", rank(0, "node1")), node("node2", rank(0, "node2")))
    assert text == "rank 0 of 2 came on node1, node2 (run.sh:4)"
    assert nodes == ("node1", "node2")


def test_a_node_without_ranks_is_named_with_what_its_script_does():
    """It stands at a line, and the others wait for it."""
    waits = node("node1", rank(0, "node1", stage="rendezvous"), code=None)
    text, nodes = message(waits, node("node2", code=None, lines=((2, 0),)))
    assert nodes == ("node2",)
    assert "1 of 2 ranks came, rank 1 did not: none from node2; its script is at run.sh:2 (`cd /srv`)" in text
    assert text.endswith("rank 0 on node1 waits for them")


def test_ranks_of_the_batch_shell_are_told():
    """They have the job's variables and none of a step."""
    alone = rank(0, "node1", stage="rendezvous", variables={"SLURM_JOB_ID": "7"})
    text, _ = message(node("node1", alone), node("node2", code=None))
    assert "it is the batch shell that starts them" in text


def test_worlds_of_one_are_named():
    """Each node would train by itself."""
    nodes = [node(name, rank(0, name, world=1)) for name in ("node1", "node2")]
    assert "2 ranks on node[1-2], each in a world of one" in message(*nodes)[0]


def test_a_world_of_one_on_the_only_node_is_what_was_asked_for():
    """Nobody else is to come."""
    only = cast("torchrun --nnodes=1 --nproc_per_node=1 train.py\n", nodes=("node1",))
    assert list(judged(story(node("node1", rank(0, "node1", world=1))), only)) == []


def test_a_process_that_nothing_numbers_is_named():
    """By accelerate, or because nobody exported RANK."""
    lost = [node(name, rank(0, name, names=())) for name in ("node1", "node2")]
    assert "train.py on node[1-2] would train alone: no RANK reaches it" in message(*lost)[0]
    held = {"ACCELERATE_MIXED_PRECISION": "no"}
    alone = [node(name, rank(0, name, names=(), variables=held)) for name in ("node1", "node2")]
    assert "accelerate started it as one process" in message(*alone)[0]


@pytest.mark.parametrize(("code", "lines"), [(None, {3, 2}), (1, {2})])
def test_a_script_that_still_runs_is_shown_with_what_it_started_elsewhere(code, lines):
    """It may wait for the rank that a login behind it should have brought; one that has ended waits for nothing."""
    text = "#!/bin/bash\nwait_for_it\nssh node2 torchrun --nnodes=2 --node_rank=1 train.py &\nwait\n"
    waits = node("node1", rank(0, "node1", stage="rendezvous"), code=code, lines=((2, 0),))
    (cause,) = judged(story(waits, node("node2", code=code, lines=((2, 0),))), cast(text))
    assert {line for _, line in cause.where} == lines


def test_another_number_of_ranks_than_the_files_promise_is_named():
    """All ranks came, and they are fewer than the files say."""
    text = "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=$R --master_addr=node1 train.py\n"
    nodes = [node("node1", rank(0, "node1")), node("node2", rank(1, "node2"))]
    found, _ = message(*nodes, text=text)
    assert found.startswith("the files promise 16 ranks, and those that came were told that there are 2")
