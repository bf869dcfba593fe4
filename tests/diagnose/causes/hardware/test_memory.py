"""Do lines of memory and killed processes lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job_7,mems_allowed=0-1,task=python,pid=12,uid=1000",
        "oom-killed",
    ),
    ("python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0", "oom-killed"),
    (
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of the step tasks have been OOM Killed.",
        "oom-killed",
    ),
    ("terminate called after throwing an instance of 'std::bad_alloc'", "cannot-allocate-memory"),
    (
        "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes.",
        "cannot-allocate-memory",
    ),
    (
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 14.9 GiB for an array with shape (2000000000,) and data type float64",
        "cannot-allocate-memory",
    ),
    ("bash: fork: Cannot allocate memory", "cannot-allocate-memory"),
    ("RuntimeError: unable to write to file </torch_123_456_0>", "shared-memory-full"),
    ("RuntimeError: DataLoader timed out after 60 seconds", "loader-worker-timeout"),
    ("RuntimeError: received 0 items of ancdata", "too-many-open-files"),
    ("bash: fork: retry: Resource temporarily unavailable", "too-many-processes"),
    (
        "OpenBLAS blas_thread_init: pthread_create failed for thread 12 of 64: Resource temporarily unavailable",
        "too-many-processes",
    ),
    ("libgomp: Thread creation failed: Resource temporarily unavailable", "too-many-processes"),
    ("BlockingIOError: [Errno 11] Resource temporarily unavailable", "too-many-processes"),
    ("Fatal Python error: Segmentation fault", "segmentation-fault"),
    (
        "[n1:1234:0:1234] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)",
        "segmentation-fault",
    ),
    ("*** SIGSEGV received at time=1700000000 on cpu 3 ***", "segmentation-fault"),
    ("Segmentation fault (core dumped)", "segmentation-fault"),
    ("malloc(): corrupted top size", "heap-corruption"),
    ("malloc_consolidate(): invalid chunk size", "heap-corruption"),
    ("double free or corruption (!prev)", "heap-corruption"),
    ("corrupted size vs. prev_size while consolidating", "heap-corruption"),
    ("corrupted double-linked list", "heap-corruption"),
    ("*** stack smashing detected ***: terminated", "heap-corruption"),
    ("Fatal Python error: Bus error", "bus-error"),
    ("[n1:1234:0:1234] Caught signal 7 (Bus error: nonexistent physical address)", "bus-error"),
    ("opening remote shared memory object in shm_open: No such file or directory (err=9)", "shared-memory-removed"),
    ("[n7:mpi_rank_3][error_sighandler] Caught error: Segmentation fault (signal 11)", "segmentation-fault"),
    ("[Tue May  7 10:11:12 2024] Out of memory: Killed process 4242 (python) total-vm:1kB", "oom-killed"),
    (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.",
        "oom-killed",
    ),
    ("  exitcode  : -9 (pid: 911)", "killed-by-signal-9"),
    (
        "[launch.py:321:sigkill_handler] ['/usr/bin/python', 'train.py'] exits with return code = -9",
        "killed-by-signal-9",
    ),
    ("OSError: [Errno 12] Cannot allocate memory", "cannot-allocate-memory"),
    (
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
        "shared-memory-full",
    ),
    (
        "n1:7:9 [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
        "shared-memory-full",
    ),
    ("RuntimeError: DataLoader worker (pid(s) 17, 18) exited unexpectedly", "loader-worker-died"),
    (
        "n1:5:8 [0] misc/ibvwrap.cc:300 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
        "memlock-limit",
    ),
    ("OSError: [Errno 24] Too many open files: '/data/part-7'", "too-many-open-files"),
    ("RuntimeError: can't start new thread", "too-many-processes"),
    ("Signal 11 (SIGSEGV) received by PID 99", "segmentation-fault"),
    ("pt_main_thread[1]: segfault at 7f ip 0 sp 0 error 4 in libnccl.so.2[7f+d3000]", "nccl-segfault"),
    ("  exitcode  : -7 (pid: 12)", "bus-error"),
    ("Fatal Python error: Illegal instruction", "illegal-instruction"),
    (
        "n3:1:2 [2] misc/shmutils.cc:145 NCCL WARN unlink shared memory /dev/shm/nccl-d5rTd0 failed, error: No such file or directory",
        "shared-memory-removed",
    ),
    (
        "RuntimeError: could not unlink the shared memory file /torch_51234_3011_77 : No such file or directory (2)",
        "shared-memory-removed",
    ),
    ("Libfabric error: (-12) Cannot allocate memory", "memlock-limit"),
    (
        "libfabric:7:16::efa:mr:efa_mr_regattr():632<warn> Unable to register MR: Cannot allocate memory",
        "memlock-limit",
    ),
    ("srun: error: node7: tasks 6-7: Bus error (core dumped)", "bus-error"),
    ("OutOfMemoryError: Container killed due to memory usage", "oom-killed"),
    ("Warning  SystemOOM  kubelet  System OOM encountered, victim process: python, pid: 77", "oom-killed"),
    (
        "(raylet) node_manager.cc:3064: 0 Workers (tasks / actors) killed due to memory pressure (OOM), 3 Workers crashed due to other reasons at node",
        "",
    ),
    ("It appears as if there is not enough space for /dev/shm/x (the shared-memory backing", "shared-memory-full"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
