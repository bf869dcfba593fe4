"""How does accelerate start a job: files for people, and a process on every node?"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from preflight.launch.job import Job, Placement, Process, shared_variables
from preflight.launch.layout import Layout, exports, file_name, variables
from preflight.said import joined, said
from preflight.said.errors import UsageError


def write(layout: Layout) -> dict[str, str]:
    """A YAML and a script for every node."""
    files = {}
    for index, node in enumerate(layout.nodes):
        config = f"{file_name(layout, index)}.yaml"
        files[config] = _config(layout, index)
        values = variables(node)
        if not layout.has_gpus:
            values["ACCELERATE_USE_CPU"] = "true"
        start = layout.command("accelerate", "accelerate.commands.launch")
        start += [] if layout.python else ["launch"]
        command = [*start, "--config_file", layout.path(config), *layout.program]
        files[f"{file_name(layout, index)}.sh"] = layout.head + exports(values) + f"exec {shlex.join(command)}\n"
    return files


def _config(layout: Layout, index: int) -> str:
    import yaml  # not for --help

    from preflight.launch.text import located

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
        "main_process_port": _kept_port(kept) or layout.port,
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


def _kept_port(kept: Mapping[str, Any]) -> int:
    """The port of the user's own file, 0 where it names none that can be listened on."""
    port = kept.get("main_process_port")
    return port if isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65536 else 0


def start_node(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """`accelerate launch` on every node, each with a YAML of its own: the user's, or one that we write."""
    node = placements[0].node
    start = job.start_of(node)
    on_cpu = job.settings["backend"] == "gloo"
    config = start.config if start.launcher else accelerate_yaml(job, node, master_port)
    argv = ["{python}", "-m", "accelerate.commands.launch"]
    if config:
        argv.append("--config_file={file:accelerate.yaml}")
    if start.launcher:  # what must be ours is an option of the command, which wins over the file
        argv += [*start.options, f"--main_process_port={master_port}"]
        argv += [] if start.address else [f"--main_process_ip={job.master_address}"]
        argv += [] if start.has_node_rank else [f"--machine_rank={job.nodes.index(node)}"]
    return [
        {
            "name": node,
            "argv": [*argv, "--monitor_interval=0.2", "--tee=3", "{script}"],
            "files": {"accelerate.yaml": config} if config else {},
            # With `use_cpu: true` in the YAML every rank silently becomes a world of one; this variable does it right.
            "environment": {**shared_variables(job, node), **({"ACCELERATE_USE_CPU": "true"} if on_cpu else {})},
        }
    ]


def accelerate_yaml(job: Job, node: str, master_port: int) -> str:
    """The configuration that `accelerate config` would write on one machine."""
    lines: Mapping[str, str | int] = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": "false",
        "distributed_type": "MULTI_GPU",
        "downcast_bf16": "'no'",
        "enable_cpu_affinity": "false",
        "machine_rank": job.nodes.index(node),
        "main_process_ip": job.master_address,
        "main_process_port": master_port,
        "main_training_function": "main",
        "mixed_precision": "'no'",
        "num_machines": len(job.nodes),
        "num_processes": job.world_size,
        "rdzv_backend": "static",
        "same_network": "true",
        "use_cpu": "false",
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def refuses(job: Job) -> str:
    """Why a job of this shape cannot be started."""
    counts = {placement.node: placement.local_world_size for placement in job.placements}
    if len(set(counts.values())) > 1:
        listed = joined([said("{count} on {node}", count, node) for node, count in counts.items()], ", ")
        return said("starts the same number of ranks on every node; the job has {listed}", listed)
    return "" if job.world_size > 1 else "with MULTI_GPU it wants two ranks or more (--ranks-per-node 2)"
