"""Which words of UCX say what the node did not give it?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

CAUSES = (
    Cause(
        "sysv-shared-memory",
        "a process got no System V shared memory: all segments or their total size are used up, most often by what dead jobs left, or"
        " huge pages are not allowed",
        (r"\bshmget\b.*(?:no space left|cannot allocate|operation not permitted|invalid argument|not implemented)",),
        "`ipcs -m` on the node lists segments: remove those without a process (`ipcrm -m ID`); of `sysctl kernel.shmmni"
        " kernel.shmall kernel.shmmax`, raise the one that `ipcs -u` shows to be nearly used up; UCX_TLS=^sysv (Open MPI: `--mca shmem ^sysv`)"
        " does without such memory",
        "openucx/ucx#9347, #5280; shmget(2)",
        Kind.SUSPICION,
        check="limits.shared_memory_is_enough",
        weight=6,
    ),
    Cause(
        "rdma-doorbells",
        "an RDMA adapter has no doorbell page (UAR) left for another process: its BAR is small, or there are many ranks on the node",
        (
            r"alloc_uar\(0x802\) .*failed",
            r"mlx5dv_devx_alloc_uar\(.*failed",
            r"ibv_open_device\(\S*\) failed: cannot allocate memory",
        ),
        "`dmesg -T | grep ALLOC_UAR` on the node; end what earlier jobs left, start fewer ranks a node or fewer endpoints; `mlxconfig -d"
        " DEVICE set PF_LOG_BAR_SIZE=8` (VF_LOG_BAR_SIZE for a virtual function) and a reboot make more; where the line says `not supported`,"
        " use driver and rdma-core of one release",
        "openucx/ucx#6049, #9986; open-mpi/ompi#6854",
        Kind.SUSPICION,
        check="rdma.ports_are_sound",
        weight=7,
    ),
    Cause(
        "ucx-cuda-context",
        "UCX met memory of a GPU in a process that has no CUDA context on that thread: MPI was called before the GPU was chosen, or from"
        " a thread of its own",
        (r"\bucx +error .*\binvalid device context",),
        "call torch.cuda.set_device(LOCAL_RANK) and make one tensor on the GPU before MPI_Init and the first collective, or use the backend"
        " nccl for tensors on a GPU; UCX_TLS=^cuda_ipc shows whether it is only that path",
        "pytorch/pytorch#31528; openucx/ucx, src/uct/cuda/cuda_ipc",
        Kind.SUSPICION,
        weight=6,
    ),
    Cause(
        "rdma-registration",
        "an adapter could not register the node's own memory: the limit of locked memory, too many mappings of the process, or pages that"
        " cannot be pinned",
        (
            r"\bibv_(?:exp_)?reg_mr\w*\(.*\) failed: (?:cannot allocate memory|resource temporarily unavailable|operation not permitted)",
            r"failed to register address \S+ mem_type bit 0x1 .*input/output error",
            r"failed to register address \S+ \(host\) .*input/output error",
        ),
        "`ulimit -l` inside the job must be unlimited; then `sysctl -w vm.max_map_count=262144`; a file system whose files cannot be pinned,"
        " and huge pages without RDMAV_HUGEPAGES_SAFE=1, have the same effect",
        "openucx/ucx#5291, #6264; openucx/ucx, src/uct/ib/base/ib_md.c",
        Kind.SUSPICION,
        check="limits.memlock_is_enough_for_rdma",
        weight=6,
    ),
    Cause(
        "ucx-error",
        "UCX could not reach a peer or found no transport",
        (
            r"ucx +error",
            r"nixl_err_backend",
            r"ucp_ep_create\b.*failed",
            r"failed to (?:resolve ucx endpoint|receive ucx worker address)",
        ),
        "set UCX_NET_DEVICES and UCX_TLS to the network that all nodes share; `ucx_info -d` on both ends",
        "openucx/ucx#5148",
        Kind.SUSPICION,
        check="mesh.every_node_reaches_every_other_on_random_ports",
        weight=3,
    ),
)
