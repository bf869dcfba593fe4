"""Which words of NCCL say why a communicator was not made, or broke?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

WARNED = "nccl-warned"  # of lines that no other entry explains

CAUSES = (
    Cause(
        "duplicate-gpu",
        "two ranks use the same GPU (Duplicate GPU detected): the device is not set from LOCAL_RANK, more ranks than GPUs, or two"
        " hosts look like one",
        (r"duplicate gpu detected", r"multiple ranks are using the same gpu/partition"),
        "call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) and start one rank per GPU; where the two ranks are on different nodes,"
        " give the nodes host names of their own (or NCCL_HOSTID)",
        "NVIDIA/nccl#1241; verl-project/verl#1096",
        check="names.hostnames_are_unique",
        weight=6,
    ),
    Cause(
        "nccl-version-mismatch",
        "ranks run different versions of NCCL",
        (
            r"nccl version mismatch",
            r"mismatched nccl version",
        ),
        "install the same torch (or nvidia-nccl) on all nodes; look for another libnccl on LD_LIBRARY_PATH",
        "NVIDIA/nccl",
        check="bench.every_rank_maps_the_same_nccl",
        weight=6,
    ),
    Cause(
        "nccl-symbol-missing",
        "another NCCL than torch's own was loaded (undefined symbol nccl...)",
        (
            r"libnccl\.so\.\d.*(?:no such file|cannot open)",
            r"undefined symbol: p?nccl\w+",
            r"nccl warn invalid config \w+ attribute value",
            r"nccl warn \w+ argument not initialized via",
        ),
        "check `ldd libtorch_cuda.so | grep nccl` and LD_LIBRARY_PATH; remove the system's libnccl or put the wheel's first",
        "cupy/cupy; pytorch/pytorch#119932",
        check="software.one_nccl_can_be_met",
        weight=6,
    ),
    Cause(
        "nccl-mismatched-call",
        "ranks called different collectives, or the same one with different sizes or types",
        (
            r"mismatch between collectives",
            r"message truncated : receiv(?:ed|ing)",
            r"distributedoperationexception",
            r"trying to (?:send|recv) to self without a matching",
            r"symmetric registration check failed on rank \d+.*mismatch",
            r"culprit rank \d+; error type: (?:collective_\w*type|size_or_syntax)_mismatch",
            r"collective mismatch",
            r"mismatched collective detected",
            r"op\.preamble\.length <= op\.nbytes",
            r"inconsistent tensor metadata .*across ranks",
        ),
        "find where ranks take different branches (`if rank == 0`, uneven batches, unused layers); TORCH_DISTRIBUTED_DEBUG=DETAIL"
        " names the call",
        "pytorch/pytorch, torch.distributed debugging",
        weight=6,
        unless=(r"bootstrap_net_recv",),
    ),
    Cause(
        "uneven-parameters",
        "the model is not the same on every rank: the number of parameters or their shapes differ",
        (
            r"appears not to match (?:sizes|strides) of the same param",
            r"ddp expects same model across all ranks",
        ),
        "build the same model on every rank: same code, same configuration, same vocabulary size; compare the files of the nodes",
        "pytorch/pytorch, DistributedDataParallel",
        check="files.same_paths_hold_the_same",
        weight=7,
    ),
    Cause(
        "unused-parameters",
        "parameters did not take part in the loss, so their gradients are never reduced",
        (
            r"expected to have finished reduction in the prior iteration",
            r"parameters that were not used in producing the loss",
            r"parameter(?:s| indices) which did not receive grad",
            r"expected to mark a variable ready only once",
            r"marked as ready twice",
        ),
        "set find_unused_parameters=True (accelerate: DistributedDataParallelKwargs), or use every parameter; with checkpointing"
        " use_reentrant=False",
        "pytorch/pytorch#43259",
        weight=4,
    ),
    Cause(
        "nccl-system-error",
        "a socket, an RDMA adapter or shared memory failed inside NCCL, and the lines do not say which",
        (
            r"unhandled system error",
            r"ncclsystemerror",
        ),
        "run again with NCCL_DEBUG=INFO and read the first NCCL WARN line. Most often it is an interface or address that"
        " the peers cannot reach (NCCL_SOCKET_IFNAME, docker0, a firewall), the GID index of RoCE, a full /dev/shm or the"
        " limit of locked memory: `preflight run` on these nodes tries each",
        "NVIDIA/nccl, types of errors; pytorch/pytorch#81313",
        Kind.SUSPICION,
        check="network.nccl_starts_on_an_interface_of_the_peers",
        weight=0,
    ),
    Cause(
        "nccl-gpu-error",
        "a call to CUDA or HIP failed inside NCCL, and the lines do not say which",
        (
            r"ncclunhandledcudaerror",
            r"unhandled (?:cuda|hip) error",
        ),
        "run again with NCCL_DEBUG=INFO and read the first NCCL WARN line. Most often two ranks share a GPU, two hosts have"
        " the same name or boot id (NCCL takes them for one), the driver is older than NCCL wants, or a GPU is broken"
        " (`dmesg -T | grep Xid`)",
        "NVIDIA/nccl, types of errors",
        Kind.SUSPICION,
        check="gpu.kernel_log_tells_of_no_broken_gpu",
        weight=0,
    ),
    Cause(
        "nccl-error-unknown",
        "NCCL reported an error without saying which call failed",
        (
            r"ncclinternalerror",
            r"ncclinvalidusage",
            r"test nccl failure",
            r"ncclinvalidargument",
            r"nccl error\b.* (?:invalid usage|invalid argument|internal error)",
        ),
        "run again with NCCL_DEBUG=INFO and read the first NCCL WARN line. Invalid usage is most often two ranks on one GPU,"
        " or ranks that call in another order; an internal error is most often an interface or adapter (NCCL_SOCKET_IFNAME,"
        " NCCL_IB_HCA) that a node does not have, or versions of NCCL that differ",
        "NVIDIA/nccl, types of errors",
        Kind.SUSPICION,
        weight=0,
    ),
    Cause(
        WARNED,
        "NCCL printed a warning that preflight does not know",
        (r"(?:nccl|ccom) warn \S",),
        "read the line: its first words name the part of NCCL, and the `-> N` lines after it name the callers",
        "NVIDIA/nccl",
        Kind.NOTE,
        weight=0,
        unless=(
            r"missing \"",
            r"failed to find cuda library",
            r"falling back",
            r"non-fatal",
            r"being ignored",
            r"setting (?:to|nccl_)",
            r"defaulting",
        ),
    ),
    Cause(
        "nccl-cuda-call",
        "a CUDA call of NCCL failed",
        (
            r"nccl warn cuda failure (?!.*(?:out of memory|unsupported display|peer|invalid device pointer|initialization error|driver shutting down|installed cuda driver))",
            r"nccl warn hip failure\b",
            r"test cuda failure",
        ),
        "read the words in quotes, which say why; look for Xid lines in the kernel log of that node; a newer NCCL needs a newer driver",
        "NVIDIA/nccl",
        Kind.SUSPICION,
        check="gpu.driver_runs_the_cuda_of_torch",
        weight=3,
    ),
    Cause(
        "nccl-remote-error",
        "NCCL lost a peer: another rank failed, or the network to it did",
        (
            r"ncclremoteerror",
            r"remote process exited or there was a network error",
            r"nccl warn .*proxy.*fail\w*",
            r"failed to execute operation \w+ from rank",
            r"socket recv failed while polling",
            r"could not receive type from localrank",
            r"communicator was aborted",
            r"nccl communicator encountered error",
            r"communicator encountered a fatal error",
            r"\[service thread\] (?:error|accept failed)",
        ),
        "look for the first failure on the other ranks; without one, at the network between the nodes",
        "NVIDIA/nccl, types of errors",
        Kind.CONSEQUENCE,
        weight=3,
    ),
    Cause(
        "ras-names-ranks",
        "NCCL's RAS names ranks that differ from the others: they launched fewer or more collectives, or their process does not answer",
        (
            r"\brank \d+ .*managed by process \d+ on node (?P<node>[\w.:-]*\w)",
            r"\bprocess \d+ on node (?P<node>[\w.:-]*\w) managing gpus? ",
            r"considered dead \(unreachable via the ras network\)",
            r"missing communicator data from \d+ (?:job process|rank)",
            r"communicator ranks have different \w+(?: operation counts)?$",
        ),
        "run `ncclras` again after some seconds: where the same ranks are named and stand still, their own logs, `py-spy dump` on"
        " their processes and the kernel logs of their nodes say why; a process that is dead or missing comes first",
        "NVIDIA/nccl, RAS; NVIDIA/nccl#1911",
        Kind.SUSPICION,
        weight=4,
    ),
    Cause(
        "launch-blocking",
        "CUDA_LAUNCH_BLOCKING=1 is set: with NCCL over the network it can lock up",
        (r"cuda_launch_blocking=1",),
        "unset CUDA_LAUNCH_BLOCKING for multi-node runs",
        "NVIDIA/nccl#750",
        Kind.NOTE,
        check="environment.nothing_is_left_from_debugging",
        unless=(r"consider passing",),
    ),
    Cause(
        "barrier-device-guess",
        "a barrier guesses the GPU of the rank: the device was not set before it",
        (
            r"using gpu \d+ to perform barrier as devices used by this process are currently unknown",
            r"no device id is provided via",
        ),
        "call torch.cuda.set_device(LOCAL_RANK) first, or give device_id in init_process_group",
        "pytorch/pytorch",
        Kind.NOTE,
    ),
)
