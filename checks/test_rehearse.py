"""Does the user's own start, run for real with the reference program in place of theirs, come to its first steps?"""

import pytest


def test_every_script_comes_to_its_ranks(rehearsal):
    """The script of every node runs to the command that starts its ranks, and every command before it can be run.

    A script that stops on one node leaves the ranks of all others waiting for it.
    Fix: mend the line named, on the node named.
    """
    rehearsal.judge("scripts")


def test_every_rank_comes_once(rehearsal):
    """As many ranks come as were promised, each with a number of its own.

    Ranks that wait for one that was never started, or for a number that came twice, wait until a time-out.
    Fix: give every node its own number, and all the same number of nodes and of processes.
    """
    rehearsal.judge("ranks")


def test_every_rank_is_given_the_same(rehearsal):
    """Variables, interpreter and torch arrive alike in the ranks of all nodes.

    What a shell, a step or a container loses on one node is missing there alone, and nothing says so.
    Fix: `export` it in the script of every node.
    """
    rehearsal.judge("alike")


def test_limits_hold_inside_the_job(rehearsal):
    """Limits, caches and devices inside the job are those of a session on the same node.

    A batch shell, a service or a container may have lower ones, which only a process of the job sees.
    Fix: raise them where the job is started.
    """
    rehearsal.judge("limits")


def test_all_ranks_meet_and_train(rehearsal):
    """All ranks find each other, exchange a first word and train the reference model.

    What keeps them from it here keeps the user's own program from it as well.
    Fix: read what the rank named says last; `preflight diagnose` reads the log in logs/.
    """
    rehearsal.judge("training")


@pytest.mark.advisory
def test_no_node_keeps_the_others_waiting(rehearsal):
    """No node needs much longer than the others from the start of its script to its first step.

    Every start, and every restart after a failure, takes as long as the slowest node.
    Fix: look at what the stage named does there: modules and conda, imports from a shared folder, downloads.
    """
    rehearsal.judge("pace")
