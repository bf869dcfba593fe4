"""Which words say that mpirun did not start, place or connect the processes?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

CAUSES = (
    Cause(
        "mpi-oob",
        "mpirun's daemons cannot start or reach each other",
        (
            r"orte does not know how to route a message",
            r"ompi_rte_init failed",
            r"tcp_peer_send_blocking",
            r"received unexpected process identifier",
            r"at least one pair of mpi processes are unable to reach each other",
            r"btl_tcp.*connect\(\).*failed",
            r"open mpi (?:detected an inbound|accepted a) \S*\s?tcp connection",
            r"pmix error: ",
            r"pmi\w*_init failed",
            r"mpi[ri]_init_thread\(\d+\).*failed",
            r"was unable to reliably start one or more daemons",
            r"an? [op]rte daemon has unexpectedly failed",
            r"no usable network interfaces were found on this host, so",
        ),
        "set --mca btl_tcp_if_include and oob_tcp_if_include to the network that all share; use the same MPI on"
        " every node; open the firewall between them",
        "open-mpi/ompi FAQ",
        check="trust.every_node_logs_in_to_the_others",
        weight=4,
        unless=(r"gds_(?:ds(?:12|21|tore)|hash)",),
    ),
    Cause(
        "mpi-daemon-lost",
        "mpirun lost its daemon on a node while the job ran: the node or the pod went down, the daemon was killed, or the network to"
        " it was cut",
        (
            r"\b[op]rte has lost communication with (?:a remote|its) daemon",
            r"remote daemon ?: \S+ on node (?P<node>[\w.-]*\w)",
        ),
        "look at the node after `Remote daemon`: its kernel log, `kubectl describe pod`, memory and link; where"
        " every start ends like this, set --mca oob_tcp_if_include (prte_if_include) to the network that all share",
        "open-mpi/ompi#6618, #12840",
        Kind.SUSPICION,
        check="reach.every_node_answers",
        weight=5,
    ),
    Cause(
        "mpi-hydra",
        "mpiexec (MPICH, Intel MPI) cannot start its proxy on a node, or the proxy cannot connect back to it",
        (
            r"unable to run (?:bstrap_)?proxy on (?P<node>[\w.-]*\w)",
            r"proxy:\d+:\d+@(?P<node>[\w.-]+)\] .*unable to (?:connect|get host address)",
            r"error setting up the bootstrap proxies",
            r"hyd\w*_sock_connect .*unable to",
        ),
        "`ssh NODE true` must succeed, and MPI must have the same path on every node; set"
        " I_MPI_HYDRA_BOOTSTRAP=ssh (-launcher ssh), and I_MPI_HYDRA_IFACE (-iface) to the network that all"
        " share; open all ports in the firewall, or set I_MPI_PORT_RANGE (MPIEXEC_PORT_RANGE)",
        "pmodels/mpich, hydra; Intel MPI, developer reference",
        check="trust.every_node_logs_in_to_the_others",
        weight=5,
    ),
    Cause(
        "mpi-root",
        "mpirun refuses to run as root",
        (r"has detected an attempt to run as root",),
        "give --allow-run-as-root (in a container), or use another user",
        "open-mpi/ompi",
        weight=5,
    ),
    Cause(
        "mpi-placement",
        "mpirun cannot place the processes as asked: the allocation has fewer slots, CPUs or devices, or other nodes",
        (
            r"your job failed to map",
            r"your job has requested more processes than the ppr",
            r"a request was made to bind that would (?:require|result)",
            r"a request was made to bind to .*(?:but|however)",
            r"a request was made to map .*(?:cpus|object)",
            r"no nodes are available for this job, either due to",
            r"nodes which are allocated for this job are already filled",
            r"there are no allocated resources for the application",
            r"requested hosts (?:is|are) not included in the current",
            r"we found no available cpus on",
            r"more processes were requested than there are devices to map",
            r"the (?:mapping|binding|ranking) request contains an unrecognized",
            r"the specified (?:mapping|binding|ranking) (?:directive|policy) is not recognized",
            r"error, invalid syntax in the rankfile",
            r"the rankfile that was used claimed",
            r"a sequential map was requested, but not enough",
            r"affinity file provided in lsb_affinity_hostfile could not be found",
            r"specified (?:sequence|lsf affinity) file contained a node",
            r"a process attempted to bind to resources already allocated",
        ),
        "compare -np, --map-by and --bind-to with the allocation (`scontrol show hostnames`, slots=N of the"
        " hostfile, the CPUs of the job's cgroup); try --bind-to none",
        "openpmix/prrte, rmaps; open-mpi/ompi",
        weight=5,
    ),
    Cause(
        "mpi-transport",
        "MPI has no transport that works between these processes: its plug-in, library or device is missing or fails on a node",
        (
            r"mpi_init has failed because at least one mpi process is unreachable",
            r"no components were able to be opened in the \w+ framework",
            r"requested component was not found, or was unable to be opened",
            r"pml \w+ cannot be selected",
            r"pml add procs failed",
            r"open mpi failed an ofi libfabric library call \((?!fi_(?:fabric|domain|endpoint|av_open|cq_open|enable|ep_bind)\))",
            r"the ofi mtl was not able to find endpoint information",
            r"open mpi failed to tcp connect to a peer mpi process",
            r"open mpi failed to register your buffer",
            r"no sockets were able to be opened on the available protocols",
        ),
        "run `ompi_info | grep -E 'pml|btl|mtl'` and `ucx_info -d` on the node named; try --mca pml ob1 --mca"
        " btl self,sm,tcp with btl_tcp_if_include set to the network that all share",
        "open-mpi/ompi",
        check="trust.every_node_logs_in_to_the_others",
        weight=5,
    ),
    Cause(
        "mpi-version",
        "the processes of one MPI job use different versions of MPI, or the program uses another MPI than mpirun",
        (
            r"detected a mismatch in versions between two processes",
            r"did not receive version information when connecting between",
            r"unable to find an underlying prterun",
            r"pmix server was reachable, but a pmi1",
        ),
        "compare `which mpirun` and `mpirun --version` on every node, and `ldd` of the program; start it with"
        " the mpirun of the MPI it was built with",
        "openpmix/prrte; open-mpi/ompi",
        check="software.versions_are_the_same_on_every_node",
        weight=6,
    ),
    Cause(
        "mpi-shared-memory-heap",
        "Intel MPI found no room in its shared memory for the ranks of a node",
        (r"assertion failed in file \S*ch4_shm\w*\.c\b",),
        "set I_MPI_SHM_HEAP_VSIZE=8192 (MiB of each rank); `df -h /dev/shm` on the node; I_MPI_SHM=off shows whether it is that",
        "SeisSol/SeisSol#691",
        Kind.SUSPICION,
        check="limits.shared_memory_is_enough",
        weight=5,
    ),
    Cause(
        "mpi-error",
        "a call of MPI failed in one process, and MPI ended the job",
        (
            r"\*\*\* an error occurred in mpi_\w+",
            r"\*\*\* mpi_err(?:_\w+)?:",
            r"fatal error in (?:p?mpi_\w+|internal_\w+):",
            r"assertion failed in file \S*/mpid?/\S+ at line",
            r"mpi_init\w* failed for some reason",
        ),
        "read the name of the error below it: MPI_ERR_TRUNCATE means a call that does not match between ranks;"
        " the reason for MPI_ERR_OTHER or MPI_ERR_INTERN is in the lines above",
        "open-mpi/ompi; pmodels/mpich",
        Kind.SUSPICION,
        weight=2,
    ),
)
