"""What do a DeepSpeed command line, hostfile, environment file and configuration ask for?"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from preflight.errors import UsageError
from preflight.launch.address import is_loopback, wrong_with
from preflight.launch.field import Field, Sourced, Unknown, value_of, words
from preflight.launch.job import Start, on_each_node
from preflight.launch.launcher import FieldNames, Launcher
from preflight.launch.launchers.torchrun import AGENT, arguments, start_agent
from preflight.launch.layout import HEAD, Layout, shared_launch
from preflight.launch.plan import BatchConfig, Hostfile, HostLine, LaunchFiles, Plan, fail, warn
from preflight.launch.text.options import Reader, Spec, parse_options, product
from preflight.launch.text.shell import Word
from preflight.ledger.findings import Finding, Where

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
SLOTS = re.compile(r"(\S+)\s+slots=(\d{1,9})\b")
IP = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
COLON_SLOTS = re.compile(r"([A-Za-z0-9_.-]+):(\d{1,5})")  # of Hydra
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


def read(reader: Reader, words: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan | None:
    """The plan of the words after ``deepspeed``: one command, run on one node, that starts all of them."""
    if not words:
        return None
    parsed = parse_options(words, SPEC, reader.marks)
    reader.refuse(parsed, "deepspeed", OF_OTHERS)
    given = {name: reader.text(word) for name, word in parsed.options.items()}
    where = reader.where

    def number(name: str) -> Field[int]:
        return reader.number(given.get(name), f"--{name}")

    nodes, processes = number("num_nodes"), number("num_gpus") or number("num_accelerators")
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
        device_ids=environment.get("CUDA_VISIBLE_DEVICES"),
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
        nodes = Sourced(len(hosts), hostfile.file, 1)
    slots = {value_of(host.slots) for host in hosts}
    reader.problems.extend(_fewer_slots(processes, hosts))
    if hosts and processes is None and len(slots) == 1 and isinstance(hosts[0].slots, Sourced):
        processes = hosts[0].slots
    return nodes, processes


def _more_than_hosts(nodes: Field[int], hostfile: Hostfile, count: int) -> list[Finding]:
    if not isinstance(nodes, Sourced):
        return []
    message = (
        f"--num_nodes {nodes.value}, and {hostfile.file} leaves {count}: DeepSpeed starts on {count} and says nothing"
    )
    fix = f"--num_nodes {count}, or the hosts that are missing in {hostfile.file}"
    return [warn("hostfile_and_filters_agree", message, nodes.where, Where(hostfile.file, 1), fix=fix)]


def _fewer_slots(processes: Field[int], hosts: list[HostLine]) -> list[Finding]:
    """--num_gpus counts for every host, whatever its slots say."""
    if not isinstance(processes, Sourced):
        return []
    short = [host for host in hosts if isinstance(host.slots, Sourced) and host.slots.value < processes.value]
    listed = ", ".join(f"{value_of(host.slots)} on {host.name}" for host in short[:4])
    message = f"--num_gpus {processes.value}, and the hostfile has fewer slots: {listed}"
    fix = f"Leave --num_gpus out, or slots={processes.value} for every host that has {processes.value} GPUs."
    places = (host.where for host in short)
    return [fail("hostfile_and_filters_agree", message, processes.where, *places, fix=fix)] if short else []


def rank_0_is_on_the_first_host(files: LaunchFiles) -> Iterable[Finding]:
    """Rank 0 runs on the first host of the hostfile: under the address of another one nobody listens."""
    for plan in files.plans:
        named = plan.setting("hostfile") or plan.setting("deepspeed_config.deepspeed_hostfile")
        named = named or plan.setting("deepspeed_hostfile")
        hostfile = next((held for held in files.hostfiles if named and _is(held.file, str(named))), None)
        if hostfile is None or (plan.start == "each node" and "no_ssh" in plan.settings):
            continue
        include, exclude = (value_of(plan.settings.get(name)) for name in ("include", "exclude"))
        names = [host.name for host in chosen(hostfile, include, exclude, plan.where)[0]]
        yield from address_is_of_the_first(plan, names, hostfile.file, Where(hostfile.file, 1))


def address_is_of_the_first(plan: Plan, names: list[str], listed: str, where: Where) -> Iterable[Finding]:
    """The address of rank 0 is that of the first of several hosts, which stand in `listed`."""
    address = plan.master_address
    if not isinstance(address, Sourced) or len(names) < 2:
        return
    first = names[0]
    if address.value in names[1:] and address.value != first:
        message = f"rank 0 runs on {first}, the first host of {listed}, and its address is {address.value}"
        yield fail("master_address_is_rank_0s", message, address.where, where, fix=first)
    elif _is_elsewhere(address.value, names):
        message = (
            f"the address of rank 0 is {address.value}, and {listed} has no such host: right only where"
            f" it is another address of {first}, the first one"
        )
        yield warn("master_address_is_rank_0s", message, address.where, where, fix=first)


def _is_elsewhere(address: str, names: list[str]) -> bool:
    """Whether an address is written like the hosts, as a number or as a name, and is none of them."""
    are_numbers = [IP.fullmatch(name) is not None for name in (address, *names)]
    if wrong_with(address) or is_loopback(address) or len(set(are_numbers)) > 1:
        return False
    if are_numbers[0]:
        return address not in names
    hosts, host = [name.split(".")[0] for name in names], address.split(".", maxsplit=1)[0]
    return not any(one.startswith(other) for name in hosts for one, other in ((name, host), (host, name)))


def _is(file: str, named: str) -> bool:
    return os.path.basename(file) == os.path.basename(named)


def chosen(
    hostfile: Hostfile, include: str | None, exclude: str | None, where: Where
) -> tuple[list[HostLine], list[Finding]]:
    """The hosts that --include and --exclude leave, and what they name that the hostfile has not."""
    hosts = {host.name: host for host in hostfile.hosts}
    problems: list[Finding] = []
    if include and exclude:
        problems.append(fail("hostfile_and_filters_agree", "--include and --exclude exclude each other", where))
    wanted: dict[str, list[int]] = {}
    for piece in (include or exclude or "").split("@"):
        name, colon, slots = piece.partition(":")
        numbers = [int(slot) for slot in slots.split(",") if slot.isascii() and slot.isdigit() and len(slot) < 6]
        if name and name not in hosts:
            message = f"{name} of --{'include' if include else 'exclude'} is not in {hostfile.file}"
            problems.append(fail("hostfile_and_filters_agree", message, where, Where(hostfile.file, 1)))
            continue
        if name:
            held = value_of(hosts[name].slots)
            beyond = [number for number in numbers if held is not None and number >= held]
            if beyond:
                message = f"slot {beyond[0]} of {name}: the hostfile gives it {held}"
                problems.append(fail("hostfile_and_filters_agree", message, where, hosts[name].where))
            wanted[name] = numbers if colon else []
    left: list[HostLine] = []
    for name, host in hosts.items():
        if include and name in wanted:
            slots_left = Sourced(len(wanted[name]), host.where.file, host.where.line) if wanted[name] else host.slots
            left.append(HostLine(name, slots_left, host.where))
        elif not include and not (name in wanted and not wanted[name]):
            before = value_of(host.slots)
            fewer = before - len(wanted.get(name, ())) if before is not None else None
            slots_left = host.slots if fewer is None else Sourced(fewer, host.where.file, host.where.line)
            left.append(HostLine(name, slots_left, host.where))
    return left, problems


def read_hostfile(text: str, file: str) -> tuple[Hostfile, list[Finding]]:
    """The hosts of a hostfile, and the lines that DeepSpeed would refuse."""
    hosts: list[HostLine] = []
    problems: list[Finding] = []
    without: list[Where] = []
    seen: dict[str, Where] = {}
    for number, raw in enumerate(text.split("\n"), start=1):
        line, where = raw.strip(), Where(file, number)
        if not line or line.startswith("#"):
            continue
        match = SLOTS.match(line) or COLON_SLOTS.fullmatch(line)
        name = match[1] if match else line.split()[0]
        if match is not None and match.re is COLON_SLOTS:
            message = f"{line[:60]!r} is how Hydra writes slots; DeepSpeed refuses the hostfile"
            problems.append(fail("hostfile_lines_are_read", message, where, fix=f"{name} slots={match[2]}"))
        if name in seen:
            message = f"{name} is listed in lines {seen[name].line} and {number}; DeepSpeed refuses a host twice"
            problems.append(fail("hostfile_names_a_host_once", message, seen[name], where))
        elif match is None and len(line.split()) > 1:
            message = f"{line[:60]!r} is not `host slots=N`: DeepSpeed refuses the hostfile"
            problems.append(fail("hostfile_lines_are_read", message, where, fix=f"{name} slots=8"))
        elif match is None:
            without.append(where)
        if match is not None and int(match[2]) == 0:
            problems.append(fail("hostfile_lines_are_read", f"{name} has slots=0: no rank would run there", where))
        seen.setdefault(name, where)
        hosts.append(HostLine(name, Sourced(int(match[2]), file, number) if match else None, where))
    if without and len(without) < len(hosts):
        message = f"no slots=N for {len(without)} of {len(hosts)} hosts: DeepSpeed refuses the hostfile"
        problems.append(fail("hostfile_lines_are_read", message, *without, fix="host slots=8"))
    elif without:
        message = "no host has slots=N: an MPI launcher reads such a file, DeepSpeed refuses it"
        problems.append(warn("hostfile_lines_are_read", message, without[0], fix="host slots=8"))
    return Hostfile(file, tuple(hosts)), problems


def read_batches(text: str, file: str) -> BatchConfig:
    """The figures of a DeepSpeed configuration."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise UsageError(f"{file}:{line}: not JSON: {getattr(error, 'msg', 'nested too deep')}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{file}:1: not a DeepSpeed configuration: wanted an object")
    lines = text.split("\n")
    zero = found.get("zero_optimization")
    zero = zero if isinstance(zero, dict) else {}
    values: dict[str, Field[Any]] = {}
    for key, value in found.items():
        values[key] = Sourced(value, file, _line_of(key, lines))
    for key in ("stage", "offload_optimizer", "offload_param", "cpu_offload"):
        if key in zero:
            values[f"zero_optimization.{key}"] = Sourced(zero[key], file, _line_of(key, lines))
    return BatchConfig(file, values)


