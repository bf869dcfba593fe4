"""Does every finding of a live look end in something to do?"""

from __future__ import annotations

import pytest

from preflight.diagnose.hanging.next_steps import with_report
from preflight.diagnose.hanging.stuck import compare
from tests.diagnose.hanging.test_stuck import IN_TORCH, LOADER, STEP, rank

OTHERS = (rank(0, IN_TORCH, STEP), rank(2, IN_TORCH, STEP))


@pytest.mark.parametrize(
    ("late", "step"),
    [
        (rank(1, state="T", pid=4711), "on a: `kill -CONT 4711`"),
        (rank(1, state="t", pid=4711), "detach the debugger of process 4711"),
        (rank(1, state="Z", pid=4711), "read the end of the output of rank 1 on a"),
        (rank(1, state="D", pid=4711, wchan="nfs_wait"), "cat /proc/4711/stack"),
        (rank(1, LOADER, STEP, pid=4711), "py-spy dump --pid 4711"),
    ],
)
def test_a_rank_that_holds_the_others_up_is_told_with_its_command(late, step):
    """With the number of its process and its node filled in."""
    stuck = with_report(compare({"a": (*OTHERS, late)}), (), {})
    assert step in stuck.steps[0]
    assert stuck.hangs


def test_ranks_that_are_gone_all_alike_or_unread_have_steps_too():
    """Their own output, a test of what lies under the call, and the way to their stacks."""
    assert "output of rank 1" in with_report(compare({"a": OTHERS}), (), {}).steps[0]
    alike = with_report(compare({"a": (*OTHERS, rank(1, IN_TORCH, STEP))}), (), {})
    assert "preflight run --hosts" in alike.steps[0]
    unread = with_report(compare({"a": (rank(0), rank(1), rank(2))}), (), {})
    assert "pip install py-spy" in unread.steps[0]
    assert not unread.hangs


def test_dumps_of_the_flight_recorder_are_told_with_what_reads_them():
    """Those that lie there, and else the pipe that asks for one."""
    lost = rank(1, LOADER, STEP, dump="/tmp/nccl_trace_rank_1")
    steps = with_report(compare({"a": (*OTHERS, lost)}), (), {}).steps
    assert any("copy a:/tmp/nccl_trace_rank_1 here" in step for step in steps)
    lost = rank(1, LOADER, STEP, dump="/tmp/fr_1.pipe")
    assert any(
        "`echo 1 > /tmp/fr_1.pipe`" in step for step in with_report(compare({"a": (*OTHERS, lost)}), (), {}).steps
    )
