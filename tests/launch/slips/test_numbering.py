"""Is a number that a script gives twice told, and one that it gives once left alone?"""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts

CASE = """case {asked} in
  n1) NODE_RANK={first}{more} ;;
  n2) NODE_RANK={second}{more} ;;
esac
torchrun --nnodes 2 --node_rank $NODE_RANK --nproc_per_node 8 --master_addr n1 --master_port 29500 t.py
"""
LOOP = """export MASTER_ADDR=n1 MASTER_PORT=29500 WORLD_SIZE={size}
for i in 0 1 2 3; do
  RANK={rank} LOCAL_RANK=$i python t.py &
done
wait
"""


def told(text, rule="ranks_are_distinct"):
    """The lines of what a rule says."""
    return [
        [where.line for where in finding.where]
        for finding in check_texts({"run.sh": text})[0]
        if finding.check == f"launch.{rule}"
    ]


@pytest.mark.parametrize(
    ("asked", "first", "second", "more", "lines"),
    [
        ("$HOSTNAME", 0, 0, "", [[2, 3]]),
        ('"$(hostname -s)"', 1, 1, "", [[2, 3]]),
        ("$HOSTNAME", 0, 1, "", []),
        ("$MODE", 0, 0, "", []),
        ("$HOSTNAME", 0, 0, "; MASTER_ADDR=n9", []),
    ],
)
def test_two_hosts_of_a_case_with_one_rank_are_told(asked, first, second, more, lines):
    """Where the case is over hosts, and an arm sets no more than its number."""
    assert told(CASE.format(asked=asked, first=first, second=second, more=more)) == lines


@pytest.mark.parametrize(
    ("size", "rank", "lines"), [(8, "$i", [[3, 1]]), (4, "$i", []), (8, "$((NODE_RANK * 4 + i))", [])]
)
def test_a_loop_that_begins_at_0_on_every_node_is_told(size, rank, lines):
    """Where the world is larger than the loop, which does not count from a node's own number."""
    assert told(LOOP.format(size=size, rank=rank), "world_size_counts_processes") == lines
