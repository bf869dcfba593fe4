"""Are lines counted, quoted and placed, in bounded memory?"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from preflight.diagnose import diagnose, diagnose_files
from preflight.diagnose.seen import EVIDENCE


def test_evidence_is_quoted_with_its_place(tmp_path):
    """File and line as grep has them; no more than a few lines, and all of them counted."""
    path = tmp_path / "rank_3.log"
    path.write_text("step 1\n" + "RuntimeError: CUDA error: device-side assert triggered\n" * 50)
    finding = diagnose_files([str(path)]).causes[0]
    assert (finding.evidence[0].file, finding.evidence[0].line) == (str(path), 2)
    assert (finding.count, finding.ranks) == (50, (3,))
    assert len(finding.evidence) <= EVIDENCE


def test_a_warning_of_a_library_to_its_programmer_is_no_failure():
    """UserWarning and its kin quote errors that did not happen."""
    assert not diagnose(
        ["x.py:3: UserWarning: CUDA initialization: out of memory: killed process is possible"]
    ).has_failed


@pytest.mark.parametrize(
    "line",
    [
        "0: [1579244744.25] [n1:56309:0] sock.c:32   UCX  DEBUG ioctl(ifr_name=ib2) failed: Cannot assign requested address",
        "0: [1579244744.25] [n1:56309:0] ib_md.c:7   UCX  TRACE ibv_reg_mr() failed: Cannot allocate memory",
        "libfabric:7:175:tcp:ep_ctrl:xnet_connect():9<debug> connect to 10.0.0.1 failed: Connection refused",
        "2024-05-08 20:09:00,123 - fsspec - DEBUG - OSError: [Errno 28] No space left on device: '/x'",
        'time="2024-05-08T20:09:00Z" level=debug msg="dial tcp 10.0.0.1:443: connect: connection refused"',
    ],
)
def test_what_a_logger_says_for_debugging_is_no_failure(line):
    """It tells each try, of which one may fail in a healthy run."""
    assert not diagnose([line]).has_failed
    plain = line.replace("DEBUG", "ERROR").replace("TRACE", "ERROR").replace("debug", "error")
    assert diagnose([plain]).has_failed


def test_what_the_training_survived_is_no_cause():
    """Progress after it is the proof."""
    lines = [
        "[rank1]: OSError: [Errno 28] No space left on device: '/tmp/cache'",
        *(f"step {i} loss 2.5" for i in range(9)),
    ]
    assert not diagnose(lines).causes
    assert diagnose(lines[:3]).causes


FULL = "[rank1]: OSError: [Errno 28] No space left on device: '/tmp/cache'"


@pytest.mark.parametrize(
    ("line", "is_progress"),
    [
        ("step {} | tokens/s 31000 | mfu 0.42", True),
        ("[rank0]: global_step={} grad_norm=0.8", True),
        ('{{"steps": {}, "lr": 0.1}}', True),
        ("iter {}: time 812.31ms, mfu 41.2%", True),
        ("Evaluation  [ 10/25{}]  eta: 0:15:27    time: 3.8478  data: 0.4117  max mem: 27471", True),
        ("scheduler: eta: 0.1, eta_min: {}", False),
        ("srun: Terminating job step 77{}.0", False),
        ("srun: launching StepId=77.{} on host n1, 8 tasks: 0", False),
        ("the next step is unknown", False),
    ],
)
def test_steps_that_are_numbered_are_progress(line, is_progress):
    """Whatever a program prints beside them; the steps of a Slurm job are others."""
    assert bool(diagnose([FULL, *(line.format(i) for i in range(9))]).causes) is not is_progress


def test_several_files_are_ordered_by_time(tmp_path):
    """Not by the order in which they were named."""
    late, early = tmp_path / "a.log", tmp_path / "b.log"
    late.write_text("2024-05-08 20:09:00 OSError: [Errno 28] No space left on device: '/x'\n")
    early.write_text("2024-05-08 20:01:00 NVRM: Xid (PCI:0000:9b:00): 48, DBE\n")
    names = [finding.cause.name for finding in diagnose_files([str(late), str(early)]).causes]
    assert names[0] == "gpu-memory-error"


def test_a_flood_of_one_line_is_counted_whole():
    """After some thousand of them they are counted without being read again."""
    finding = diagnose(["KeyboardInterrupt"] * 10_000).causes[0]
    assert finding.count == 10_000
    assert not finding.survived


FIRST = "import sys; from preflight.diagnose import diagnose; print(diagnose(sys.argv[1:]).causes[0].cause.name)"


def test_of_several_causes_of_one_line_the_same_is_first_in_every_run():
    """The weightier, however Python's hashes of words are seeded."""
    line = "n1:9621:9685 [0] misc/shmutils.cc:112 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-zT"
    told = {
        subprocess.check_output(
            [sys.executable, "-c", FIRST, line], env={**os.environ, "PYTHONHASHSEED": str(seed)}, text=True
        )
        for seed in range(1, 6)
    }
    assert told == {"shared-memory-full\n"}


