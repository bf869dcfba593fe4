"""Which words of NCCL speak of its paths: shared memory, NVLink, plugins, sockets?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

CAUSES = (
    Cause(
        "nccl-shm-open",
        "NCCL could not make or open its shared memory",
        (
            r"error: failed to (?:create|open|extend) .*/dev/shm/nccl-",
            r"error while (?:creating|attaching to) shared memory segment",
            r"call to shm_open failed",
            r"call to posix_fallocate failed",
        ),
        "check `df -h /dev/shm` and `ls -ld /dev/shm`; a container needs --shm-size, several containers of one"
        " host --ipc=host; remove files that dead jobs left: /dev/shm/nccl-*",
        "NVIDIA/nccl#290",
        check="limits.shared_memory_is_enough",
        weight=5,
    ),
    Cause(
        "nccl-topology",
        "NCCL cannot make sense of the node's PCI topology, or of NCCL_TOPO_FILE",
        (
            r"nvmldevicegethandlebypcibusid\(\) failed",
            r"could not find net with id",
            r"attribute \w+ of node \w+ not found",
            r"graph/\S+ nccl warn .*could not find\b",
            r"nccl warn failed to find reverse path",
            r"nccl warn no path computed to go",
            r"nccl warn error : ring \d+ does not (?:loop|contain)",
            r"nccl warn xml (?:parse|mismatch|topology|graph)\b",
            r"nccl warn could not open xml",
        ),
        "unset NCCL_TOPO_FILE, or give the file of this machine type; update NCCL (2.27.3 or later for NET with id 0)",
        "NVIDIA/nccl#1672",
        unless=(r"falling back to", r"nccl info"),
        check="gpu.adapters_are_as_near_on_every_node",
        weight=4,
    ),
    Cause(
        "nccl-plugin-lost",
        "the network plug-in that NCCL_NET or NCCL_NET_PLUGIN names is not there: NCCL goes on with what it has built in",
        (),
        "put the folder of libnccl-net-NAME.so on LD_LIBRARY_PATH in every rank (in the container too), or unset the variable",
        "NVIDIA/nccl, src/plugin",
        Kind.NOTE,
        check="rdma.plugin_of_nccl_is_there",
    ),
    Cause(
        "nccl-plugin-failed",
        "a network plug-in of NCCL failed to start",
        (
            r"failed to initialize (?:any )?net plugin",
            r"error: network .*not found",
        ),
        "install the plug-in that NCCL_NET names in every container, or unset NCCL_NET and NCCL_NET_PLUGIN",
        "NVIDIA/nccl",
        check="environment.values_are_possible",
        weight=5,
        unless=(r"nccl info",),
    ),
    Cause(
        "nccl-net-mismatch",
        "ranks found different networks: some use InfiniBand and others sockets, or their numbers of adapters differ",
        (
            r"attempted to connect incompatible devices",
            r"remote \w+ device is incompatible with the local",
            r"detected mixed local (?:collnet|net) device counts across ranks",
            r"attempted to merge incompatible devices",
        ),
        "give every container the same RDMA devices; set NCCL_IB_HCA and NCCL_NET the same on all nodes",
        "NVIDIA/nccl",
        check="rdma.port_count_is_the_same_on_every_node",
        weight=5,
        unless=(r"ignoring due to",),
    ),
    Cause(
        "nccl-p2p-slow-or-hang",
        "GPUs of one node cannot exchange data directly: ACS, IOMMU or a fault of the bus",
        (
            r"dmar: .*fault",
            r"occurs when acs is enabled",
            r"amd-vi: .*io_page_fault",
        ),
        "switch ACS off (`setpci`, BIOS) and set iommu=pt; NCCL_P2P_DISABLE=1 or NCCL_SHM_DISABLE=1 shows which path is broken",
        "NVIDIA/nccl#199, NCCL troubleshooting",
        Kind.SUSPICION,
        check="gpu.acs_leaves_peer_to_peer_alone",
        weight=4,
    ),
    Cause(
        "nccl-imex",
        "NVLink between nodes (MNNVL) cannot be used: no IMEX channel in the container, or nvidia-imex does not run",
        (
            r"mnnvl .*(?:not working|unhealthy|failed)",
            r"cuda failure (?:\d+ )?'operation not permitted'",
            r"nvidia-imex.*(?:fail|error|not running|unavailable)\w*",
            r"nvidia-caps-imex-channels.*(?:no such|denied|missing)",
            r"cuda_error_not_permitted.*cumem",
            r"cumem(?:create|export|import)\w* .*not permitted",
            r"\bcumemcreate failed: 800\b",
        ),
        "`nvidia-imex-ctl -N` must show every node READY, and the container must have"
        " /dev/nvidia-caps-imex-channels/channel0; NCCL_MNNVL_ENABLE=0 works around it",
        "NVIDIA/nccl, environment variables; NVIDIA IMEX guide",
        check="gpu.imex_joins_an_nvlink_domain",
        weight=6,
        unless=(r"nccl info",),
    ),
    Cause(
        "nccl-no-transport",
        "NCCL has no path between two ranks: each possible one is switched off or cannot be used",
        (r"nccl warn no transport found for rank", r"nccl warn rank \d+ has no transport for"),
        "unset NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_IB_DISABLE and NCCL_NET; two nodes need a network that"
        " both see, two GPUs of a node at least shared memory (/dev/shm, the same IPC namespace)",
        "NVIDIA/nccl, src/transport.cc",
        check="environment.values_are_possible",
        weight=6,
    ),
    Cause(
        "nccl-local-socket",
        "ranks of one node could not talk over NCCL's local sockets: they are in containers or network"
        " namespaces of their own, or the other rank died",
        (r"nccl warn uds: .*failed",),
        "start all ranks of a node in one container (or with --network=host and --ipc=host), or give each"
        " container an NCCL_HOSTID of its own; NCCL_CUMEM_ENABLE=0 works around it; where the ranks are not in"
        " containers, look for the one that ended first",
        "NVIDIA/nccl, src/os/linux_ipcsocket.cc",
        Kind.SUSPICION,
        weight=4,
    ),
    Cause(
        "nccl-peer-import",
        "NCCL could not open memory of a peer's GPU: the ranks of one node are in containers that see different"
        " GPUs, or an NVLink domain (IMEX) does not include both",
        (
            r"transport/(?:p2p|nvls)\.cc:\d+ nccl warn cuda failure (?:\d+ )?'(?:invalid device ordinal|invalid resource handle)'",
        ),
        "let every rank of a node see all its GPUs (one container a node); for an NVLink domain run"
        " `nvidia-imex-ctl -N`; NCCL_MNNVL_ENABLE=0, then NCCL_P2P_DISABLE=1, show which of the two it is",
        "NVIDIA/nccl#1647; kubernetes-sigs/dra-driver-nvidia-gpu#294",
        check="gpu.imex_joins_an_nvlink_domain",
        weight=6,
    ),
    Cause(
        "nccl-symmetric",
        "NCCL's symmetric memory could not be used: the communicator was not made yet, or torch was built with another NCCL",
        (
            r"failed to window register",
            r"nccldevcommcreate failed",
            r"nccl library is (?:too old|not backwards compatible)",
            r"compiled with too old version of nccl",
            r"communicator does not support symmetric memory",
        ),
        "give device_id to init_process_group, so that the communicator exists before; load the NCCL that torch"
        " was built with (`torch.cuda.nccl.version()`)",
        "pytorch/pytorch#188567, #172398",
        Kind.SUSPICION,
        check="software.one_nccl_can_be_met",
        weight=5,
    ),
    Cause(
        "tcpx-waits",
        "GPUDirect-TCPX waited for data of a peer: the peer is late or gone, or its receive daemon (RxDM) does not run",
        (r"tcpxcommprogress.*ctrl timeout",),
        "look at the peer in the line, in its rank's log and in that of the RxDM container on that node; use the"
        " same driver and plug-in on every node",
        "google/nccl-plugin-gpudirecttcpx#1",
        Kind.SUSPICION,
        weight=2,
    ),
    Cause(
        "nccl-nvls",
        "NVLink SHARP (NVLS) could not be set up",
        (r"nvls.*(?:fail|error)",),
        "NCCL_NVLS_ENABLE=0 works around it; else restart nvidia-fabricmanager and check the GPUs' fabric partition",
        "NVIDIA/nccl#976",
        check="gpu.fabric_manager_runs_where_it_is_needed",
        weight=5,
    ),
    Cause(
        "cumem-host",
        "NCCL's CUDA memory pools fail in this container or driver",
        (
            r"cumemcreate .*fail",
            r"cumemexporttoshareablehandle .*fail",
            r"cuda failure .*'operation not supported'",
        ),
        "set NCCL_CUMEM_ENABLE=0 and NCCL_CUMEM_HOST_ENABLE=0; update NCCL",
        "NVIDIA/nccl#1234",
        Kind.SUSPICION,
        weight=3,
        unless=(r"nccl info", r"failed: 800\b"),
    ),
)
