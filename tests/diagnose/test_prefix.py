"""Who printed a line, by what stands in front of it?"""

from __future__ import annotations

import pytest

from preflight.diagnose.prefix import job_of, line_of, seconds_of


@pytest.mark.parametrize(
    ("line", "rank", "node", "text"),
    [
        ("[rank3]: ValueError: x", 3, "", "ValueError: x"),
        ("[default1]:[rank9]:   File", 9, "", "  File"),
        ("[2030-01-02 02:23:53 DP6 TP13 EP13] boom", 13, "", "boom"),
        ("[2030-01-02 02:23:53 TP3] boom", 3, "", "boom"),
        ("[1,12]<stderr>:boom", 12, "", "boom"),
        ("12: boom", 12, "", "boom"),
        ("3: [rank25]: boom", 25, "", "boom"),
        ("[1,3]<stderr>:[rank25]: boom", 25, "", "boom"),
        ("node7: boom", -1, "node7", "boom"),
        ("slurmstepd-gpu016: error: boom", -1, "gpu016", "boom"),
        ("python3: can't open file 'x'", -1, "", "python3: can't open file 'x'"),
        ("part_6.pt:  23%|##", -1, "", "part_6.pt:  23%|##"),
        ("urllib3.exceptions.MaxRetryError: boom", -1, "", "urllib3.exceptions.MaxRetryError: boom"),
        ("node7:   File", -1, "node7", "  File"),
        ("10.1.2.3:   File", -1, "10.1.2.3", "  File"),
        ("[pod/job-worker-0/pytorch] boom", -1, "job-worker-0", "boom"),
        ("(RayTrainWorker pid=77, ip=10.0.0.3) boom", -1, "10.0.0.3", "boom"),
        ("\x1b[36m(EngineCore_0 pid=7)\x1b[0m boom", -1, "", "boom"),
        ("2024-05-08 20:04:34,123 ERROR: boom", -1, "", "boom"),
        ("May  8 20:04:34 gpu3 kernel: NVRM: Xid", -1, "gpu3", "kernel: NVRM: Xid"),
        ("n1:77:99 [0] NCCL INFO x", -1, "n1", "n1:77:99 [0] NCCL INFO x"),
        (
            "[rank1]:[E508 20:04:34.1 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog",
            1,
            "",
            "ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog",
        ),
        ("[1647516906.396315] [node-a:82049:0]   ib_md.c:349  UCX  ERROR x", -1, "node-a", "ib_md.c:349  UCX  ERROR x"),
        ("[node7:7845 :0]   wireup.c:56   UCX  ERROR x", -1, "node7", "wireup.c:56   UCX  ERROR x"),
        ("[node7.local:82049] pml_ucx.c:860  Error: x", -1, "node7.local", "pml_ucx.c:860  Error: x"),
        ("[rank3:1200] x", -1, "", "[rank3:1200] x"),
        ("[1705415958.879795729] n1:rank7.python: x", 7, "n1", "x"),
        ("EI0006: [PID: 12] x", -1, "", "EI0006: [PID: 12] x"),
        ("[PG ID 0 PG GUID 0 Rank 5] timeout", 5, "", "[PG ID 0 PG GUID 0 Rank 5] timeout"),
    ],
)
def test_prefixes_of_launchers_and_loggers_are_read(line, rank, node, text):
    """Several at once, in any order, colours or not; an indentation behind them stays."""
    read = line_of(line)
    assert (read.rank, read.node, read.text) == (rank, node, text)


def test_the_name_of_a_file_tells_its_rank():
    """torchrun's log folder, and what people name by hand."""
    assert line_of("boom", file="logs/attempt_0/3/stderr.log").rank == 3
    assert line_of("boom", file="train_rank-12.out").rank == 12


def test_times_of_all_forms_compare():
    """ISO, glog, syslog and dmesg -T name the same second."""
    same = {
        seconds_of(text)
        for text in ("2024-05-08 20:04:34", "E508 20:04:34.0", "May  8 20:04:34 n kernel", "2024/05/08 20:04:34")
    }
    assert len(same) == 1
    assert seconds_of("no time") < 0


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("logs/rank_0.log", "logs/rank_13.log", True),
        ("run/attempt_0/0/stderr.log", "run/attempt_0/3/stdout.log", True),
        ("job-77.out", "job-77.err", True),
        ("job-77.out", "job-78.out", False),
        ("job.o77", "job.e77", True),
        ("a/train.log", "b/train.log", False),
    ],
)
def test_the_files_of_one_job_are_known_by_their_names(one, other, is_same):
    """They differ in the rank, and in which stream they hold."""
    assert (job_of(one) == job_of(other)) == is_same


def test_times_count_from_the_beginning_of_the_year():
    """Months of 31 days, days, hours, minutes, seconds and their parts, as each program writes them."""
    wanted = ((5 * 31 + 8) * 24 + 20) * 3600 + 4 * 60 + 34
    assert seconds_of("2024-05-08 20:04:34,250 x") == wanted + 0.25
    assert seconds_of("May  8 20:04:34 gpu3 x") == wanted
    assert seconds_of("no time") == -1.0
    assert (line_of("boom").rank, line_of("boom").task, line_of("boom").seconds) == (-1, -1, -1.0)
