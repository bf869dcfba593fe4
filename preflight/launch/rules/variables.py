"""Do the NCCL, Gloo and CUDA variables of the job exist, mean something and arrive?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from preflight.launch.field import Field, Sourced, firm, value_of, words
from preflight.launch.launchers.deepspeed import DEEPSPEED
from preflight.launch.launchers.slurm import SRUN
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.ledger.findings import Finding

NCCL = frozenset(
    words(
        """
    ALGO ALGO_SEQUENCE ALLOC_P2P_NET_LL_BUFFERS BLOCKING_WAIT BUFFSIZE CGA_CLUSTER_SIZE
    CHECK_POINTERS CHECKS_DISABLE COLLNET_ENABLE COLLNET_NODE_THRESHOLD COMM_BLOCKING COMM_ID
    COMM_SPLIT_SHARE_RESOURCES COMM_SHRINK_SHARE_RESOURCES CONF_FILE CONNECT_ROUND_ROBIN
    CREATE_THREAD_CONTEXT CROSS_NIC CTA_POLICY CUMEM_ENABLE CUMEM_HOST_ENABLE CUDA_PATH DEBUG
    DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT DEBUG_TIMESTAMP_LEVELS DEBUG_SKIP_FILES
    DMABUF_ENABLE ENABLE_VERSION_CHECK GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE GDRCOPY_FLUSH_ENABLE
    GDRCOPY_SYNC_ENABLE GDR_FLUSH_DISABLE GRAPH_DUMP_FILE GRAPH_FILE GRAPH_MIXING_SUPPORT
    GRAPH_REGISTER HOSTID IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY IB_ADDR_RANGE IB_AR_THRESHOLD
    IB_CUDA_SUPPORT IB_DATA_DIRECT IB_DISABLE IB_ECE_ENABLE IB_FIFO_TC IB_GDR_LEVEL IB_GID_INDEX
    IB_HCA IB_IS_GLOBAL IB_MERGE_NICS IB_MERGE_VFS IB_OOO_RQ IB_MQP_RETRY_ALL
    IB_MQP_RETRY_SLEEP_MSEC IB_PCI_RELAXED_ORDERING IB_PKEY IB_PREPOST_RECEIVE_WORK_REQUESTS
    IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_SL
    IB_SPLIT_DATA_ON_QPS IB_TC IB_TIMEOUT IB_USE_INLINE IB_WARN_RAIL_LOCAL IGNORE_CPU_AFFINITY
    IGNORE_DISABLED_P2P LAUNCH_MODE LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LL128_BUFFSIZE
    LL128_NTHREADS LL_BUFFSIZE LOCAL_REGISTER L1_SHARED_MEMORY_CARVEOUT MAX_CTAS MAX_NCHANNELS
    MAX_NRINGS MAX_P2P_NCHANNELS MEM_SYNC_DOMAIN MIN_CTAS MIN_NCHANNELS MIN_NRINGS
    MIN_P2P_NCHANNELS MNNVL_CLIQUE_ID MNNVL_ENABLE MNNVL_UUID NCHANNELS_PER_NET_PEER NET
    NETDEVS_POLICY NET_DISABLE_INTRA NET_FORCE_FLUSH NET_FORCE_MERGE NET_GDR_C2C NET_GDR_LEVEL
    NET_GDR_READ NET_MERGE_LEVEL NET_OPTIONAL_RECV_COMPLETION NET_OVERHEAD NET_PLUGIN
    NET_RETRY_COUNT NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NVB_DISABLE
    NVB_PRECONNECT NVLS_CHUNKSIZE NVLS_ENABLE NVLS_NCHANNELS NVLSTREE_MAX_CHUNKSIZE NVTX_DISABLE
    OOB_NET_ENABLE OOB_NET_IFNAME P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL P2P_LL_THRESHOLD
    P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_PXN_LEVEL P2P_READ_ENABLE
    P2P_USE_CUDA_MEMCPY PARALLEL_INIT PROFILER_PLUGIN PROGRESS_APPENDOP_FREQ PROTO
    PROXY_APPEND_BATCH_SIZE PROXY_DUMP_SIGNAL PXN_C2C PXN_DISABLE RAS_ADDR RAS_ENABLE
    RAS_TIMEOUT_FACTOR REPORT_CONNECT_PROGRESS RUNTIME_CONNECT SET_CPU_STACK_SIZE SET_STACK_SIZE
    SET_THREAD_NAME SHARP_DISABLE SHARP_GROUP_SIZE_THRESH SHARP_MAX_COMMS SHIMNET_COLLNET
    SHM_DISABLE SHM_LOCALITY SHM_USE_CUDA_MEMCPY SHM_MEMCPY_MODE SINGLE_RING_THRESHOLD
    SINGLE_PROC_MEM_REG_ENABLE SOCKET_FAMILY SOCKET_IFNAME SOCKET_INLINE SOCKET_MIN_TASKSIZE
    SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC
    SOCKET_TIMEOUT SOCKET_DISABLE STORE_ORDER_MAX_LEVEL SYM_CTAS SYM_KERNEL THREAD_THRESHOLDS
    TOPO_DUMP_FILE TOPO_DUMP_FILE_RANK TOPO_FILE TREE_THRESHOLD TUNER_CONFIG_FILE TUNER_PLUGIN
    UID_STAGGER_RATE UID_STAGGER_THRESHOLD UNPACK_ENABLE USE_COMM_SHARED_RESOURCES
    WARN_ENABLE_DEBUG_INFO WIN_ENABLE WIN_STRIDE WORK_ARGS_BYTES WORK_FIFO_BYTES WORK_FIFO_DEPTH
    """
    )
)
# Read by torch, and by plugins of clouds under NCCL's prefix.
OTHERS = (
    "ASYNC_ERROR_HANDLING",
    "BLOCKING_WAIT",
    "DESYNC_DEBUG",
    "TIMEOUT",
    "HOME",
    "ROOT",
    "VERSION",
    "LIB_DIR",
    "INCLUDE_DIR",
)
PLUGINS = (
    "NCCL_FASTRAK_",
    "NCCL_GPUDIRECTTCPX_",
    "NCCL_DYNAMIC_",
    "NCCL_TESTS",
    "NCCL_FLAGCX_",
    "NCCL_TUNER_",
    "NCCL_OFI_",
    "NCCL_BUILD",
    "NCCL_PATH",
    "NCCL_NVLS_",
    "NCCL_MSCCL",
    "NCCL_GIN_",
    "NCCL_UCX_",
    "NCCL_PROFILE",
)
ONE_OR_NIL = frozenset(
    words("IB_DISABLE P2P_DISABLE SHM_DISABLE NET_DISABLE_INTRA NVB_DISABLE PXN_DISABLE CHECKS_DISABLE")
)
LEVELS = {
    "DEBUG": frozenset({"VERSION", "WARN", "INFO", "TRACE", "ABORT", "NONE", ""}),
    "SOCKET_FAMILY": frozenset({"AF_INET", "AF_INET6", ""}),
}
WHOLE = frozenset(
    words(
        """
    IB_GID_INDEX IB_TIMEOUT IB_RETRY_CNT IB_TC IB_SL SOCKET_NTHREADS NSOCKS_PERTHREAD
    MIN_NCHANNELS MAX_NCHANNELS IB_QPS_PER_CONNECTION
    """
    )
)
RISKY = {
    "NCCL_IB_USE_INLINE": "freezes small messages on some adapters",
    "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS": "freezes the first all-reduce on some adapters",
}
# What DeepSpeed's runner hands to the other nodes; .deepspeed_env brings the rest.
EXPORTED = ("MLFLOW", "PYTHON", "MV2", "UCX", "NCCL")
STEERING = re.compile(r"(GLOO|TORCH|CUDA|HF|TRANSFORMERS|OMP|WANDB|DS|TRITON|FI|UCX|LD_LIBRARY_PATH|PATH$)\w*")
NEEDED = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")


def in_plans(plan: Plan) -> Iterable[Finding]:
    """The variables that a plan's command sees."""
    yield from _judged(plan.environment, several=plan.has_peers)


