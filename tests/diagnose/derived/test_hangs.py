"""Is a hang in the first collective, and one after a good end, told from others?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose, diagnose_files

WATCHDOG = (
    "[rank{0}]:[E508 20:04:34.5 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 milliseconds"
)
TABLE = ("Failures:", "  host      : n1", "  rank      : {0} (local_rank: {0})", "  exitcode  : -6 (pid: 4{0})")
STEPS = [f"step {number} loss 2.5" for number in range(9)]


def names(lines):
    """The causes of lines."""
    return [finding.cause.name for finding in diagnose(lines).causes]


def waited(ranks, sequence=1):
    """What the watchdogs of ranks print."""
    return [WATCHDOG.format(rank, sequence) for rank in ranks]


def table(ranks):
    """What a launcher prints of ranks that failed."""
    return [line.format(rank) for rank in ranks for line in TABLE]


@pytest.mark.parametrize(
    "lines",
    [["world_size=4", *waited(range(4))], [*waited(range(2)), *table(range(2))]],
)
def test_all_ranks_in_the_first_collective_wait_for_the_way_between_them(lines):
    """Whether the size of the job is printed, or only the table of the failed ranks shows it."""
    assert names(lines) == ["first-collective-lost"]


@pytest.mark.parametrize(
    "lines",
    [
        ["world_size=4", *waited(range(3))],
        ["world_size=4", *waited(range(4), 9)],
        ["world_size=4", *STEPS, *waited(range(4))],
        waited(range(2)),
        [*waited(range(1)), *table(range(2))],
        [*waited((2, 3)), *table((2, 3))],
        ["world_size=1", *waited(range(1))],
    ],
)
def test_a_rank_that_may_be_missing_leaves_the_way_unblamed(lines):
    """As does a later collective, and one after steps that went well."""
    assert "first-collective-lost" not in names(lines)


def test_who_waits_in_a_collective_has_found_the_others():
    """A port that was taken stopped another attempt."""
    taken = "RuntimeError: The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
    assert names([taken, *waited(range(2)), *table(range(2))]) == ["first-collective-lost"]
    assert names([taken]) == ["port-in-use"]


END = "`Trainer.fit` stopped: `max_epochs=2` reached."


def test_a_hang_after_a_good_end_is_told_as_such():
    """Not where another training began after it."""
    diagnosis = diagnose(["world_size=2", *STEPS, END, *waited((1,), 70)])
    assert diagnosis.causes[0].cause.name == "hang-after-the-end"
    assert "number 70" in diagnosis.causes[0].detail
    assert "hang-after-the-end" not in names(["world_size=2", END, *STEPS, *waited((1,), 70)])


def test_of_another_file_a_good_end_counts_for_a_hang_where_times_show_it(tmp_path):
    """The end stands in the standard output, the watchdog in the standard error."""
    (tmp_path / "job.out").write_text(f"2026-05-08 20:{{0}} step 1 loss 2\n{END}\n".format("00:00"))
    for minute, is_after in (("19:59:00", False), ("20:30:00", True)):
        (tmp_path / "job.err").write_text(f"2026-05-08 {minute} {WATCHDOG.format(1, 70)}\n")
        found = diagnose_files([str(tmp_path / "job.out"), str(tmp_path / "job.err")])
        assert (found.causes[:1] != () and found.causes[0].cause.name == "hang-after-the-end") == is_after


def test_a_barrier_names_the_rank_that_did_not_reach_it():
    """Not those that tell of it."""
    told = diagnose(["[rank0]: RuntimeError: Rank 3 failed to pass monitoredBarrier in 1800000 ms"]).causes[0]
    assert (told.cause.name, told.ranks) == ("monitored-barrier", (3,))
    assert told.detail == "rank 3 did not come to it"
