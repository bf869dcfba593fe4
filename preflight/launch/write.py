"""What launch files are right for these nodes?

    files = write_files("torchrun", cluster, folder="/shared/launch", program=("train.py", "--epochs", "3"))

gives the text of every file by its name; the caller puts them into `folder`, which is the same path on every node.
`like` is the text of a user's accelerate file, whose other settings are kept.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from preflight.errors import FactMissing, UsageError
from preflight.facts.cluster import Cluster
from preflight.launch import located
from preflight.launch.layout import Layout, layout_of, variables

HEAD = "#!/bin/bash\n"


def write_files(
    launcher: str, cluster: Cluster, *, folder: str, program: tuple[str, ...] = ("train.py",), like: str = ""
) -> dict[str, str]:
    """The launch files for the nodes of a cluster, by name."""
    if launcher not in WRITERS:
        raise UsageError(f"--launcher {launcher}: launch files are written for {', '.join(WRITERS)}")
    if like and launcher != "accelerate":
        raise UsageError(f"--like: keeps the settings of an accelerate configuration; --launcher {launcher} has none")
    if not cluster.nodes or len(cluster) < cluster.asked:
        raise UsageError(
            f"{len(cluster)} of {max(cluster.asked, 1)} hosts answered: launch files are written for all of"
            " them or none"
        )
    return WRITERS[launcher](layout_of(cluster, launcher, folder, program, like))


def _exports(values: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def _name(layout: Layout, index: int) -> str:
    """A part of a file's name: a host's name with nothing in it that a shell or a file system would take."""
    return "".join(letter if letter.isalnum() or letter in ".-_" else "-" for letter in layout.nodes[index].name)


def _accelerate(layout: Layout) -> dict[str, str]:
    files = {}
    for index, node in enumerate(layout.nodes):
        config = f"{_name(layout, index)}.yaml"
        files[config] = _config(layout, index)
        values = variables(node)
        if not layout.has_gpus:
            values["ACCELERATE_USE_CPU"] = "true"
        command = ["accelerate", "launch", "--config_file", layout.path(config), *layout.program]
        files[f"{_name(layout, index)}.sh"] = HEAD + _exports(values) + f"exec {shlex.join(command)}\n"
    return files


def _config(layout: Layout, index: int) -> str:
    kept: dict[str, Any] = {}
    if layout.like:
        documents = located.load(layout.like, "--like")
        kept = documents[0].plain() if documents and isinstance(documents[0].value, dict) else {}
        if not kept:
            raise UsageError("--like: not an accelerate configuration")
    config = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "distributed_type": "MULTI_GPU" if layout.world > 1 else "NO",
        "mixed_precision": "no",
        "main_training_function": "main",
        "use_cpu": False,
        **kept,
        "num_machines": len(layout.nodes),
        "num_processes": layout.world,
        "machine_rank": index,
        "main_process_ip": layout.address,
        "main_process_port": layout.port,
        "rdzv_backend": "static",
        "same_network": False,
    }
    if layout.world > 1 and (config["use_cpu"] or config["distributed_type"] in (False, "NO", "MULTI_CPU")):
        config |= {"use_cpu": False, "distributed_type": "MULTI_GPU"}  # else every rank is a world of one
    if "gpu_ids" in config:
        config["gpu_ids"] = "all"  # as many processes as there are
    if config["mixed_precision"] is False:
        config["mixed_precision"] = "no"
    if isinstance(config.get("deepspeed_config"), dict) and len(layout.nodes) > 1:
        config["deepspeed_config"] = {**config["deepspeed_config"], "deepspeed_multinode_launcher": "standard"}
    return str(yaml.safe_dump(config, sort_keys=True, allow_unicode=True))


def _torchrun(layout: Layout) -> dict[str, str]:
    files = {}
    for index, node in enumerate(layout.nodes):
        command = [
            "torchrun",
            f"--nnodes={len(layout.nodes)}",
            f"--node_rank={index}",
            f"--nproc_per_node={layout.processes[index]}",
            f"--master_addr={layout.address}",
            f"--master_port={layout.port}",
            *layout.program,
        ]
        files[f"{_name(layout, index)}.sh"] = HEAD + _exports(variables(node)) + f"exec {shlex.join(command)}\n"
    return files


def _env(layout: Layout) -> dict[str, str]:
    files = {}
    for index, node in enumerate(layout.nodes):
        values = {
            **variables(node),
            "MASTER_ADDR": layout.address,
            "MASTER_PORT": str(layout.port),
            "WORLD_SIZE": str(layout.world),
        }
        command = shlex.join(["python", *layout.program])
        count, first = layout.processes[index], layout.first_rank(index)
        if count == 1:
            body = _exports({"RANK": str(first), "LOCAL_RANK": "0"}) + f"exec {command}\n"
        else:
            locals_ = " ".join(map(str, range(count)))
            body = (
                f"status=0\nfor local in {locals_}; do\n  RANK=$(({first} + local)) LOCAL_RANK=$local {command}"
                " &\ndone\n"
                'for job in $(jobs -p); do\n  wait "$job" || status=$?\ndone\nexit "$status"\n'
            )
        files[f"{_name(layout, index)}.sh"] = HEAD + _exports(values) + body
    return files


def _deepspeed(layout: Layout) -> dict[str, str]:
    hosts = "".join(f"{node.name} slots={count}\n" for node, count in zip(layout.nodes, layout.processes, strict=True))
    command = ["deepspeed", f"--hostfile={layout.path('hostfile')}"]
    if len(layout.nodes) > 1:
        command.append(f"--master_addr={layout.address}")
    command += [f"--master_port={layout.port}", *layout.program]
    files = {"hostfile": hosts, "start.sh": HEAD + f"exec {shlex.join(command)}\n"}
    shared = _shared(layout)
    if shared:  # DeepSpeed looks for it in ~ and in the folder it is started from
        files[".deepspeed_env"] = "".join(f"{name}={value}\n" for name, value in shared.items())
    return files


def _shared(layout: Layout) -> dict[str, str]:
    """The variables that have one value on all nodes."""
    each = [variables(node) for node in layout.nodes]
    return {name: value for name, value in each[0].items() if all(found.get(name) == value for found in each)}


def _slurm(layout: Layout) -> dict[str, str]:
    processes = layout.processes[0]
    lines = [f"#SBATCH --nodes={len(layout.nodes)}", "#SBATCH --ntasks-per-node=1"]
    if layout.has_gpus:
        lines.append(f"#SBATCH --gpus-per-node={processes}")
    try:
        lines.append(f"#SBATCH --cpus-per-task={max(processes, min(node.identity.cpu_count for node in layout.nodes))}")
    except FactMissing:
        lines.append(f"#SBATCH --cpus-per-task={processes}")
    inner = (
        f"exec torchrun --nnodes={len(layout.nodes)} --node_rank=$SLURM_NODEID --nproc_per_node={processes}"
        f" --master_addr=$MASTER_ADDR --master_port={layout.port} {shlex.join(layout.program)}"
    )
    body = (
        'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        + _exports(_shared(layout))
        + f"srun bash -c {shlex.quote(inner)}\n"
    )
    return {"job.sbatch": HEAD + "\n".join(lines) + "\n" + body}


WRITERS: dict[str, Callable[[Layout], dict[str, str]]] = {
    "accelerate": _accelerate,
    "torchrun": _torchrun,
    "env": _env,
    "deepspeed": _deepspeed,
    "slurm": _slurm,
}