def in_files(files: LaunchFiles) -> Iterable[Finding]:
    """The variables of environment files and of scripts that only set some."""
    for _, variables in files.variables:
        yield from _judged(variables, several=True)


def _judged(variables: Mapping[str, Field[str]], *, several: bool) -> Iterable[Finding]:
    for name, value in variables.items():
        if not isinstance(value, Sourced):
            continue
        text = value.value.strip()
        if name.startswith("NCCL_"):
            yield from _nccl(name, value, text, several=several)
        elif name == "GLOO_SOCKET_IFNAME" and re.search(r"[\^=\s]", value.value):
            message = f"GLOO_SOCKET_IFNAME={value.value}: Gloo takes exact names only, no ^, = or blanks"
            yield fail("variables_have_values_that_count", message, value.where, fix="GLOO_SOCKET_IFNAME=eth0")
        elif name == "GLOO_SOCKET_IFNAME" and several and text == "lo":
            yield _leads_home(name, value)
        elif name == "CUDA_LAUNCH_BLOCKING" and several and text not in ("", "0"):
            message = (
                f"CUDA_LAUNCH_BLOCKING={text} in a job of several nodes: with it NCCL can wait for itself and hang"
            )
            yield warn("cuda_launches_do_not_block", message, value.where, fix="unset CUDA_LAUNCH_BLOCKING")


