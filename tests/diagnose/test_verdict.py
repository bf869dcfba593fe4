"""Is the first failure told from what followed from it?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose, diagnose_files
from preflight.diagnose.cause import Kind

OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
RESET = "[rank{0}]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:2222"
WATCHDOG = "[rank{0}]:[E] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=6) ran for 600027 milliseconds"
KILLED = "May  8 20:04:34 n2 kernel: Out of memory: Killed process 42 (python)"
XID = "May  8 20:04:34 n2 kernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."
TABLE = "  exitcode  : -9 (pid: 42)"
CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
REFUSED = "[rank1]: ConnectionRefusedError: [Errno 111] Connection refused"


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        ([RESET.format(0), RESET.format(1), OOM, CHILD], "gpu-out-of-memory"),
        ([WATCHDOG.format(0), WATCHDOG.format(1), KILLED, TABLE], "oom-killed"),
        ([TABLE, CHILD], "killed-by-signal-9"),
        ([OOM, XID], "gpu-fell-off-the-bus"),
        ([REFUSED, "[rank0]: OSError: [Errno 98] Address already in use"], "port-in-use"),
        ([REFUSED, RESET.format(0)], "connection-refused"),
    ],
)
def test_the_first_failure_explains_the_others(lines, first):
    """Whatever the order of the lines: what only tells of another's failure is folded under it."""
    diagnosis = diagnose(lines)
    assert diagnosis.causes[0].cause.name == first
    assert not {finding.cause.name for finding in diagnosis.consequences} & {first}


def test_consequences_alone_are_no_cause():
    """Then the cause is unknown, and what to gather is said."""
    diagnosis = diagnose([WATCHDOG.format(0), CHILD])
    assert not diagnosis.is_known
    assert diagnosis.has_failed
    assert diagnosis.consequences[0].cause.name == "collective-timeout"
    assert any("NCCL_DEBUG=INFO" in text for text in diagnosis.collect)


def test_a_healthy_log_has_no_cause():
    """Plug-ins that are not there, retries and notes of NCCL are none."""
    lines = [
        "n1:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        "n1:1:2 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory",
        "[W socket.cpp:663] [c10d] The client socket has failed to connect to [n1]:29500 (errno: 97 - Address family not supported by protocol).",
        "n1:1:2 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
        "n1:1:2 [0] graph/search.cc:1135 NCCL WARN Could not find a path for pattern 1, falling back to simple order",
        "n1:1:2 [0] NCCL INFO [Service thread] Connection closed by localRank 0",
        "[WARNING]  async_io requires the dev libaio .so object and headers but these were not found.",
        "[WARNING] [runner.py:196:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.",
        "WARNING custom_all_reduce.py:145] Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed.",
        "[INFO] [loss_scaler.py:183] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        "data_connector.py:245: PossibleUserWarning: DataLoader worker is killed by signal may be a bottleneck",
        "step 1 loss 2.5 grad_norm 0.1 error 0",
        "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 - Destroy COMPLETE",
    ]
    diagnosis = diagnose(lines)
    assert not diagnosis.has_failed
    assert not diagnosis.collect


RAISED = [
    "[rank1]: Traceback (most recent call last):",
    '[rank1]:   File "/job/train.py", line 9, in f',
    "[rank1]: Odd: b",
]
BARRIER = "[rank0]: RuntimeError: Rank 1 failed to pass monitoredBarrier in 4000 ms"


@pytest.mark.parametrize(
    ("lines", "first"), [([*RAISED, BARRIER], "program-error"), ([BARRIER, *RAISED], "monitored-barrier")]
)
def test_of_an_unknown_exception_and_a_rank_that_waits_the_earlier_is_the_cause(lines, first):
    """Others wait for a rank that has failed; a program may also wrap what it waited for."""
    assert diagnose(lines).causes[0].cause.name == first


def test_a_rank_known_to_be_missing_is_no_cause_beside_one():
    """The exception of that rank says why it did not come."""
    late = "[rank1]:[E] [PG 0 Rank 1] last enqueued NCCL work: 6, last completed NCCL work: 6."
    assert diagnose([*RAISED, WATCHDOG.format(0), late]).causes[0].cause.name == "program-error"
    assert diagnose([WATCHDOG.format(0), late]).causes[0].cause.name == "collective-timeout"


def test_an_error_of_nccl_that_says_nothing_is_told_with_the_warning_before_it():
    """Of a part of NCCL that the table does not know."""
    lines = [
        "n1:1:2 [0] allocator.cc:41 NCCL WARN No allocation found at offset=0x7",
        "n1: Test NCCL failure common.cu:958 'internal error - please report this issue to the NCCL developers / '",
    ]
    cause = diagnose(lines).causes[0]
    assert cause.cause.name == "nccl-error-unknown"
    assert cause.detail.endswith("NCCL WARN No allocation found at offset=0x7")


