"""Which messages of a command are about one of its tasks, and when is a task waited for?"""

from __future__ import annotations

import asyncio

from preflight.reach.session.task import TaskLine, about_task


def test_what_the_command_printed_belongs_to_its_task():
    """Lines with another task's label are dropped, and so is what srun says of others; the rest concerns all."""
    printed = (
        " 1: Traceback of one\n12: of twelve\nsrun: error: n[0-1]: tasks 0-1: Killed\nsrun: error: n7: task 7: Killed\n"
        "slurmstepd-n0: error: *** STEP 3.0 ON n0 CANCELLED AT 2026-11-22 DUE TO TIME LIMIT ***\n"
    )
    assert about_task(1, printed).splitlines() == [
        "Traceback of one",
        "srun: error: n[0-1]: tasks 0-1: Killed",
        "slurmstepd-n0: error: *** STEP 3.0 ON n0 CANCELLED AT 2026-11-22 DUE TO TIME LIMIT ***",
    ]
    cancelled = "slurmstepd-n0: error: *** STEP 3.0 ON n0 CANCELLED AT 2026-11-22T03:05:39 ***"
    assert about_task(2, f"0: {cancelled}\n0: slurmstepd-n0: error: of its own\n").splitlines() == [cancelled]


def test_the_last_words_are_waited_for_until_they_explain_the_end():
    """srun prints why a moment after the connection is gone; what other tasks are told explains nothing."""

    class Printing:
        stderr = b""

        async def has_printed(self, enough):
            for line in (b"1: another task\n", b"srun: error: n0: task 0: Killed\n"):
                assert not enough()
                self.stderr += line
            assert enough()

    command = Printing()
    line = TaskLine(command, 0, None, None)
    asyncio.run(line.last_words(lambda printed: printed.strip()))
    assert line.stderr == "srun: error: n0: task 0: Killed\n"
