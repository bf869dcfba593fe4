"""What does a `deepspeed` command ask for, and how is a job started by one?"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Field, Sourced, firm, value_of, words
from preflight.launch.job import Start, on_each_node
from preflight.launch.launcher import Launcher
from preflight.launch.launchers.deepspeed import schema
from preflight.launch.launchers.deepspeed.hostfile import chosen, rank_0_is_on_the_first_host
from preflight.launch.launchers.torchrun import AGENT, arguments, start_agent
from preflight.launch.layout import Layout, exports, shared_launch
from preflight.launch.plan import Hostfile, HostLine, LaunchFiles, Plan, fail, warn
from preflight.launch.text.marks import is_known
from preflight.launch.text.options import Reader, Spec, parse_options, product
from preflight.launch.text.shell import Word
from preflight.launch.traits import FieldNames
from preflight.said import joined, said

SPEC = Spec(
    valued=words(
        """
    hostfile include exclude num_nodes num_gpus num_accelerators min_elastic_nodes
    max_elastic_nodes master_port master_addr node_rank launcher launcher_args
    enable_each_rank_log autotuning bind_core_list ssh_port venv_script log_level
    """
    ),
    flags=words(
        """
    module no_python no_local_rank no_ssh no_ssh_check force_multi save_pid bind_cores_to_rank
    quiet elastic_training help
    """
    ),
    short={"-H": "hostfile", "-i": "include", "-e": "exclude", "-q": "quiet", "-h": "help"},
)


# Options of torchrun and accelerate that people give to DeepSpeed's runner.
OF_OTHERS = {
    "nnodes": "--num_nodes",
    "num_machines": "--num_nodes",
    "nproc_per_node": "--num_gpus",
    "num_processes": "--num_gpus",
    "machine_rank": "--node_rank",
    "main_process_ip": "--master_addr",
    "main_process_port": "--master_port",
    "rdzv_endpoint": "--master_addr and --master_port",
}


# With one of these DeepSpeed's runner takes no notice of CUDA_VISIBLE_DEVICES, and sets it itself on every node.
CHOOSING = frozenset(words("hostfile include exclude num_nodes num_gpus num_accelerators"))


def logs_in(plan: Plan) -> bool:
    """Whether the runner goes to other nodes: for one active host, or none but this, it starts the ranks right here."""
    include = value_of(plan.settings.get("include"))
    is_one = firm(plan.nodes) == 1 or (include is not None and is_known(include) and "@" not in include)
    is_here = is_one and "force_multi" not in plan.settings
    return plan.start == "all nodes" and "hostfile" in plan.settings and not is_here


def read(reader: Reader, words: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan | None:
    """The plan of the words after ``deepspeed``: one command, run on one node, that starts all of them."""
    if not words:
        return None
    parsed = parse_options(words, SPEC, reader.marks)
    reader.refuse(parsed, "deepspeed", OF_OTHERS, (*SPEC.valued, *SPEC.flags))
    given = {name: reader.text(word) for name, word in parsed.options.items()}
    where = reader.where

    def number(name: str) -> Field[int]:
        return reader.number(given.get(name), f"--{name}")

    nodes, processes = number("num_nodes"), number("num_gpus") or number("num_accelerators")
    reader.problems.extend(_counts_beside_filters(given, where))
    named = value_of(given.get("hostfile"))
    hostfile = reader.hostfiles.get(named) if named is not None else None
    if hostfile is not None:
        nodes, processes = _from_hostfile(reader, hostfile, given, nodes=nodes, processes=processes)
    port = number("master_port") or Sourced(29500, where.file, where.line, "tool")
    environment = reader.environment()
    return Plan(
        launcher=DEEPSPEED,
        where=where,
        start="each node" if "no_ssh" in given else "all nodes",
        nodes=nodes,
        node_rank=number("node_rank"),
        processes_per_node=processes,
        world_size=product(nodes, processes),
        master_address=given.get("master_addr"),
        master_port=port,
        device_ids=environment.get("CUDA_VISIBLE_DEVICES") if CHOOSING.isdisjoint(given) else None,
        program=reader.text(parsed.rest[0]) if parsed.rest else None,
        arguments=arguments(reader, parsed.rest[1:]),
        environment=environment,
        unexported=reader.unexported(),
        settings=given,
        wrapper=wrapper,
        slurm=reader.slurm,
        is_opaque=parsed.is_opaque,
        is_conditional=reader.command.is_conditional,
        command=reader.spelled(),
    )


def _counts_beside_filters(given: Mapping[str, Field[str]], where: Where) -> Iterator[Finding]:
    """DeepSpeed is told how many nodes and devices, or which ones; it refuses both together."""
    counted = [name for name in ("num_nodes", "num_gpus", "num_accelerators") if name in given]
    filters = [name for name in ("include", "exclude") if name in given]
    if counted and filters:
        message = said("--{counted} and --{filter} exclude each other: deepspeed stops", counted[0], filters[0])
        fix = said("Leave --{counted} out.", counted[0])
        yield fail("hostfile_and_filters_agree", message, where, fix=fix)


def _from_hostfile(
    reader: Reader, hostfile: Hostfile, given: dict[str, Field[str]], *, nodes: Field[int], processes: Field[int]
) -> tuple[Field[int], Field[int]]:
    """Nodes and processes on each, as DeepSpeed takes them from its hostfile where the command leaves them open."""
    hosts, problems = chosen(hostfile, value_of(given.get("include")), value_of(given.get("exclude")), reader.where)
    reader.problems.extend(problems)
    if len({host.name for host in hostfile.hosts}) < len(hostfile.hosts):
        return nodes, processes  # DeepSpeed refuses the file: how many were meant is not known
    too_many = isinstance(nodes, Sourced) and nodes.value > len(hosts)
    if hosts and (nodes is None or too_many):  # it takes the first hosts, as many as there are
        reader.problems.extend(_more_than_hosts(nodes, hostfile, len(hosts)))
        nodes = Sourced(len(hosts), hostfile.where.file, hostfile.where.line)
    slots = {value_of(host.slots) for host in hosts}
    reader.problems.extend(_fewer_slots(processes, hosts))
    if hosts and processes is None and len(slots) == 1 and isinstance(hosts[0].slots, Sourced):
        processes = hosts[0].slots
    return nodes, processes


def _more_than_hosts(nodes: Field[int], hostfile: Hostfile, count: int) -> list[Finding]:
    if not isinstance(nodes, Sourced):
        return []
    message = said(
        "--num_nodes {value}, and {file} leaves {count}: DeepSpeed starts on {count} and says nothing",
        nodes.value,
        hostfile.file,
        count,
    )
    fix = said("--num_nodes {count}, or the hosts that are missing in {file}", count, hostfile.file)
    return [warn("hostfile_and_filters_agree", message, nodes.where, hostfile.where, fix=fix)]


def _fewer_slots(processes: Field[int], hosts: list[HostLine]) -> list[Finding]:
    """--num_gpus counts for every host, whatever its slots say."""
    if not isinstance(processes, Sourced):
        return []
    short = [host for host in hosts if isinstance(host.slots, Sourced) and host.slots.value < processes.value]
    listed = joined([said("{value_of} on {name}", value_of(host.slots), host.name) for host in short[:4]], ", ")
    message = said("--num_gpus {value}, and the hostfile has fewer slots: {listed}", processes.value, listed)
    fix = said("Leave --num_gpus out, or slots={value} for every host that has {value} GPUs.", processes.value)
    places = (host.where for host in short)
    return [fail("hostfile_and_filters_agree", message, processes.where, *places, fix=fix)] if short else []


def write(layout: Layout) -> dict[str, str]:
    """A hostfile and one command, run on the first node."""
    hosts = "".join(f"{node.name} slots={count}\n" for node, count in zip(layout.nodes, layout.processes, strict=True))
    command = [*layout.command("deepspeed", "deepspeed.launcher.runner"), f"--hostfile={layout.path('hostfile')}"]
    if len(layout.nodes) > 1:
        command.append(f"--master_addr={layout.address}")
    command += [f"--master_port={layout.port}", *layout.program]
    shared = shared_launch(layout)
    # else the runner looks for a file of that name in ~ and in the folder it is started from
    named = exports({"DS_ENV_FILE": layout.path(".deepspeed_env")}) if shared else ""
    files = {"hostfile": hosts, "start.sh": layout.head + named + f"exec {shlex.join(command)}\n"}
    if shared:
        files[".deepspeed_env"] = "".join(f"{name}={value}\n" for name, value in shared.items())
    return files


def starts_of(plan: Plan, start: Start, files: LaunchFiles) -> tuple[Start, ...]:
    """What one command starts on each node: the hostfile lists the nodes, and how many ranks each of them gets."""
    named = os.path.basename(str(plan.setting("hostfile")))
    hostfile = next((held for held in files.hostfiles if os.path.basename(held.file) == named), None)
    if hostfile is None or "include" in plan.settings or "exclude" in plan.settings:
        return (start,)
    slots = [value_of(host.slots) or start.processes for host in hostfile.hosts]
    return tuple(replace(start, processes=count) for count in slots)


DEEPSPEED = Launcher(
    name="deepspeed",
    description="ZeRO-2 under torchrun",
    field_names=FieldNames(rank="--node_rank", address="--master_addr", port="--master_port", nodes="--num_nodes"),
    starts_all_nodes=True,
    runs_program=True,
    programs=("deepspeed", "ds"),
    modules=("deepspeed.launcher.runner",),
    read=read,
    logs_in=logs_in,
    write=write,
    start=on_each_node(start_agent),  # what makes it DeepSpeed is the engine that the ranks wrap their model in
    needs="deepspeed",
    blames=AGENT,
    strategy="zero2",
    trains_with="ZeRO stage 2",
    needs_logins=True,
    starts_of=starts_of,
    files_rules=(rank_0_is_on_the_first_host, *schema.FILES_RULES),
    may_start=("torchrun",),
)