def test_a_warning_of_nccl_alone_is_no_failure():
    """A healthy job may print it too."""
    diagnosis = diagnose(["n1:1:2 [0] allocator.cc:41 NCCL WARN No allocation found at offset=0x7"])
    assert not diagnosis.has_failed
    assert [one.cause.name for one in diagnosis.notes] == ["nccl-warned"]


RETRIED = (
    "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.3<5551> with status=12 opcode=0 len=0 vendor err 129"
)
FAULT = "[rank9]: RuntimeError: CUDA error: an illegal memory access was encountered"


def test_between_files_without_times_a_ranks_own_failure_comes_before_a_lost_peer(tmp_path):
    """The peers of a rank that ended see its transfers fail; in one file the lines tell the order."""
    (tmp_path / "a.log").write_text(f"{RETRIED}\n")
    (tmp_path / "b.log").write_text(f"{FAULT}\n")
    names = [str(tmp_path / name) for name in ("a.log", "b.log")]
    assert diagnose_files(names).causes[0].cause.name == "gpu-kernel-fault"
    assert diagnose([RETRIED, FAULT]).causes[0].cause.name == "rdma-transport-retry"
    (tmp_path / "b.log").write_text("step 1\n")
    assert diagnose_files(names).causes[0].cause.name == "rdma-transport-retry"


def test_a_fabric_manager_without_a_switch_is_no_failure():
    """Its service ends, and the machine needs none."""
    ended = "n7 systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'."
    query = "n7 nv-fabricmanager[7]: request to query NVSwitch device information failed with error"
    assert [one.cause.name for one in diagnose([ended]).causes] == ["fabric-manager"]
    assert not diagnose([f"{query}:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]", ended]).has_failed


ENDED = (
    "{'train_runtime': 112.2, 'train_loss': 1.2}",
    "exiting program at iteration 500 [2025-02-16 18:05:23]",
    "End training....",
    "2024-08-08 12:41:50 - Training took 00:34:34.02",
    "[2025-02-16 18:05:23,173] [INFO] [launch.py:351:main] Process 414 exits successfully.",
    "INFO:torch.distributed.elastic.agent.server.api:[default] worker group successfully finished. Waiting 300 seconds",
    ':::MLLOG {"event_type": "INTERVAL_END", "key": "run_stop", "value": null, "metadata": {"status": "success"}}',
)
PARTING = (
    "W0922 Sending process 2724711 closing signal SIGTERM",
    "[rank1]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:2222",
    "[rank1]: torch.distributed.DistNetworkError: The TCP store server has shut down too early.",
    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15",
    "KeyboardInterrupt",
)


@pytest.mark.parametrize("end", ENDED)
@pytest.mark.parametrize("line", PARTING)
def test_what_processes_say_as_they_go_after_a_good_end_is_no_failure(end, line):
    """Without the end before it, it is one."""
    diagnosis = diagnose(["step 7 loss 2", end, line])
    assert not diagnosis.has_failed
    assert diagnosis.job.has_ended
    assert diagnose(["step 7 loss 2", line]).has_failed


def test_a_failure_after_a_good_end_stays_one():
    """And so does what ended a training that began after it."""
    end, line = ENDED[0], PARTING[0]
    assert diagnose([end, "OSError: [Errno 28] No space left on device"]).is_known
    assert diagnose([end, CHILD]).has_failed
    assert diagnose([end, "[Rank 0] NCCL watchdog thread terminated with exception: timeout"]).has_failed
    again = diagnose([end, *(f"step {n} loss 2" for n in range(9)), line])
    assert again.has_failed
    assert not again.job.has_ended
    assert diagnose(["epoch 3: training done", line]).has_failed