def _nccl(name: str, value: Sourced[str], text: str, *, several: bool) -> Iterable[Finding]:
    short = name.removeprefix("NCCL_")
    if short not in NCCL and short not in OTHERS and not name.startswith(PLUGINS):
        close = difflib.get_close_matches(short, NCCL, 1, 0.75)
        hint = f"; meant is NCCL_{close[0]}" if close else ""
        message = f"{name} is no variable that NCCL reads{hint}"
        yield warn(
            "nccl_variables_are_known",
            message,
            value.where,
            fix=f"NCCL_{close[0]}={text}" if close else f"unset {name}",
        )
        return
    if name in RISKY and text not in ("", "0"):
        yield warn("nccl_variables_are_safe", f"{name}={text} {RISKY[name]}", value.where, fix=f"unset {name}")
    if short in LEVELS and text.upper() not in LEVELS[short]:
        wanted = ", ".join(sorted(level for level in LEVELS[short] if level))
        yield warn("variables_have_values_that_count", f"{name}={text}; NCCL knows {wanted}", value.where)
    elif short in ONE_OR_NIL and not re.fullmatch(r"-?\d*", text):
        yield fail(
            "variables_have_values_that_count",
            f"{name}={text}; NCCL reads a number: 0 or 1",
            value.where,
            fix=f"{name}=1",
        )
    elif short in WHOLE and not re.fullmatch(r"-?\d*", text):
        yield fail("variables_have_values_that_count", f"{name}={text}; NCCL reads a number", value.where)
    elif short == "SOCKET_IFNAME" and re.search(r"\s", text):
        message = f"{name}={value.value!r}: NCCL keeps blanks, and no interface has one in its name"
        yield fail(
            "variables_have_values_that_count", message, value.where, fix=f"{name}={re.sub(r'[ ,]+', ',', text)}"
        )
    elif short == "SOCKET_IFNAME" and several and text.lstrip("=") == "lo":
        yield _leads_home(name, value)


def _leads_home(name: str, value: Sourced[str]) -> Finding:
    message = f"{name}={value.value.strip()}: no other node is reached over it"
    return fail("interface_leads_to_other_nodes", message, value.where, fix=f"{name}=eth0")


def variables_are_exported(plan: Plan) -> Iterable[Finding]:
    """A variable that is set and not exported stays in the shell: python never sees it."""
    if not plan.is_by_hand and plan.launcher is not SRUN:
        return
    reads = {value_of(argument) or "" for argument in plan.arguments}
    for name in NEEDED:
        value = plan.unexported.get(name)
        if value is not None and not any(name.lower() in word.lower() for word in reads):
            yield fail(
                "variables_are_exported",
                f"{name} is set and not exported: the program does not see it",
                value.where,
                fix=f"export {name}={value_of(value) or '...'}",
            )


def needed_variables_are_set(plan: Plan) -> Iterable[Finding]:
    """env:// wants all four of them."""
    if not plan.is_by_hand or plan.rank is None or plan.world_size is None:
        return
    for name in NEEDED[:2]:
        if name not in plan.environment and name not in plan.unexported and (firm(plan.world_size) or 1) > 1:
            yield fail(
                "variables_are_set",
                f"RANK and WORLD_SIZE are set and {name} is not: init_process_group stops",
                plan.where,
                fix=f"export {name}=...",
            )


def deepspeed_exports(files: LaunchFiles) -> Iterable[Finding]:
    """pdsh brings only some variables to the other nodes."""
    handed = {name for file, variables in files.variables if "deepspeed_env" in file for name in variables}
    for plan in files.plans:
        if plan.launcher is not DEEPSPEED or plan.start != "all nodes" or "hostfile" not in plan.settings:
            continue
        for name, value in plan.environment.items():
            if value is None or name.startswith(EXPORTED) or name in handed or not STEERING.fullmatch(name):
                continue
            message = (
                f"{name} is exported on this node only: DeepSpeed hands on {', '.join(EXPORTED)}* and what"
                " .deepspeed_env holds"
            )
            yield warn(
                "deepspeed_hands_variables_on",
                message,
                value.where,
                fix=f"{name}={value_of(value) or '...'} in ~/.deepspeed_env",
            )


PLAN_RULES = (in_plans, variables_are_exported, needed_variables_are_set)
FILES_RULES = (in_files, deepspeed_exports)
