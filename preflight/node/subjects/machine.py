"""Which processor, which keepers of the clock and of the network, which RDMA libraries and which compilers are here?"""

from __future__ import annotations

import os

from preflight.node.agent import children, roots
from preflight.node.agent.missing import missing, must_read, read_text, read_text_or_missing
from preflight.node.subjects.environment import job_variables
from preflight.node.subjects.software import SYSTEM_LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMPILERS = ("cc", "gcc", "c++", "g++", "clang", "nvcc", "hipcc", "ninja")
TIME_SERVICES = ("chronyd", "ntpd", "ntpsec", "openntpd", "systemd-timesyn", "ptp4l", "phc2sys")
# Who sets up interfaces, as the kernel shows its name (cut to 15 characters); netplan writes files for either.
MANAGERS = {"NetworkManager": "NetworkManager", "systemd-network": "systemd-networkd"}
# Of x86 and ARM, those that compilers and libraries choose their code by.
INSTRUCTIONS = (
    *("avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "amx_tile", "amx_bf16"),
    *("asimd", "sve", "sve2", "bf16", "i8mm"),
)
HIDDEN = "processes of other users are hidden here (hidepid)"
TIME_ERROR = 5  # adjtimex: the clock is not synchronized
TIMEX_BYTES = 512  # more than any struct timex


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject machine."""
    proc, sysfs = arguments["proc"], arguments["sysfs"]
    root = roots.root_of(arguments)
    path = job_variables(arguments).get("PATH", ("" if root else os.defpath, ""))[0]
    processes = running(proc)
    return {
        **processor(proc),
        "time_services": time_services(processes) if sees_others(proc) else missing(HIDDEN, "absent"),
        "network_manager": network_manager(processes, f"{root}/etc"),
        "clock_is_synchronised": missing("not asked of a tree of files") if root else clock_is_synchronised(),
        "rdma_core": rdma_core(tuple(f"{root}{folder}" for folder in SYSTEM_LIBRARIES)),
        "rdma_driver": read_text_or_missing(f"{sysfs}/module/mlx5_core/version"),
        "compilers": compilers(path),
    }


def processor(proc: str) -> dict[str, Any]:
    """What the kernel says of the processor; of a machine with hundreds of them the file is long, and read once."""
    text = must_read(f"{proc}/cpuinfo")
    if isinstance(text, dict):
        return dict.fromkeys(("cpu_model", "instructions"), text)
    return {"cpu_model": cpu_model(text), "instructions": instructions(text)}


def cpu_model(text: str) -> Any:
    """The processor's name; of ARM, where kernels have only numbers, those of its maker and its cores."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu"):
            return value.strip()
    numbers = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    if "CPU part" in numbers:
        return f"ARM implementer {numbers.get('CPU implementer', 'unknown')} part {numbers['CPU part']}"
    return missing("the kernel reports no model", "absent")


def instructions(text: str) -> Any:
    """Those of INSTRUCTIONS that the first processor has; a virtual machine or the BIOS may hide some."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            words = set(value.split())
            return [name for name in INSTRUCTIONS if name in words]
    return missing("the kernel lists none", "absent")


def time_services(processes: set[str]) -> list[str]:
    """The programs that set the clock, of the processes that we see."""
    return sorted(processes & set(TIME_SERVICES))


def sees_others(proc: str) -> bool:
    """Whether other users' processes may be seen: where /proc is mounted with hidepid, the first is not."""
    try:
        return bool(read_text(f"{proc}/1/comm"))
    except OSError:
        return False


def network_manager(processes: set[str], etc: str) -> Any:
    """Who sets up the interfaces at a boot; absent where none of those known does, as in most containers."""
    for name in listed(f"{etc}/netplan"):
        if name.endswith((".yaml", ".yml")):
            return "netplan"
    found = [MANAGERS[name] for name in MANAGERS if name in processes]
    if found:
        return found[0]
    if "interfaces" in listed(f"{etc}/network"):
        return "ifupdown"
    return missing("no network manager is seen", "absent")


def listed(folder: str) -> list[str]:
    """The names in a folder, none where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def running(proc: str) -> set[str]:
    """The names of all processes that we see, as the kernel cuts them."""
    found = set()
    for entry in os.listdir(proc):
        if entry.isdigit():
            try:
                found.add(read_text(f"{proc}/{entry}/comm"))
            except OSError:  # the process has ended meanwhile
                continue
    return found


def clock_is_synchronised() -> Any:
    """Whether the kernel's clock is synchronised; a container sees the clock of its machine."""
    state = children.in_libc("adjtimex", bytes(TIMEX_BYTES))  # all zero: ask, change nothing
    if state < 0:  # the only reason is a sandbox
        return missing("adjtimex is not permitted here", "denied")
    return bool(state != TIME_ERROR)


def rdma_core(folders: tuple[str, ...]) -> Any:
    """The version in the real name of libibverbs: "1.14.48.0" says rdma-core 48."""
    for folder in folders:
        path = f"{folder}/libibverbs.so.1"
        if os.path.exists(path):
            return os.path.realpath(path).rpartition("libibverbs.so.")[2]
    return missing("no libibverbs.so.1", "absent")


def compilers(path: str) -> dict[str, str]:
    """Where the job's PATH finds each compiler."""
    found: dict[str, str] = {}
    for folder in path.split(":"):
        for name in COMPILERS:
            if name not in found and folder and os.access(f"{folder}/{name}", os.X_OK):
                found[name] = f"{folder}/{name}"
    return found
