"""May the job's processes lock, open and share as much as they need?"""

import pytest

from preflight.facts.value import present
from preflight.judge.tables.network import rails
from preflight.said import joined, said
from preflight.said.errors import Blame, NotApplicable

DATA_LOADER_BYTES = 18 << 20  # a batch of 32 pictures, 3 x 224 x 224 numbers of four bytes
NCCL_SEGMENT_BYTES = 9_637_888  # "Error while creating shared memory segment /dev/shm/nccl-... (size 9637888)"


def test_memlock_is_enough_for_rdma(node, settings):
    """Where RDMA is there, a process may lock as much memory as NCCL registers.

    With the usual 64 KiB or 8 MiB, NCCL ends with "ibv_reg_mr failed: Cannot allocate memory" on this node.
    Fix: `* soft memlock unlimited` and `* hard memlock unlimited` in /etc/security/limits.d, LimitMEMLOCK=infinity
    for the service that starts the job, `--ulimit memlock=-1` for a container; log in again. Slurm also hands on the
    limits of the shell that submits: PropagateResourceLimitsExcept=MEMLOCK in slurm.conf.
    """
    if not node.rdma.active_ports() and not rails.has_slingshot(node):
        raise NotApplicable("no active RDMA port and no Slingshot on this node")
    if node.without_rdma():
        raise NotApplicable(node.without_rdma())
    limit, wanted = node.limits.memlock_soft_bytes, settings.limits.memlock_min_bytes
    assert limit == "unlimited" or limit >= wanted, said(
        "memlock: {limit} bytes in this {context} session, {memlock_hard_bytes} at most; wanted at least {wanted}",
        limit,
        node.identity.context,
        node.limits.memlock_hard_bytes,
        wanted,
    )


@pytest.mark.advisory
def test_enough_files_may_be_open(node, settings):
    """A process may open as many files as data loaders and connections to many ranks need.

    With the usual 1024, a job of many ranks or workers ends with "Too many open files", often hours later.
    Fix: `* soft nofile 65536` in /etc/security/limits.d, or `ulimit -n 65536` in the line that starts the job.
    """
    limit, wanted = node.limits.nofile_soft, settings.limits.nofile_min
    assert limit == "unlimited" or limit >= wanted, said(
        "open files: {limit} in this {context} session, {nofile_hard} at most; wanted at least {wanted}",
        limit,
        node.identity.context,
        node.limits.nofile_hard,
        wanted,
    )


def test_shared_memory_is_enough(node, settings):
    """Shared memory has room for what the ranks of a node and their data loaders put there.

    A container's usual 64 MiB ends NCCL with "No space left on device" and data loaders with a bus error. It fails
    where not even one of NCCL's own segments for each GPU fits, or the first batch of a data loader.
    Fix: `rm` what ended jobs left there, `--shm-size=16g` or `--ipc=host` for a container, and `mount -o
    remount,size=16g /dev/shm` elsewhere.
    """
    gpus = len(node.gpu.readable())
    wanted = settings.limits.shm_min_bytes_per_gpu * gpus if gpus else settings.limits.shm_min_bytes
    free = node.limits.free_shared_memory_bytes()
    if node.limits.shm_is_writable is False:
        message = "shared memory: /dev/shm may not be written here: it is mounted read-only, or its mode is not 1777"
        raise Blame(message, nodes=[node.name], is_advisory=node.backend != "nccl" or gpus < 2)
    if free < wanted:
        held = present(node.limits.shm_total_bytes, "size of /dev/shm")
        message = said("shared memory: {free} of {held} MiB are free in /dev/shm", free >> 20, held >> 20)
        message += said("; wanted at least {wanted} MiB for {gpus} GPU{s}", wanted >> 20, gpus, "s" * (gpus != 1))
        for one in node.limits.held:
            message += said("; {name} of user {user_id}: {bytes} MiB", one.name, one.user_id, one.bytes >> 20)
        is_full = free < DATA_LOADER_BYTES
        is_sure = is_full or (node.backend == "nccl" and gpus > 1 and free < NCCL_SEGMENT_BYTES * gpus)
        raise Blame(message, nodes=[node.name], is_advisory=not is_sure)


def test_devices_of_every_program_are_there(node):
    """/dev/null, /dev/zero and /dev/urandom are devices, and the user may use them.

    A program that root ran with `-o /dev/null`, and that replaces its output, leaves a plain file there: it fills up
    with what others throw away, and users get "/dev/null: Permission denied" from every script that starts a job. While
    the user may write to /dev/null, it is a warning.
    Fix: `rm -f /dev/null && mknod -m 666 /dev/null c 1 3` as root on the nodes named (/dev/zero: c 1 5, /dev/urandom:
    c 1 9), or a reboot.
    """
    faults = present(node.limits.device_faults, "devices")
    if faults:
        raise Blame(joined(faults), nodes=[node.name], is_advisory=node.limits.has_null)


@pytest.mark.advisory
def test_nothing_is_left_behind(node):
    """No earlier run of preflight left anything in /dev/shm.

    It holds memory of the node, and means that a run was killed so abruptly that it could not clean up.
    Fix: `rm -r` of what is named, once no other preflight runs on the node.
    """
    left = node.limits.leftovers
    assert not left, said("left by an earlier run: {left}", ", ".join(left))


@pytest.mark.advisory
def test_processes_may_be_started(node, settings):
    """A user may have as many processes and threads as ranks, data loaders and libraries start.

    Threads count: 8 ranks with 16 loader processes and their OpenMP threads are thousands, and a limit of 1024 ends
    them with "Resource temporarily unavailable".
    Fix: `* soft nproc unlimited` in /etc/security/limits.d, `--pids-limit=-1` for a container, podPidsLimit on
    Kubernetes, TasksMax=infinity for a service; log in again.
    """
    limit, wanted = node.kernel.processes(node.limits.nproc_soft), settings.limits.nproc_min
    assert limit == "unlimited" or limit >= wanted, said(
        "processes: {limit} in this {context} session; wanted at least {wanted}", limit, node.identity.context, wanted
    )


def test_nothing_else_is_limited(node):
    """No limit holds down the memory, the stack, the size of files or the CPU time of the job's processes.

    CUDA reserves addresses for many times the memory of all GPUs: under `ulimit -v` or `-d` NCCL ends at its start with
    "out of memory". A checkpoint ends with "File too large", a rank is killed when its CPU seconds are used up, and a
    thread with a stack of less than 1 MiB dies of a segmentation fault. Login shells of shared machines set limits. It
    is a failure where no job gets far: 512 MiB of address space, 64 MiB of data, files of 1 MiB, ten minutes of CPU
    time, a stack of 128 KiB.
    Fix: run the command in the finding before the job, in the line that starts it, or raise `as`, `data`, `stack`,
    `fsize` and `cpu` in /etc/security/limits.d on the nodes named.
    """
    found = node.limits.held_down()
    if found:
        gpus = node.gpu.readable() if node.backend == "nccl" and "-v" in found else ()
        message = said("limits of this {context} session: {values}", node.identity.context, ", ".join(found.values()))
        options = " ".join(f"{option} {'8192' if option == '-s' else 'unlimited'}" for option in found)
        fix = said(
            "`ulimit {options}` before the job, in the line that starts it; for all sessions /etc/security/limits.d",
            options,
        )
        raise Blame(message, nodes=[node.name], fix=fix, is_advisory=not gpus and not node.limits.is_hopeless())
