"""Is the rank named that stands elsewhere in dumps of py-spy that were saved?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose, diagnose_texts
from preflight.diagnose.hanging.dumps import Dumps

BARRIER = ("barrier (torch/distributed/distributed_c10d.py:4525)", "save (train.py:310)")
WRITE = ("write (torch/serialization.py:840)", "save (train.py:305)")


def dump(pid, *frames, command="python -u train.py --rank {}", name=': "MainThread"', state="idle"):
    """What py-spy prints of a process, with a further thread."""
    return [
        f"Process {pid}: {command.format(pid - 400)}",
        "Python v3.11.9 (/usr/bin/python3.11)",
        "",
        f"Thread {pid} ({state}){name}",
        *(f"    {frame}" for frame in frames),
        'Thread 7 (idle): "pin"',
        "    wait (threading.py:331)",
        "",
    ]


def test_the_rank_outside_of_the_barrier_is_the_cause():
    """With the line of the program that it stands at, not of a library."""
    lines = [*dump(400, *BARRIER), *dump(401, *WRITE, state="active"), *dump(402, *BARRIER)]
    finding = diagnose(lines).causes[0]
    assert (finding.cause.name, finding.ranks) == ("stands-elsewhere", (1,))
    assert "train.py:305" in finding.detail
    assert "barrier" in finding.detail


def test_dumps_of_several_files_are_taken_together():
    """Of files that name the rank, as of commands that do."""
    one = "\n".join(dump(400, *BARRIER, command="python train.py", name=""))
    two = "\n".join(dump(400, *WRITE, command="python train.py"))
    finding = diagnose_texts({"dumps/rank0.txt": one, "dumps/rank5.txt": two}).causes[0]
    assert finding.ranks == (5,)


@pytest.mark.parametrize(
    "lines",
    [
        dump(400, *WRITE),
        [*dump(400, *BARRIER), *dump(401, *BARRIER)],
        [*dump(400, *BARRIER), *dump(401, "_worker_loop (torch/utils/data/_utils/worker.py:3)", "main (train.py:3)")],
        [*dump(400, *BARRIER), *dump(401, *WRITE), "Training completed."],
        [*dump(400, *BARRIER), *dump(401)],
    ],
)
def test_nobody_is_named_where_no_rank_stands_elsewhere(lines):
    """A single one, all in one call, a worker of a data loader, a job that ended well, one without a stack."""
    assert diagnose(lines).causes == ()


def test_lines_pass_through_as_they_are():
    """Dumps or not."""
    given = [(number, line.encode()) for number, line in enumerate(["words", *dump(400, *BARRIER)], 1)]
    assert list(Dumps().watched("log", given)) == given
