"""Is the job rebuilt from what its lines say?"""

from __future__ import annotations

from preflight.diagnose import diagnose, facts
from preflight.diagnose.facts import Unjoined
from preflight.diagnose.gather import Gatherer, facts_index
from preflight.diagnose.index import words_of
from tests.diagnose import marks

INIT = """\
n1:10:20 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
n2:11:21 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>
NCCL version 2.21.5+cuda12.4
n1:10:20 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>
n1:10:20 [0] NCCL INFO Using network IB
n1:10:20 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 10 - Init COMPLETE
n2:11:21 [0] NCCL INFO ncclCommInitRank comm 0x77 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 10 - Init COMPLETE
n1:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA
"""
WATCHDOG = (
    "[rank{0}]:[E508 20:04:34.5 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum={1}, OpType={2}, NumelIn={3}, NumelOut={3}, Timeout(ms)=600000) ran for 600060 milliseconds"
)
ENQUEUED = (
    "[rank{0}]:[E508 20:04:34.6 x.cpp:1] [PG 0 Rank {0}] last enqueued NCCL work: {1}, last completed NCCL work: {2}."
)


def test_ranks_nodes_interfaces_and_transport_are_read():
    """Of NCCL's own lines, old form and new."""
    job = diagnose(INIT.splitlines()).job
    assert job.world_size == 2
    assert job.node_of == {0: "n1", 1: "n2"}
    assert job.interfaces == {"n1": ("eth0:10.0.0.1",), "n2": ("eth0:10.0.0.2",)}
    assert job.versions == {"nccl": ("2.21.5+cuda12.4",)}
    assert job.transports == ("NET/IB/0/GDRDMA",)


def test_the_rank_that_was_missing_is_named():
    """It had enqueued less than the others waited for."""
    lines = [WATCHDOG.format(rank, 9, "ALLREDUCE", 64) for rank in (0, 1, 3)]
    lines += [ENQUEUED.format(rank, 9, 8) for rank in (0, 1, 3)] + [ENQUEUED.format(2, 8, 8)]
    hang = diagnose(lines).job.hang
    assert hang is not None
    assert (hang.operation, hang.sequence, hang.waiting, hang.missing) == ("ALLREDUCE", 9, (0, 1, 3), (2,))


def test_a_rank_that_never_waited_is_missing():
    """By the size of the world, where most of it waited."""
    lines = ["world_size=4", *(WATCHDOG.format(rank, 9, "ALLREDUCE", 64) for rank in (0, 1, 2))]
    hang = diagnose(lines).job.hang
    assert hang is not None
    assert hang.missing == (3,)


def test_calls_that_do_not_match_are_the_cause():
    """The same number of the sequence, another operation or size: the program, not the network."""
    lines = [WATCHDOG.format(0, 9, "ALLREDUCE", 64), WATCHDOG.format(1, 9, "ALLGATHER", 64)]
    diagnosis = diagnose(lines)
    assert diagnosis.causes[0].cause.name == "nccl-mismatched-call"
    assert "ALLGATHER of 64 on rank 1" in diagnosis.causes[0].detail


def test_the_elastic_table_gives_exit_codes():
    """Rank, node and code of each that failed."""
    table = "[0]:\n  time      : 2024-05-08_20:04:34\n  host      : n7\n  rank      : 5 (local_rank: 1)\n  exitcode  : -9 (pid: 4)"
    job = diagnose(table.splitlines()).job
    assert job.exits == {5: "-9"}
    assert job.node_of == {5: "n7"}


JOINED = """\
Not all ranks joining collective, sequence number: 31117
internal record id: 31116
group info: 0:default_pg
collective: nccl:all_reduce
missing ranks: {3, 4}
world size: 5
expected ranks: {0, 1, 2, 3, 4}
collective state: scheduled
"""


def test_what_torchs_own_reader_of_the_flight_recorder_prints_is_understood():
    """The first collective that it tells of, with the ranks that did not come."""
    diagnosis = diagnose([*JOINED.splitlines(), *JOINED.replace("31117", "31118").splitlines()])
    hang = diagnosis.job.hang
    assert hang is not None
    assert (hang.sequence, hang.operation, hang.waiting, hang.missing) == (31117, "ALL_REDUCE", (0, 1, 2), (3, 4))
    assert diagnosis.causes[0].cause.name == "collective-timeout"
    assert "ranks 3, 4, which had not come to it" in diagnosis.causes[0].detail


