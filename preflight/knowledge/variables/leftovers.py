"""Which variables, set for troubleshooting, slow a job down or stop it long after the fault is gone?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from preflight.knowledge.variables.names import CUDA, NCCL, NCCL_SOURCE, TORCH, TORCH_DIST
from preflight.said import said

OFI = "https://github.com/aws/aws-ofi-nccl"
ROCM = "https://rocm.docs.amd.com/en/latest/reference/env-variables.html"
BUFFERS = "a tuning that is off by default, and has frozen small messages"
IDLE_NVLINK = "GPUs of a node no longer copy to each other: NVLink lies idle"
OVER_TCP = "RDMA is not used: all data goes over TCP"
JAM = "a short jam of the fabric ends the job (IBV_WC_RETRY_EXC_ERR)"
FEW_CHANNELS = "few channels: a fraction of the bandwidth"
SWITCHED_ON, YES, NO = "[1-9].*", "(?i)1|y|yes|t|true", "(?i)0|n|no|f|false"


@dataclass(frozen=True)
class Leftover:
    """A variable set for troubleshooting, the values at which it does something, and what it does to a job.

    ``example`` is such a value; ``neighbour`` is one that is near to it and does nothing.
    """

    name: str
    values: str  # a regular expression for the whole value
    does: str
    example: str
    neighbour: str
    source: str
    needs_rdma: bool = False  # without RDMA there is nothing that it could switch off
    but_for: str = ""  # a regular expression of the RDMA devices whose vendor asks for it, or the GPUs that lack it


LEFTOVERS = (
    Leftover(
        "LD_LIBRARY_PATH",
        "(.*:)?[^:]*/stubs/*(:.*)?",
        "the stub of the driver, meant for linking only, is loaded in its place: CUDA finds no GPU",
        "/usr/local/cuda/lib64/stubs:/usr/lib",
        "/usr/local/cuda/lib64:/opt/stubs-1/lib",
        CUDA,
    ),
    Leftover(
        "CUDA_LAUNCH_BLOCKING",
        "1",
        "every kernel is waited for: slow, and over a network NCCL can wait for itself forever",
        "1",
        "0",
        CUDA,
    ),
    Leftover("CUDA_CACHE_DISABLE", "1", "every start compiles its kernels again", "1", "0", CUDA),
    Leftover("NCCL_DEBUG", "(?i)TRACE", "NCCL writes a line for every call", "TRACE", "INFO", NCCL),
    Leftover(
        "NCCL_DEBUG_SUBSYS",
        "(?i).*(ALL|COLL|CALL|PROXY).*",
        "NCCL writes a line for every collective",
        "INIT,COLL",
        "INIT,NET",
        NCCL,
    ),
    # GeForce cards of the 40 series have neither NVLink nor peer access over PCIe.
    Leftover("NCCL_P2P_DISABLE", SWITCHED_ON, IDLE_NVLINK, "1", "0", NCCL, but_for=r"(?i).*(?<!\d)40[6-9]0(?!\d)"),
    Leftover("NCCL_P2P_LEVEL", "(?i)LOC|0", IDLE_NVLINK, "LOC", "NVL", NCCL),
    Leftover(
        "NCCL_SHM_DISABLE", SWITCHED_ON, "ranks of a node talk over the network instead of memory", "1", "0", NCCL
    ),
    Leftover("NCCL_IB_DISABLE", SWITCHED_ON, OVER_TCP, "1", "0", NCCL, needs_rdma=True),
    Leftover(
        "NCCL_NET_GDR_LEVEL",
        "(?i)LOC|0",
        "the network cards no longer read GPU memory directly",
        "LOC",
        "SYS",
        NCCL,
        needs_rdma=True,
    ),
    Leftover(
        "NCCL_NET_GDR_READ", "0", "what is sent is copied to the CPU's memory first", "0", "1", NCCL, needs_rdma=True
    ),
    Leftover("NCCL_NET", "(?i)Socket", OVER_TCP, "Socket", "IB", NCCL, needs_rdma=True),
    Leftover("NCCL_CHECK_POINTERS", SWITCHED_ON, "every call checks its pointers", "1", "0", NCCL),
    Leftover("NCCL_CHECK_MODE", "(?i)DEBUG_.*", "every call checks its arguments", "DEBUG_LOCAL", "DEFAULT", NCCL),
    # torch makes a communicator for each group; NCCL then binds this address at the first rank of every one of them.
    Leftover(
        "NCCL_COMM_ID",
        ".+",
        "every communicator meets at this one address: a second one fails or hangs",
        "10.0.0.1:29600",
        "",
        NCCL_SOURCE,
    ),
    Leftover("NCCL_LAUNCH_MODE", "(?i)GROUP", "deprecated since NCCL 2.9", "GROUP", "PARALLEL", NCCL),
    Leftover(
        "NCCL_IGNORE_DISABLED_P2P",
        SWITCHED_ON,
        "a driver that has switched peer access off goes unnoticed",
        "1",
        "0",
        NCCL,
    ),
    Leftover(
        "NCCL_IGNORE_NET_MISMATCH",
        SWITCHED_ON,
        "ranks with fewer network cards than others hang in silence",
        "1",
        "0",
        NCCL,
    ),
    Leftover(
        "NCCL_IGNORE_COLLNET_MISMATCH",
        SWITCHED_ON,
        "ranks with fewer CollNet devices fail later on",
        "1",
        "0",
        NCCL,
    ),
    Leftover("NCCL_IB_USE_INLINE", SWITCHED_ON, BUFFERS, "1", "0", NCCL_SOURCE, but_for="ionic|bnxt_re"),
    Leftover("NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS", SWITCHED_ON, BUFFERS, "1", "0", NCCL_SOURCE),
    Leftover("NCCL_IB_TIMEOUT", r"0*(\d|1[0-3])", JAM, "13", "14", NCCL, needs_rdma=True),
    Leftover("NCCL_IB_RETRY_CNT", "0*[0-3]", JAM, "3", "7", NCCL, needs_rdma=True),
    # With Simple in the list, as clouds set it for their own networks, NCCL chooses by the size of a message.
    Leftover(
        "NCCL_PROTO",
        "(?i)(?!.*SIMPLE)[^^]*LL128.*",
        "where LL128 is not supported, data is corrupted",
        "LL,LL128",
        "LL128,Simple",
        NCCL,
    ),
    Leftover("NCCL_MAX_NCHANNELS", "0*[1-3]", FEW_CHANNELS, "2", "8", NCCL),
    Leftover("NCCL_MAX_CTAS", "0*[1-3]", FEW_CHANNELS, "1", "32", NCCL),
    Leftover("FI_PROVIDER", "(?i).*(tcp|sockets).*", OVER_TCP, "tcp;ofi_rxm", "efa", OFI, needs_rdma=True),
    Leftover(
        "HSA_OVERRIDE_GFX_VERSION", ".+", "kernels of another GPU are run: crashes, wrong results", "9.0.0", "", ROCM
    ),
    Leftover("HSA_ENABLE_SDMA", "0", "copies between GPUs take compute units", "0", "1", ROCM),
    Leftover(
        "TORCH_DISTRIBUTED_DEBUG",
        "(?i)DETAIL",
        "every collective is compared between all ranks first",
        "DETAIL",
        "INFO",
        TORCH_DIST,
    ),
    Leftover("TORCH_NCCL_BLOCKING_WAIT", YES, "every collective waits on the CPU", "true", "0", TORCH),
    Leftover("TORCH_NCCL_NAN_CHECK", YES, "every collective looks for NaN first", "1", "0", TORCH),
    Leftover("TORCH_NCCL_DESYNC_DEBUG", YES, "every collective is written to the store", "1", "0", TORCH),
    Leftover(
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        r"0*\d{1,2}",
        "a rank that saves a checkpoint is taken for hung",
        "30",
        "600",
        TORCH,
    ),
    Leftover("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", "a collective that fails hangs the job forever", "0", "1", TORCH),
    Leftover("TORCH_NCCL_ENABLE_MONITORING", NO, "a hung rank is never ended", "0", "1", TORCH),
    Leftover("TORCH_SHOW_DISPATCH_TRACE", "1", "every operation writes a line", "1", "0", TORCH_DIST),
    Leftover("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "every allocation asks the driver", "1", "0", TORCH_DIST),
    Leftover("PYTORCH_JIT", "0", "TorchScript runs as plain Python", "0", "1", TORCH_DIST),
)


def found(
    name: str, value: str, *, has_rdma: bool, devices: Iterable[str] = (), rows: Iterable[Leftover] = LEFTOVERS
) -> Leftover | None:
    """The row of a leftover debug variable, on a node with these RDMA devices; None where it is none."""
    for row in rows:
        if row.name == name and re.fullmatch(row.values, value.strip()) and (has_rdma or not row.needs_rdma):
            if row.but_for and any(re.match(row.but_for, device) for device in devices):
                continue
            return row
    return None


def leftover(name: str, value: str, *, has_rdma: bool, devices: Iterable[str] = ()) -> str:
    """What a leftover debug variable does to a job on a node with these RDMA devices, "" where it is none."""
    row = found(name, value, has_rdma=has_rdma, devices=devices)
    return said("{name}={value}: {does}", name, value, row.does) if row else ""
