"""Which cause does the last word of a failed rank speak of, and what fixes it?"""

from __future__ import annotations

import re
from typing import NamedTuple


class Symptom(NamedTuple):
    """Words that a library leaves behind (a regular expression), what they mean, and what to do."""

    words: str
    cause: str
    fix: str


# The first row that fits holds: what is particular stands before what is general.
SYMPTOMS = (
    Symptom(
        r"Unable to find (address for|interface)|no socket interface found|ifname|enumerating interfaces",
        "wrong interface: the interface named for the job is not there, or has no address",
        "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to an interface that `ip -brief address` lists on every node",
    ),
    Symptom(
        r"127\.0\.\d+\.\d+.*(refused|unreachable|reset)|(refused|unreachable|reset).*127\.0\.\d+\.\d+",
        "the address is loopback: a name of another node leads to 127.0.0.0/8 here",
        "in /etc/hosts give the node's own name its address on the training network, not 127.0.1.1",
    ),
    Symptom(
        r"Address already in use|EADDRINUSE",
        "the port is taken: another job, or a rank that was started twice",
        "end what holds the port (`ss -ltnp`), and give every node its own node rank",
    ),
    Symptom(
        r"sees a world of|world.?size|clients joined|expected .* workers",
        "the world size is wrong: ranks expect more, or fewer, than were started",
        "make nodes x ranks per node equal WORLD_SIZE (num_processes) on every node; start all of them",
    ),
    Symptom(
        r"Duplicate GPU",
        "two ranks use one GPU",
        "start one rank a GPU, each with its own LOCAL_RANK; give CUDA_VISIBLE_DEVICES every GPU, each once",
    ),
    Symptom(
        r"invalid device ordinal",
        "more ranks than GPUs: CUDA shows this rank fewer than its LOCAL_RANK counts",
        "compare `nvidia-smi -L` with CUDA_VISIBLE_DEVICES on the node, and see whether MIG is on",
    ),
    Symptom(
        r"Duplicate rank|already (joined|exists)|same rank",
        "a rank was started twice",
        "give every node its own node rank (machine_rank, --node-rank), counted from 0",
    ),
    Symptom(
        r"ImportError|ModuleNotFoundError|undefined symbol|cannot open shared object|version mismatch|GLIBC",
        "the installation differs: a library is missing here, or has another version",
        "install the same torch, CUDA and NCCL as on the other nodes (`preflight facts` marks what differs)",
    ),
    Symptom(
        r"ibv_reg_mr|ibv_create_(cq|qp).*Cannot allocate",
        "memory could not be locked for the network adapter: memlock is too low, or GPUDirect RDMA is refused",
        "`ulimit -l` must be unlimited for the ranks (LimitMEMLOCK of sshd or slurmd, --ulimit memlock=-1 of a"
        " container); `lsmod | grep nvidia_peermem`",
    ),
    Symptom(
        r"/dev/shm/nccl-",
        "no room in /dev/shm for what the ranks of a node share",
        "look at `df -h /dev/shm`; give a container --shm-size=16g or --ipc=host",
    ),
    Symptom(
        r"vendor err 129|IBV_WC_RETRY_EXC_ERR|Got completion from peer .*(status=|error )(5|12|13)\b",
        "InfiniBand or RoCE lost the way to the peer in the message: nothing came back, however often it was sent",
        "`ibstat` and the error counters of both ends; on RoCE see that both use GIDs of one"
        " kind and subnet (NCCL_IB_GID_INDEX), and that the switch is lossless for that class",
    ),
    Symptom(
        r"ibv_modify_qp",
        "two RDMA ports cannot be connected: their GIDs, subnets or MTUs do not fit, or one port is down",
        "compare `show_gids` and `ibstat` on both nodes; give the ports of one fabric with NCCL_IB_HCA",
    ),
    Symptom(
        r"No space left|Disk quota|Bus error",
        "no room left in memory or on disk",
        "look at `df -h /dev/shm` and the job's folders; give a container a larger --shm-size",
    ),
    Symptom(
        r"out of memory|OutOfMemory|Cannot allocate",
        "out of memory",
        "see what else runs there (`nvidia-smi`, `free -g`); use fewer ranks or a smaller model",
    ),
    Symptom(
        r"Permission denied|Operation not permitted|Read-only file system",
        "not permitted here",
        "look at the rights of the path or device in the message, as the user that starts the job",
    ),
    Symptom(
        r"No route to host|Network is unreachable|Host is unreachable",
        "no route: the nodes do not use the same network, or the first node's address is of another",
        "compare `ip route get <MASTER_ADDR>` on the nodes; set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to the"
        " interface of the network that all share",
    ),
    Symptom(
        r"Connection refused|Connection timed out|timed? ?out|Timeout|connect\(\) failed",
        "a port is closed, or a rank that should answer is missing",
        "open the random ports between the nodes in both directions; see that every node starts its ranks",
    ),
)
KILLED = {
    "-9": Symptom(
        "",
        "killed from outside: the out-of-memory killer, a limit of the scheduler, or a person",
        "`dmesg -T | grep -i -E 'oom|killed'` on the node, and its memory limit (cgroup)",
    ),
    "-15": Symptom("", "ended from outside by SIGTERM", "ask the scheduler, or who else uses the node"),
    "-11": Symptom(
        "", "crashed in native code", "`dmesg -T | tail` on the node; compare driver and libraries with the others"
    ),
    "-7": Symptom("", "no room left in shared memory", "look at `df -h /dev/shm`; a container needs --shm-size"),
    "-6": Symptom("", "a library gave up (abort)", "read the rank's log; compare library versions with the others"),
}
UNKNOWN = Symptom("", "", "")
SILENT = Symptom(
    "",
    "it hangs, is stopped, or was never started while the others waited for it",
    "`ps -o pid,stat,wchan:20,cmd` on the node (T is stopped, D hangs in the kernel); `py-spy dump -p PID`",
)


def symptom(*, text: str, exited: str) -> Symptom:
    """What a rank's last words, or the way it ended, speak of; SILENT where there is neither."""
    for row in SYMPTOMS:
        if re.search(row.words, text, re.IGNORECASE):
            return row
    if exited in KILLED:
        return KILLED[exited]
    if text or exited not in {"", "stopped", "time limit"}:
        return UNKNOWN
    return SILENT
