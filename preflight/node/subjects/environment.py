"""Which variables steer the job here, and which layer does each come from?"""

from __future__ import annotations

import os

from preflight.node.agent import roots
from preflight.node.sources import shells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Layer = tuple[str, Mapping[str, str]]

PREFIXES = (
    "NCCL_",
    "GLOO_",
    "MASTER_",
    "TORCH_",
    "PYTORCH_",
    "PET_",
    "TORCHELASTIC_",
    "ACCELERATE_",
    "SLURM_",
    "OMPI_COMM_WORLD_",
    "OMPI_MCA_",
    "CUDA_",
    "UCX_",
    "NVSHMEM_",
    "FI_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "HIP_",
    "HSA_",
    "ROCR_",
    "RCCL_",
    "RDMAV_",
    "TP_SOCKET_IFNAME",
)
NAMES = frozenset(
    (
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"),
        *("NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONNOUSERSITE"),
        *("PYTHONHOME", "PYTHONUSERBASE", "OPENBLAS_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE"),
        *("VLLM_HOST_IP", "SGLANG_HOST_IP", "HOST_IP", "HOROVOD_GLOO_IFACE"),
        *("http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("grpc_proxy", "no_grpc_proxy", "RAY_ADDRESS"),
    )
)
SECRETS = ("TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "AUTH", "JWT")
SYSTEM_NCCL_CONF = "/etc/nccl.conf"
FILES = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE")  # they name a file to read


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject environment."""
    root = roots.root_of(arguments)
    variables, found = job_variables(arguments), shells.collect(root)
    return {
        "variables": {
            name: {"value": without_credentials(value), "layer": layer}
            for name, (value, layer) in sorted(variables.items())
            if may_leave_node(name)
        },
        "shells": {kind: for_wire(held) for kind, held in found.items() if isinstance(held, dict)},
        "shells_unread": {kind: reason for kind, reason in found.items() if isinstance(reason, str)},
        "unread_files": unread_files(variables, root),
        "preloaded": preloaded(f"{root}/etc/ld.so.preload"),
    }


def unread_files(variables: Mapping[str, tuple[str, str]], root: str = "") -> list[list[str]]:
    """Each variable of FILES whose file cannot be read, with the reason."""
    found = []
    named = [(name, variables.get(name, ("", ""))[0]) for name in FILES]
    # One that is named without its folder is looked for where libraries are.
    preloaded = variables.get("LD_PRELOAD", ("", ""))[0].replace(":", " ").split()
    for name, path in (*named, *(("LD_PRELOAD", path) for path in preloaded if "/" in path and "$" not in path)):
        try:
            if path:
                with open(f"{root}{path}", "rb"):
                    pass
        except OSError as error:
            found.append([name, error.strerror or str(error)])
    return found


def preloaded(path: str) -> list[str]:
    """The libraries that the system puts before those of every program; none where it has no such file."""
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            lines = [line.partition("#")[0] for line in file]
    except OSError:
        return []
    return [word for line in lines for word in line.replace(":", " ").split()]


def for_wire(held: Mapping[str, str]) -> dict[str, str]:
    """Those variables of a shell that may leave the node."""
    return {name: without_credentials(value) for name, value in sorted(held.items()) if may_leave_node(name)}


def job_variables(arguments: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Every variable the job will see on this node as name -> (value, layer), secrets and all: not for the wire.

    Half of the subjects need them: a call with a dictionary "held" among its arguments reads them once.
    """
    held: dict[str, Any] = arguments.get("held", {})
    if "variables" not in held:
        layers: list[Layer] = [("node", roots.environment(arguments)), *arguments["environment"]]
        held["variables"] = merged([*nccl_layers(merged(layers), roots.root_of(arguments)), *layers])
    variables: dict[str, tuple[str, str]] = held["variables"]
    return variables


def merged(layers: Iterable[Layer]) -> dict[str, tuple[str, str]]:
    """The variables of layers in rising precedence."""
    return {name: (value, layer) for layer, variables in layers for name, value in variables.items()}


def nccl_layers(variables: Mapping[str, tuple[str, str]], root: str = "") -> list[Layer]:
    """NCCL's own files, the weaker first: it sets from them what the environment does not set."""
    if variables.get("NCCL_CONF_FILE", ("", ""))[0]:
        path = variables["NCCL_CONF_FILE"][0]
        files = [(SYSTEM_NCCL_CONF, SYSTEM_NCCL_CONF), (path, path)]
    else:
        files = [(SYSTEM_NCCL_CONF, SYSTEM_NCCL_CONF)]
        files += [] if root else [("~/.nccl.conf", f"{home()}/.nccl.conf")]  # of a tree the account is not known
    layers: list[Layer] = []
    for layer, path in files:
        try:
            with open(f"{root}{path}", encoding="utf-8", errors="backslashreplace") as file:
                layers.append((layer, parse_nccl_conf(file.read())))
        except OSError:  # NCCL goes on without a file it cannot read, and so will the job
            continue
    return layers


def parse_nccl_conf(text: str) -> dict[str, str]:
    """The variables of an nccl.conf; as in NCCL, the first line that sets a name holds and blanks belong to it."""
    variables: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#") and name.startswith("NCCL_"):
            variables.setdefault(name, value)
    return variables


def home() -> str:
    """The home directory as NCCL finds it: from the user's account, not from HOME."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container's user without an account: NCCL then reads no such file
        return "/nonexistent"


def may_leave_node(name: str) -> bool:
    """Whether a variable may leave the node."""
    if not (name in NAMES or name.startswith(PREFIXES)):
        return False
    upper = name.upper()
    return not any(word in upper for word in SECRETS)


def without_credentials(value: str) -> str:
    """The value without the user:password@ of the addresses in it."""
    if "@" not in value:
        return value
    import re

    if "://" in value:  # up to the last @ before the next address: a password may hold any character
        return re.sub(r"://(?:(?!,[\w.+-]+://)\S)*@", "://", value)
    return re.sub(r"(^|\s)[^\s@/:]+:\S*@", r"\1", value)