def test_the_readers_older_words_are_understood_as_well():
    """Without the set of ranks that were expected."""
    lines = ["Not all ranks joining collective 5 at entry 4", "collective: nccl:all_reduce", "missing ranks: {1}"]
    hang = diagnose(lines).job.hang
    assert hang is not None
    assert (hang.sequence, hang.operation, hang.missing) == (5, "ALL_REDUCE", (1,))


TIMEOUT = (
    "[rank{0}]:[E ProcessGroupNCCL.cpp:563] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=5, OpType=BROADCAST, NumelIn=800, NumelOut=800, Timeout(ms)=300000) ran for 300013 milliseconds"
)


def test_ranks_that_reported_no_timeout_may_have_ended_before_it():
    """The first rank that aborts ends the others, which may have waited as well."""
    joined = "n1:7:7 [0] NCCL INFO comm 0x5 rank 0 nranks 8 cudaDev 0 busId 1000 - Init START"
    diagnosis = diagnose([joined, *(TIMEOUT.format(rank) for rank in (1, 4, 5, 6, 7))])
    hang = diagnosis.job.hang
    assert hang is not None
    assert (hang.missing, hang.silent) == ((0, 2, 3), (0, 2, 3))
    assert "ranks 0, 2, 3 reported nothing" in diagnosis.causes[0].detail
    assert "had not come to it" not in diagnosis.causes[0].detail
    assert "collective-timeout" not in {finding.cause.name for finding in diagnosis.consequences}


def test_horovod_names_the_ranks_that_it_waits_for():
    """Behind each operation, or, in a later Horovod, in a list below; a list of a program is none."""
    early = ["W operations.cc:588] HorovodBroadcast_global_step_0 [missing ranks: 1, 4]"]
    later = ["Missing ranks:", "2: [broadcast_parameters/allreduce.conv1.weight, x ...]", "3: [allreduce.conv1.weight]"]
    for lines, missing in ((early, (1, 4)), (later, (2, 3)), (later[1:], None)):
        hang = diagnose(lines).job.hang
        assert (hang.missing if hang is not None else None) == missing
    assert "ranks 1, 4, which had not come to it" in diagnose(early).causes[0].detail


def test_each_pattern_has_a_line_that_is_found_by_its_words():
    """Under its name, where no other pattern of that name stands for it."""
    assert marks.without_a_line("facts", facts.PATTERNS) == []
    found = {
        line: {name for name, _ in facts_index().matches(words_of(line.encode()), line.lower())}
        for _, line in marks.lines_of("facts")
    }
    assert [(name, line) for name, line in marks.lines_of("facts") if name not in found[line]] == []


def test_a_rank_that_has_enqueued_nothing_is_missing():
    """NCCL numbers collectives from 1 and says -1 where it does not know."""
    lines = [WATCHDOG.format(rank, 9, "ALLREDUCE", 64) for rank in (0, 1, 3)]
    for last, missing in ((0, (2,)), (8, (2,)), (9, ()), (-1, ())):
        hang = diagnose([*lines, ENQUEUED.format(2, last, last)]).job.hang
        assert hang is not None
        assert hang.missing == missing


def test_each_collective_that_not_all_came_to_has_its_own_ranks():
    """As torch's reader of the flight recorder lists them: what stands below the name of one is that one's."""
    lines = (
        "missing ranks: {7}",
        "Not all ranks joining collective, sequence number: 5",
        "collective: nccl:all_reduce",
        "collective: nccl:reduce",
        "expected ranks: {0, 1, 2}",
        "missing ranks: {2}",
        "missing ranks: {1}",
        "Not all ranks joining collective, sequence number: 9",
        "collective: nccl:broadcast",
        "missing ranks: {0, 1}",
        "expected ranks: {0, 1, 3}",
    )
    gathered = Gatherer()
    gathered.read("log", ((number, line.encode()) for number, line in enumerate(lines, 1)))
    assert gathered.facts.unjoined == [
        Unjoined(5, "ALL_REDUCE", (2,), (0, 1, 2)),
        Unjoined(9, "BROADCAST", (0, 1), (0, 1, 3)),
    ]
    hang = gathered.facts.hang()
    assert hang is not None
    assert (hang.sequence, hang.operation, hang.waiting, hang.missing) == (5, "ALL_REDUCE", (0, 1), (2,))
