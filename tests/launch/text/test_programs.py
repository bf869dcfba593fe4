"""Are the program's own arguments read where they speak of nodes and batches?"""

from __future__ import annotations

import pytest

from preflight.launch.text.programs import actor_batches, argument_number
from tests.launch.text.scripts import commands


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (["--num_nodes", "2"], 2),
        (["--num_nodes=2"], 2),
        (["--trainer.num_nodes=2"], 2),
        (["trainer.num_nodes=2"], 2),
        (["num_nodes", "2"], None),
        (["--num_nodes"], None),
        (["--num_nodes", "-1"], None),
        (["--num_nodes", "two"], None),
        (["--num_nodes", "1234567890"], None),
        (["--num_nodes", "\u0662"], None),
        (["--num_nodes=auto", "--num_nodes=3"], 3),
        (["--max_num_nodes=2"], None),
    ],
)
def test_the_number_after_an_option(words, number):
    """Of the option itself or of one of its section; anything but a small number is left alone."""
    assert argument_number(words, "num_nodes") == number


ACTOR = (
    "train --train_batch_size {total} --micro_train_batch_size 4"
    " --actor_num_nodes {nodes} --actor_num_gpus_per_node 8\n"
)


@pytest.mark.parametrize(
    ("total", "nodes", "fix"), [(128, 2, ""), (100, 2, "--train_batch_size 64"), (16, 1, "--train_batch_size 32")]
)
def test_the_batch_of_an_actor_divides_by_its_micro_batches(total, nodes, fix):
    """The fix is the next smaller batch that does, never 0."""
    found, marks = commands("# actor\n" + ACTOR.format(total=total, nodes=nodes))
    findings = list(actor_batches(found, marks))
    assert [finding.fix for finding in findings] == ([fix] if fix else [])
    assert all(finding.where[0].line == 2 for finding in findings)


@pytest.mark.parametrize(("total", "nodes"), [("$B", "2"), ("100", "0"), ("100", "$N")])
def test_a_batch_that_is_not_known_whole_is_not_judged(total, nodes):
    """One figure that only a run would tell, or a 0, leaves nothing to divide by."""
    found, marks = commands(ACTOR.format(total=total, nodes=nodes))
    assert list(actor_batches(found, marks)) == []
