"""Where is this rank really: with which variables, limits, interpreter, folders and devices did it arrive?"""

from __future__ import annotations

import os
import resource
import socket
import sys
import time
from typing import Any

PREFIXES = (
    *("NCCL_", "GLOO_", "UCX_", "FI_", "CUDA_", "HF_", "TRITON_", "TORCH_", "OMP_", "MASTER_", "TORCHELASTIC_RUN_ID"),
    *("ACCELERATE_", "FSDP_", "HIP_", "ROCR_", "NVIDIA_VISIBLE", "TRANSFORMERS_", "XDG_CACHE"),
)
NAMES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "HOME", "TMPDIR"),
    *("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_ID", "SLURM_JOB_ID", "SLURMD_NODENAME"),
    *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "CONDA_DEFAULT_ENV"),
    *("VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYTHONPATH"),
)
SECRETS = ("TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "AUTH", "JWT")
LIMITS = {"nofile": resource.RLIMIT_NOFILE, "memlock": resource.RLIMIT_MEMLOCK, "nproc": resource.RLIMIT_NPROC}
# Variable -> where its folder is without it, below the user's caches.
CACHES = {
    "TORCH_EXTENSIONS_DIR": "~/.cache/torch_extensions",
    "TRITON_CACHE_DIR": "~/.triton/cache",
    "HF_HOME": "~/.cache/huggingface",
}
LOCK_SECONDS = 60.0  # one that old is left over: what takes it now begins a build of its own
MOST_LOCKS = 4
MOST_ENTRIES = 5000


def arrived(argv: list[str], names: list[str], network: str = "") -> dict[str, Any]:
    """Everything that is known before torch is imported; `network` is that of the node, as the kernel numbers it."""
    shm = os.statvfs("/dev/shm")
    return {
        "record": "arrived",
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "user": os.geteuid(),
        "argv": [word[:200] for word in argv],
        "names": names,
        "interpreter": sys.executable,
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "variables": {
            name: value[:1000]
            for name, value in sorted(os.environ.items())
            if (name in NAMES or name in names or name.startswith(PREFIXES))
            and not any(word in name for word in SECRETS)
        },
        "limits": {name: resource.getrlimit(number)[0] for name, number in LIMITS.items()},
        "shm_bytes": shm.f_frsize * shm.f_blocks,
        "cgroup": text_of("/proc/self/cgroup")[-300:],
        "folder": os.getcwd(),
        "own_network": bool(network) and network_of_process() != network,
        "caches": [cache(variable, usual) for variable, usual in CACHES.items()],
        "at": time.time(),
    }


def network_of_process() -> str:
    """The network namespace of this process: a container has one of its own unless it was given the node's."""
    try:
        return os.readlink("/proc/self/ns/net")
    except OSError:
        return ""


def cache(variable: str, usual: str) -> dict[str, Any]:
    """A cache: its folder, whether it can be written, its file system, and locks that were left in it."""
    path = os.path.expanduser(os.environ.get(variable) or usual)
    there = path
    while not os.path.isdir(there) and there not in ("", "/"):
        there = os.path.dirname(there)
    return {
        "variable": variable,
        "path": path[:300],
        "can_write": os.access(there or "/", os.W_OK),
        "kind": file_system(there),
        "free_bytes": free(there),
        "locks": left_locks(path) if variable != "HF_HOME" else [],
    }


def free(path: str) -> int:
    """How many bytes are free below a folder."""
    status = os.statvfs(path or "/")
    return status.f_frsize * status.f_bavail


def file_system(path: str) -> str:
    """The kind of file system that a folder is on."""
    best, kind = "", ""
    for line in text_of("/proc/self/mounts").splitlines():
        fields = line.split(" ")
        mount = fields[1] if len(fields) > 2 else ""
        inside = os.path.realpath(path or "/").startswith(mount.rstrip("/") + "/") or mount == os.path.realpath(path)
        if inside and len(mount) >= len(best):
            best, kind = mount, fields[2]
    return kind


def left_locks(path: str) -> list[str]:
    """Locks in a cache that are older than any build which is only beginning."""
    found: list[str] = []
    seen = 0
    for folder, _, files in os.walk(path):
        for name in files:
            full = os.path.join(folder, name)
            # Of filelock and the like (x.lock) the file stays, and the lock does not.
            if name == "lock" and not has_result(files) and is_old(full) and not is_held(full):
                found.append(full[:300])
        seen += len(files) + 1
        if len(found) >= MOST_LOCKS or seen > MOST_ENTRIES:
            break
    return found[:MOST_LOCKS]


def has_result(files: list[str]) -> bool:
    """Whether a build beside a lock came to its end: older Tritons leave the lock, and nobody takes it for one."""
    return any(name.endswith((".cubin", ".hsaco")) or name.startswith("__grp__") for name in files)


def is_old(path: str) -> bool:
    """Whether a file was there before any program of this job."""
    try:
        return time.time() - os.stat(path).st_mtime > LOCK_SECONDS
    except OSError:
        return False


def is_held(path: str) -> bool:
    """Whether a program has locked the file; the mere presence of torch's own `lock` says that it is taken."""
    import fcntl

    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def text_of(path: str) -> str:
    """The text of a file; "" where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""


def lacks(kind: str, name: str) -> str:
    """What the user's own program needs at its first lines and does not find here; "" where all is there."""
    import ast
    import importlib.util

    if kind == "module":
        sys.path.insert(0, os.getcwd())  # as Python does behind the hook
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            found = None
        return "" if found else f"No module named {name}"
    if kind != "file":
        return ""
    try:
        with open(name, "rb") as file:
            tree = ast.parse(file.read(), name)
    except OSError as error:
        return f"can't open file {name} in {os.getcwd()}: {error.strerror}"
    except (SyntaxError, ValueError) as error:
        return f"{name} cannot be read by this Python: {error}"
    sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
    names = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom) and not node.level]
    for top in dict.fromkeys(each.split(".")[0] for each in names):
        if top not in sys.modules and importlib.util.find_spec(top) is None:
            return f"No module named {top}, which {name} imports"
    return ""


def meeting_place() -> dict[str, Any]:
    """Where the ranks are to meet as this rank sees it: the addresses of that name, and whether they lead anywhere."""
    host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    record: dict[str, Any] = {"record": "meets", "place": f"{host}:{port}"[:300], "addresses": [], "own": False}
    if not (port.isdecimal() and 0 < int(port) < 1 << 16):
        return {**record, "error": f"MASTER_PORT {port[:100]} is not a port; wanted 1-65535"}
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)
    except (OSError, ValueError) as error:
        return {**record, "error": f"{host} has no address here: {getattr(error, 'strerror', None) or error}"}
    why = ""
    for family, kind, protocol, _, target in found:
        record["addresses"].append(target[0])
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.connect(target)  # of a datagram: the kernel looks for a way, and nothing is sent
                record["own"] = record["own"] or probe.getsockname()[0] == target[0]
                return {**record, "error": ""}
            except OSError as error:
                why = f"there is no way to {target[0]} ({host}): {error.strerror}"
    return {**record, "error": why}


def loaded() -> dict[str, Any]:
    """What was loaded with torch, and which devices it sees."""
    import torch

    count = torch.cuda.device_count()
    cuda: Any = torch.cuda
    return {
        "record": "loaded",
        "torch": torch.__version__,
        "torch_file": os.path.dirname(torch.__file__),
        "cuda": torch.version.cuda or "",
        "nccl": ".".join(map(str, cuda.nccl.version())) if count else "",
        "devices": [str(getattr(cuda.get_device_properties(i), "uuid", i)) for i in range(count)],
    }
