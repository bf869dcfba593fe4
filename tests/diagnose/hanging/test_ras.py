"""Is what NCCL's RAS service says of the ranks read?"""

from __future__ import annotations

import pytest

from preflight.diagnose.hanging import ras
from preflight.diagnose.hanging.live import Seen
from preflight.diagnose.hanging.next_steps import with_report
from preflight.diagnose.hanging.stuck import compare
from preflight.report.formats.hanging import hanging_text
from tests.diagnose.hanging.test_stuck import IN_TORCH, LOADER, STEP, rank

# The forms of NCCL 2.24 and later, as its documentation and its client_support.cc print them.
HEAD = """NCCL version 2.28.3 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12090

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          2            1          4        4

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
"""
WELL = (
    HEAD
    + "    0         1         2         2         4         4   RUNNING      OK\n\nErrors\n======\n\nWarnings\n========\n"
)
SILENT = (
    HEAD
    + """    0         1         2       1-2         4         4   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 1

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 3

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data
"""
)
DEAD = SILENT.replace(
    "INCOMPLETE\n  Missing communicator data from 1 job process",
    "DEAD\n  1 job process is considered dead (unreachable via the RAS network)",
)


def behind(most: int, late: int) -> str:
    """A report in which rank 2 has launched fewer collectives than the others."""
    return (
        HEAD
        + f"""    0         1         2         2         4         4   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  3 ranks have launched up to operation {most}
  1 rank has launched up to operation {late}
  Rank 2 -- GPU 0 managed by process 483074 on node 172.16.64.210
"""
    )


@pytest.mark.parametrize(
    ("reports", "words", "step"),
    [
        ([SILENT], "no answer from process 3487984 on 172.16.64.213 (rank 3)", "kill -CONT 3487984"),
        ([DEAD], "counts as dead: process 3487984 on 172.16.64.213 (rank 3)", "kill -CONT 3487984"),
        ([behind(6650, 6649)] * 2, "rank 2, process 483074 on 172.16.64.210 launched", "py-spy dump --pid 483074"),
        ([behind(6650, 6649), behind(7000, 6999)], "", ""),
        ([WELL, WELL], "", ""),
        ([], "", ""),
    ],
)
def test_who_differs_is_named_with_a_next_step(reports, words, step):
    """Dead, silent, or behind at both looks; one that is only late is not."""
    report = ras.standing(reports)
    assert words in ras.verdict(report)
    assert bool(ras.verdict(report)) == bool(words)
    assert step in "\n".join(ras.steps(report))


def test_what_nccl_says_decides_where_the_stacks_do_not():
    """All ranks look the same from outside, and one of them has launched fewer collectives: the job hangs."""
    stuck = with_report(compare({"a": (rank(0), rank(1)), "b": (rank(2),)}), [behind(9, 8)] * 2, {})
    assert stuck.hangs
    assert "only up to number 8, the others 9" in hanging_text(stuck, {}).splitlines()[0]


def test_a_rank_that_was_seen_stopped_is_told_with_the_command_that_lets_it_go_on():
    """First of all next steps, whatever else is known."""
    stopped = rank(1, state="T", pid=4711)
    stuck = with_report(
        compare({"a": (rank(0, IN_TORCH, STEP), stopped), "b": (rank(2, IN_TORCH, STEP),)}), [SILENT], {}
    )
    assert stuck.steps[0] == "on a: `kill -CONT 4711`"
    assert "next:\n  - on a: `kill -CONT 4711`" in hanging_text(stuck, {})


def test_a_node_that_was_not_seen_is_an_error_of_its_own():
    """Its ranks may well run: nothing is said of them, and the way to it is the next step."""
    found = {"a": (rank(0, IN_TORCH, STEP), rank(1, IN_TORCH, STEP))}
    stuck = with_report(compare(found, {"b": "no route"}), (), {"b": "no route"})
    assert "rank 2 was not seen: b could not be looked at" in stuck.verdict
    assert stuck.missing == ()
    assert "`ssh b true`" in stuck.steps[0]
    assert "no process" not in hanging_text(stuck, {"b": "no route"})


def test_a_job_that_goes_on_needs_no_step():
    """Ranks that moved between two looks hang in nothing, whatever a report says of one that was late."""
    moved = [rank(n, IN_TORCH, STEP, earlier=(Seen("S", "", (LOADER, STEP)),)) for n in range(3)]
    stuck = with_report(compare({"a": tuple(moved)}), [behind(9, 8)], {})
    assert (stuck.goes_on, stuck.hangs, stuck.steps, stuck.ras) == (True, False, (), "")
