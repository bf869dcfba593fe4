"""Is it told where the launchers of the nodes do not fit each other, as they were really started?"""

from __future__ import annotations

from preflight.job.measure.rehearsal.launchers import judged, options
from tests.job.measure.rehearsal.stories import cast, node, story, torchrun


def causes(*words):
    """What is said of two nodes that started these."""
    nodes = [node(f"node{number + 1}", words=each) for number, each in enumerate(words)]
    return list(judged(story(*nodes), cast()))


def test_words_that_fit_are_good():
    """localhost on rank 0 is the same place."""
    assert causes(torchrun(0), torchrun(1)) == []
    assert causes(torchrun(0, master_addr="localhost"), torchrun(1)) == []


def test_the_same_number_on_two_nodes_is_named():
    """A wrapper that loses an argument."""
    (cause,) = causes(torchrun(0), torchrun(0))
    assert cause.message == "--node_rank 0 on node1, node2; wanted another on each node"
    assert cause.where == (("run.sh", 4),)


def test_nodes_that_are_jobs_of_their_own_are_named():
    """--standalone is for one node."""
    (cause,) = causes(torchrun(0, standalone="1"), torchrun(1, standalone="1"))
    assert cause.nodes == ("node1", "node2")
    assert "trains alone" in cause.message


def test_an_id_that_each_node_draws_is_named():
    """$RANDOM."""
    (cause,) = causes(torchrun(0, rdzv_id="31"), torchrun(1, rdzv_id="7"))
    assert cause.message == "id of the rendezvous (--rdzv_id): 31 on node1, 7 on node2"
    assert "$RANDOM" in cause.fix


def test_the_options_of_a_launcher_that_python_runs_as_a_file_are_its_own():
    """Its name ends as a program's does."""
    words = ("python", "/opt/torch/distributed/run.py", "--nnodes=2", "train.py", "--nnodes=9")
    assert options(words) == {"nnodes": "2"}


def test_options_are_read_in_both_spellings():
    """Up to the program, whose own options are none of the launcher's."""
    words = ("python", "torchrun", "--nproc-per-node", "2", "--rdzv_id=3", "--standalone", "train.py", "--nnodes=9")
    assert options(words) == {"nproc-per-node": "2", "rdzv-id": "3", "standalone": ""}