def _line_of(key: str, lines: list[str]) -> int:
    """The line that has a key first."""
    quoted = json.dumps(key)
    return next((number for number, line in enumerate(lines, start=1) if quoted in line), 1)


def read_variables(text: str, file: str) -> tuple[dict[str, Field[str]], list[Finding]]:
    """The NAME=VALUE lines of .deepspeed_env or nccl.conf."""
    values: dict[str, Field[str]] = {}
    problems: list[Finding] = []
    is_deepspeed = "deepspeed_env" in file
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        name, equals, value = line.partition("=")
        if line and not line.startswith("#") and equals:
            values[name.removeprefix("export ").strip()] = Sourced(value.strip(), file, number)
        if is_deepspeed and (line.startswith("export ") or (line and not equals)):
            message = (
                f"{line[:60]!r}: DeepSpeed splits every line of {file} at its = and takes all before it as the name"
            )
            problems.append(
                fail("environment_file_lines_are_read", message, Where(file, number), fix=line.removeprefix("export "))
            )
    return values, problems


def is_auto(value: Field[Any]) -> bool:
    """Whether the trainer fills a figure in."""
    return isinstance(value, Unknown) or value_of(value) in (None, "auto")


def write(layout: Layout) -> dict[str, str]:
    """A hostfile and one command, run on the first node."""
    hosts = "".join(f"{node.name} slots={count}\n" for node, count in zip(layout.nodes, layout.processes, strict=True))
    command = [*layout.command("deepspeed", "deepspeed.launcher.runner"), f"--hostfile={layout.path('hostfile')}"]
    if len(layout.nodes) > 1:
        command.append(f"--master_addr={layout.address}")
    command += [f"--master_port={layout.port}", *layout.program]
    files = {"hostfile": hosts, "start.sh": HEAD + f"exec {shlex.join(command)}\n"}
    shared = shared_launch(layout)
    if shared:  # DeepSpeed looks for it in ~ and in the folder it is started from
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
    programs=("deepspeed", "ds"),
    modules=("deepspeed.launcher.runner",),
    read=read,
    logs_in=lambda plan: plan.start == "all nodes" and "hostfile" in plan.settings,
    write=write,
    start=on_each_node(start_agent),  # what makes it DeepSpeed is the engine that the ranks wrap their model in
    needs="deepspeed",
    blames=AGENT,
    strategy="zero2",
    trains_with="ZeRO stage 2",
    needs_logins=True,
    starts_of=starts_of,
    files_rules=(rank_0_is_on_the_first_host,),
    may_start=("torchrun",),
)