def test_a_node_that_the_words_name_is_told_as_they_write_it():
    """Who prints the line is often another one; nothing is told twice for its longer name."""
    lines = [
        "Node1: ssh: connect to host Node7.cluster port 22: Connection refused",
        "Node1: ssh: connect to host Node7 port 22: Connection refused",
    ]
    assert diagnose(lines).causes[0].nodes == ("Node7.cluster",)


def test_the_number_of_a_task_that_starts_several_ranks_is_no_rank():
    """srun labels lines with its tasks, torch with its ranks: where they differ, only the latter is told."""
    lines = ["1: OSError: [Errno 28] No space left on device: '/tmp/cache'"]
    assert diagnose(lines).causes[0].ranks == (1,)
    assert diagnose([*lines, "1: [rank9]: OSError: [Errno 28] No space left on device: '/x'"]).causes[0].ranks == (9,)


def test_what_came_to_one_node_has_not_come_to_another():
    """A file server that answers one node again may still leave another waiting."""
    silent = ["Mar  1 10:00:01 n3 kernel: nfs: server nas01 not responding, still trying"]
    silent.append(silent[0].replace("n3", "n5"))
    again = "Mar  1 10:00:04 n3 kernel: nfs: server nas01 OK"
    assert [one.cause.name for one in diagnose([*silent, again]).causes] == ["nfs-not-responding"]
    assert not diagnose([*silent, again, again.replace("n3", "n5")]).causes


RUNS = (
    ("nohup: ignoring input", True),
    (
        "[2025-02-16 18:05:23,173] [INFO] [runner.py:568:main] cmd = /usr/bin/python3 -u -m deepspeed.launcher.launch",
        True,
    ),
    ("WARNING:torch.distributed.run:Setting OMP_NUM_THREADS environment variable for each process to be 1", True),
    ("The following values were not passed to `accelerate launch` and had defaults used instead:", True),
    ("srun: job 77 has been allocated resources", True),
    ("INFO 11-04 22:05:09 api_server.py:912] vLLM API server version 0.6.3", True),
    ("wandb: Tracking run with wandb version 0.19.1", False),
)
CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
MODULE = "ModuleNotFoundError: No module named 'flash_attn'"


@pytest.mark.parametrize(("begin", "is_begin"), RUNS)
def test_of_several_runs_in_one_file_the_last_is_judged(begin, is_begin):
    """What begins after the launcher of one is over is another; a run that goes well has no failure."""
    job = [begin, FULL, CHILD]
    diagnosis = diagnose([*job, begin, MODULE, CHILD])
    assert [one.cause.name for one in diagnosis.causes][:1] == (["module-missing"] if is_begin else ["disk-full"])
    assert diagnosis.job.runs == 1 + is_begin
    assert diagnose([*job, begin, "all is well"]).has_failed != is_begin
    assert diagnose([*job, begin, FULL, CHILD]).causes[0].evidence[0].line == (5 if is_begin else 2)


@pytest.mark.parametrize("begin", [RUNS[2][0], RUNS[3][0]])
def test_a_further_node_that_begins_is_no_other_run(begin):
    """While the launcher of the first has not ended, though a rank of it may have failed."""
    diagnosis = diagnose([begin, FULL, begin, CHILD])
    assert (diagnosis.causes[0].cause.name, diagnosis.job.runs) == ("disk-full", 1)


def test_a_good_end_counts_for_all_files_of_its_job(tmp_path):
    """As often rank 0 alone tells of it; another job's counts for itself."""
    end, went = "{'train_runtime': 112.2, 'train_loss': 1.2}\n", "W0922 Sending process 27 closing signal SIGTERM\n"
    for first, second, is_same in (
        ("rank_0.log", "rank_1.log", True),
        ("job.out", "job.err", True),
        ("train.o77", "train.e77", True),
        ("slurm-77.out", "slurm-78.out", False),
    ):
        (tmp_path / first).write_text(end)
        (tmp_path / second).write_text(went)
        for names in ((first, second), (second, first)):
            assert diagnose_files([str(tmp_path / name) for name in names]).has_failed != is_same
    (tmp_path / "rank_0.log").write_text(f"2026-05-08 20:00:00 {end}")
    (tmp_path / "rank_1.log").write_text(f"2026-05-08 19:00:00 {went}")
    assert diagnose_files([str(tmp_path / "rank_0.log"), str(tmp_path / "rank_1.log")]).has_failed


def test_a_colour_before_a_word_takes_nothing_from_it():
    """The letter that ends it would make another word of it."""
    red = "\x1b[31m"
    line = f"dd: error writing 'x': {red}No {red}space {red}left {red}on {red}device\x1b[0m"
    assert [one.cause.name for one in diagnose([line]).causes] == ["disk-full"]
