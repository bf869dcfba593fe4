"""Which processor, which keepers of the clock, which RDMA libraries and which compilers are here?"""

from __future__ import annotations

import os

from preflight.node.agent.missing import missing, must_read, read_text, read_text_or_missing
from preflight.node.subjects.environment import job_variables
from preflight.node.subjects.software import SYSTEM_LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMPILERS = ("cc", "gcc", "c++", "g++", "clang", "nvcc", "hipcc", "ninja")
TIME_SERVICES = ("chronyd", "ntpd", "ntpsec", "openntpd", "systemd-timesyn", "ptp4l", "phc2sys")
TIME_ERROR = 5  # adjtimex: the clock is not synchronised
TIMEX_BYTES = 512  # more than any struct timex


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject machine."""
    proc, sysfs = arguments["proc"], arguments["sysfs"]
    path = job_variables(arguments).get("PATH", (os.defpath, ""))[0]
    return {
        "cpu_model": cpu_model(proc),
        "time_services": time_services(proc),
        "clock_is_synchronised": clock_is_synchronised(),
        "rdma_core": rdma_core(SYSTEM_LIBRARIES),
        "rdma_driver": read_text_or_missing(f"{sysfs}/module/mlx5_core/version"),
        "compilers": compilers(path),
    }


def cpu_model(proc: str) -> Any:
    """The processor's name; ARM kernels have only numbers."""
    text = must_read(f"{proc}/cpuinfo")
    if isinstance(text, dict):
        return text
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu"):
            return value.strip()
    return missing("the kernel reports no model", "absent")


def time_services(proc: str) -> list[str]:
    """The programs that set the clock, of the processes that we see."""
    found = set()
    for entry in os.listdir(proc):
        if entry.isdigit():
            try:
                name = read_text(f"{proc}/{entry}/comm")
            except OSError:  # the process has ended meanwhile
                continue
            if name in TIME_SERVICES:
                found.add(name)
    return sorted(found)


def clock_is_synchronised() -> Any:
    """Whether the kernel's clock is synchronised; a container sees the clock of its machine."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))  # all zero: ask, change nothing
    if state < 0:
        return missing(os.strerror(ctypes.get_errno()), "denied")
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