@pytest.mark.parametrize(
    "last", ["SyntaxError: invalid syntax", "IndentationError: unexpected indent", "AssertionError"]
)
def test_a_mistake_in_a_file_is_told_with_its_place(last):
    """Python prints it above; where only the last line was kept there is none."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/model.py", line 12',
        "    def f(:",
        "          ^",
        last,
    ]
    assert diagnose(lines).causes[0].detail == "at /job/model.py:12"
    assert diagnose(lines[-1:]).causes[0].detail == ""


WARNED = "/x/torch/cuda/__init__.py:129: UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). "


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("Error 802: system not yet initialized", "fabric-manager"),
        ("Error 803: system has unsupported display driver / cuda driver combination", "driver-too-old"),
        ("CUDA initialization: CUDA unknown error - this may be due to an environment", "cuda-init-failed"),
    ],
)
def test_a_warning_of_cuda_is_the_cause_where_no_gpu_is_found_next(words, name):
    """Alone it is a suspicion, and nothing where the training goes on."""
    none = "RuntimeError: No CUDA GPUs are available"
    found = diagnose([WARNED + words, "  return torch._C._cuda_getDeviceCount() > 0", none])
    assert [(one.cause.name, one.cause.kind) for one in found.causes] == [(name, Kind.CAUSE)]
    assert [one.cause.name for one in found.consequences] == ["no-gpu-visible"]
    assert [(one.cause.name, one.cause.kind) for one in diagnose([WARNED + words]).causes] == [(name, Kind.SUSPICION)]
    assert not diagnose([WARNED + words, *(f"step {n} loss 2" for n in range(9))]).has_failed


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (WATCHDOG.format(1), "ray.exceptions.ActorDiedError: The actor died unexpectedly.", []),
        (
            "n1:1:2 [0] NCCL WARN NET/FasTrak plugin: connection refused by 10.0.0.4",
            "ORTE has lost communication with a remote daemon.",
            ["connection-refused"],
        ),
        (
            "DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (localhost, 29400).",
            "DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined.",
            ["loopback-master"],
        ),
    ],
)
def test_what_ends_because_another_did_is_no_cause(first, second, named):
    """Nor what waits in vain; without the line before it, it is one."""
    assert [one.cause.name for one in diagnose([first, second]).causes] == named
    assert diagnose([second]).causes


def test_the_frames_of_a_compiler_say_whose_file_it_was():
    """The words of the exception are those of a file server."""
    frames = [
        '  File "/x/flashinfer/jit/core.py", line 9, in load',
        '  File "/x/filelock/_unix.py", line 39, in _acquire',
    ]
    head, last = "Traceback (most recent call last):", "OSError: [Errno 116] Stale file handle"
    assert diagnose([head, *frames, last]).causes[0].cause.name == "compile-cache"
    assert diagnose([head, frames[1], last]).causes[0].cause.name == "stale-file"


LEFT = (
    "saved checkpoint to /ckpt/step_12",
    "Detected KeyboardInterrupt, attempting graceful shutdown ...",
    "INFO:     Application shutdown complete.",
)


@pytest.mark.parametrize("left", LEFT)
def test_who_stops_a_job_that_has_saved_or_leaves_in_order_breaks_nothing(left):
    """A failure beside it is found, and so is an end from outside long after."""
    assert not diagnose(["step 7 loss 2", left, "KeyboardInterrupt"]).has_failed
    assert diagnose(["step 7 loss 2", left, "KeyboardInterrupt", OOM]).causes[0].cause.name == "gpu-out-of-memory"
    later = [f"step {n} loss 2" for n in range(9)]
    assert diagnose([left.replace("KeyboardInterrupt", "a signal"), *later, "KeyboardInterrupt"]).has_failed


def test_a_try_that_another_follows_needs_less_to_be_survived():
    """One line of progress; the last word of it stays a failure."""
    tried = "botocore.exceptions.ReadTimeoutError: Read timeout (attempt 1 of 5, retrying)"
    assert not diagnose([tried, "step 7 loss 2"]).has_failed
    assert diagnose([tried]).has_failed
    assert diagnose([tried, "step 7 loss 2", tried.partition(" (")[0]]).has_failed


WHY_AND_THAT = (
    (
        "oom-killed",
        "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "srun: error: n7: task 3: Killed",
    ),
    (
        "gpu-fell-off-the-bus",
        "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.",
        "RuntimeError: CUDA error: unspecified launch failure",
    ),
    (
        "gpu-memory-error",
        "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE (double bit error)",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ),
    (
        "nccl-symbol-missing",
        "ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister",
        "ModuleNotFoundError: No module named 'deepspeed'",
    ),
    (
        "no-gpu-visible",
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
        "RuntimeError: CUDA error: initialization error",
    ),
    (
        "no-route",
        "[c10d] The client socket has failed to connect to [n1]:29500 (errno: 113 - No route to host).",
        "torch.distributed.DistNetworkError: The client socket has timed out after 600s while trying to connect to (n1, 29500).",
    ),
    (
        "name-not-resolved",
        "socket.gaierror: [Errno -2] Name or service not known",
        "[c10d] The client socket has failed to connect to [n1]:29500 (errno: 111 - Connection refused).",
    ),
    (
        "memlock-limit",
        "n1:1:1 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
        "RuntimeError: NCCL error: unhandled system error",
    ),
    (
        "device-side-assert",
        "RuntimeError: CUDA error: device-side assert triggered",
        "[rank0]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.",
    ),
    (
        "gpu-out-of-memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
    ),
    (
        "port-in-use",
        "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    ),
    (
        "shared-memory-full",
        "RuntimeError: DataLoader worker (pid 123) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
        "srun: error: n7: task 3: Bus error",
    ),
    (
        "link-down",
        "mlx5_core 0000:3b:00.0: Link down",
        "n1:1:1 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=12 opcode=0 len=0 vendor err 129",
    ),
    (
        "nccl-version-mismatch",
        "NCCL WARN Mismatched NCCL version detected : rank 0 version 22005 rank 1 version 21803",
        "RuntimeError: NCCL error: internal error",
    ),
    (
        "nan",
        "loss is nan, stopping training",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 87) of binary: python",
    ),
)


@pytest.mark.parametrize(("cause", "why", "that"), WHY_AND_THAT)
def test_what_says_why_comes_before_what_only_says_that(cause, why, that):
    """In whichever order they stand: lines of several ranks are mixed."""
    for lines in ([why, that], [that, why]):
        found = diagnose(lines)
        named = [one.cause.name for one in (*found.causes, *found.consequences)]
        assert named[0] == cause
        assert len(named) > 1


def test_the_version_that_an_error_names_is_not_another_one():
    """NCCL's own line says for which CUDA it was built, torch's error does not: no difference between ranks."""
    lines = [
        "n1:7:7 [0] NCCL INFO NCCL version 2.26.2+cuda12.4",
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, remote process exited or there was a network error, NCCL version 2.26.2",
        "  host      : n1",
        "  rank      : 0 (local_rank: 0)",
        "  exitcode  : 1 (pid: 3312)",
    ]
    found = diagnose(lines)
    assert found.causes[0].cause.name == "gpu-out-of-memory"


def test_two_versions_of_nccl_are_the_cause_where_nccl_failed():
    """And only there: what a rank lacks memory for has nothing to do with them."""
    lines = ["n1:7:7 [0] NCCL INFO NCCL version 2.26.2+cuda12.4", "n2:7:7 [0] NCCL INFO NCCL version 2.21.5+cuda12.4"]
    truncated = "n1:7:9 [0] bootstrap.cc:232 NCCL WARN Message truncated : received 1024 bytes instead of 256"
    assert diagnose([*lines, truncated]).causes[0].cause.name == "nccl-version-mismatch"
    memory = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert diagnose([*lines, memory]).causes[0].cause.name == "gpu-out-of-memory"


def test_an_error_that_lists_many_settings_is_no_printed_configuration():
    """torch names every property of a tensor when ranks call different collectives."""
    options = "dtype=float (default), device=cuda, layout=Strided (default), requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt)"
    call = f"CollectiveFingerPrint(SequenceNumber=218, OpType=ALLREDUCE, TensorShape=[1], TensorDtypes=Long, TensorDeviceTypes=TensorOptions({options}))"
    line = f"[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: {call}, but Rank 0 is running collective: {call}."
    assert diagnose([line]).causes[0].cause.name == "nccl-mismatched-call"


TRACE = (
    "[rank1]: Traceback (most recent call last):",
    '[rank1]:   File "/job/train.py", line 9, in write',
    "[rank1]: OSError: [Errno 28] No space left on device",
    "",
    "[rank1]: During handling of the above exception, another exception occurred:",
    "",
    "[rank1]: Traceback (most recent call last):",
    '[rank1]:   File "/job/train.py", line 34, in <module>',
    "[rank1]:     steps(); logging.info('training finished'); print('RuntimeError: CUDA out of memory')",
    '[rank1]:   File "/job/train.py", line 15, in steps',
    "[rank1]:     save()",
    "[rank1]: OSError: [Errno 28] No space left on device",
)
STEPS = tuple(f"step {n} loss 2.{n}" for n in range(1, 9))
CAUGHT = (
    "Traceback (most recent call last):",
    '  File "/job/train.py", line 38, in read',
    "    torch.ones(2, 3) @ torch.ones(4, 5)",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
)


def test_the_program_that_a_traceback_shows_tells_nothing_of_the_run():
    """Its statements hold the words of a good end, and those of another failure; ranks that end for it show them too."""
    others = [line.replace("[rank1]", "[rank0]") for line in TRACE[:-1]]
    found = diagnose([*STEPS, *TRACE, *others, "[rank0]: RuntimeError: Connection closed by peer [127.0.0.1]:7350"])
    assert [one.cause.name for one in found.causes] == ["disk-full"]
    assert found.outcome.exit_code == 1


@pytest.mark.parametrize(
    ("last", "cause"),
    [
        (("[rank1]: LookupError: odd sample",), "program-error"),
        (("[rank1]: OSError: [Errno 28] No space left on device",), "disk-full"),
        (("E1127 23:52:29.031000 7 api.py:1002] failed (exitcode: -9) local_rank: 0 (pid: 12)",), "killed-by-signal-9"),
    ],
)
def test_what_some_steps_followed_is_a_remark_beside_what_none_followed(last, cause):
    """A program printed what it had caught, and failed two steps later."""
    found = diagnose([*STEPS[:4], *CAUGHT, *STEPS[4:6], *last])
    assert [one.cause.name for one in found.causes] == [cause]
    assert diagnose([*STEPS[:4], *CAUGHT, *STEPS[4:6]]).causes[0].cause.name == "wrong-shape"


def test_ranks_that_do_not_find_each_other_again_follow_from_what_failed_before():
    """A restart comes after it."""
    killed = "E1127 23:52:29.031000 7 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 0 (pid: 12)"
    again = "RuntimeError: Gloo connectFullMesh failed with [pair.cc:152] timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:1"
    assert diagnose([*STEPS, killed, again]).causes[0].cause.name == "killed-by-signal-9"
    assert diagnose([again]).causes[0].cause.name != "killed-by-signal-9"


def test_a_warning_that_a_peer_has_left_is_no_failure_after_steps():
    """As the ranks and agents of a job that ended well leave one after the other; without any step it is all that is known."""
    lines = [
        "[W1127 23:52:34.933601793 TCPStore.cpp:115] [c10d] recvVector failed on SocketImpl(fd=3, addr=[n1]:28388, remote=[n2]:30345): Failed to recv, got 0 bytes. Connection was likely closed.",
        "Exception raised from recvBytes at /torch/csrc/distributed/c10d/Utils.hpp:787 (most recent call first):",
        "W1127 23:52:34.262000 6 torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1298] The node 'n1_6_0' has failed to shutdown the rendezvous 'none' due to an error of type RendezvousConnectionError.",
    ]
    assert diagnose([*STEPS, *lines]).outcome.exit_code == 3
    assert diagnose(lines).has_failed
    assert diagnose([*STEPS, *lines, *TRACE]).causes[0].cause.name == "disk-full"


@pytest.mark.parametrize("library", ["flashinfer/jit/cpp_ext.py", "deepspeed/ops/op_builder/builder.py"])
def test_what_a_library_that_builds_code_raises_is_that_it_cannot(library):
    """By its innermost frame, whatever the words; raised elsewhere the same words are the program's."""
    for path, cause in (
        (f"/venv/lib/python3.12/site-packages/{library}", "compile-failed"),
        ("/job/a.py", "program-error"),
    ):
        frames = ["Traceback (most recent call last):", '  File "/job/train.py", line 3, in <module>', "    build()"]
        lines = [
            *frames,
            f'  File "{path}", line 92, in get',
            "    raise RuntimeError(what)",
            "RuntimeError: no path to it",
        ]
        assert [one.cause.name for one in diagnose(lines).causes] == [cause]


def test_a_known_cause_in_the_lines_of_an_exceptions_message_is_told_instead_of_it():
    """Where they are of the same rank, and not of a launcher."""
    head = [*RAISED[:2], "[rank1]: RuntimeError: createHCCLComm: HcclGetRootInfo, error code is 7"]
    known = "[rank1]: Communication_Error_Get_Socket(EI0006): Getting socket times out."
    assert diagnose([*head, known]).causes[0].cause.name == "hccl-connect"
    assert diagnose([*head, known.replace("rank1", "rank2")]).causes[0].cause.name == "program-error"
    cancelled = "slurmstepd: error: *** STEP 77.0 ON node1 CANCELLED AT 2025-05-05T02:02:02 ***"
    assert diagnose([*RAISED, cancelled]).causes[0].cause.name == "program-error"


def test_a_library_that_only_warned_of_the_driver_is_not_blamed_where_the_program_went_on():
    """It may not need a GPU; a log that ends soon after is another thing."""
    warned = "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 12040)."
    assert diagnose([warned, "evaluating"]).causes[0].cause.name == "driver-too-old"
    went_on = diagnose([warned, *("evaluating part " + letter for letter in "abcdefghijklmnopqrstuvwxyz" * 2)])
    assert not went_on.has_failed
    assert [one.cause.name for one in went_on.notes] == ["driver-too-old"]
