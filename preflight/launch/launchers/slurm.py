"""What do the #SBATCH lines of a script and the options of srun ask Slurm for?"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from preflight.launch.field import Field, Sourced, Unknown, words
from preflight.launch.job import ALL_RANKS, Job, Process, shared_variables
from preflight.launch.launcher import Launcher
from preflight.launch.layout import HEAD, Layout, exports, shared_launch
from preflight.launch.plan import Plan, Slurm
from preflight.launch.text.expansion import Assigned
from preflight.launch.text.marks import Marks
from preflight.launch.text.options import Spec, parse_options, product
from preflight.launch.text.shell import Word
from preflight.launch.traits import AgentOutput, FieldNames
from preflight.reach.hosts import parse_hosts
from preflight.said.errors import FactMissing, UsageError

LETTERS = {
    "-N": "nodes",
    "-n": "ntasks",
    "-c": "cpus_per_task",
    "-G": "gpus",
    "-w": "nodelist",
    "-J": "job_name",
    "-p": "partition",
}
LETTERS |= {"-t": "time", "-o": "output", "-e": "error", "-A": "account", "-l": "label"}
VALUED = words(
    """
    nodes ntasks ntasks_per_node cpus_per_task gpus gpus_per_node gpus_per_task gres gpu_bind
    nodelist job_name partition time output error account container_image container_mounts
    container_name export mem qos constraint exclude distribution cpu_bind mpi jobid chdir
    mem_per_cpu mem_per_gpu array reservation kill_on_bad_exit signal tasks_per_node
    ntasks_per_gpu cpus_per_gpu comment mail_type mail_user container_workdir network
    threads_per_core gres_flags
    """
)
FLAGS = words(
    """
    exclusive label overlap unbuffered no_requeue requeue wait_all_nodes no_container_mount_home
    pty
    """
)
SAME = {"tasks_per_node": "ntasks_per_node"}
SRUN_OPTIONS = Spec(VALUED, FLAGS, LETTERS)
DIRECTIVE = re.compile(r"#SBATCH\s+(.*)")


def read_directives(text: str, file: str, *, first_line: int = 1) -> Slurm | None:
    """The #SBATCH lines before the first command, as sbatch reads them; None where there is none."""
    groups: list[dict[str, Field[str]]] = [{}]
    found = False
    for number, line in enumerate(text.split("\n"), start=first_line):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            break
        match = DIRECTIVE.match(line)
        if match:
            found = True
            try:
                words = shlex.split(match[1], comments=True)
            except ValueError:
                words = match[1].split()
            if words[:1] in (["hetjob"], ["packjob"]):
                groups.append({})
            groups[-1].update(_options(words, file, number))
    for group in groups:
        named = group.get("nodelist")
        listed = listed_nodes(named)
        if isinstance(named, Sourced) and listed is not None and group.keys().isdisjoint(("nodes", "ntasks")):
            group["nodes"] = replace(named, value=str(listed))  # the nodes that are named, where no line says how many
    several = tuple(groups) if len(groups) > 1 else ()
    return Slurm(groups[0], groups=several) if found else None


def _options(words: list[str], file: str, line: int) -> dict[str, Field[str]]:
    parsed = parse_options(_apart(words, line), SRUN_OPTIONS, Marks(file))
    return {SAME.get(name, name): Sourced(word.text, file, line) for name, word in parsed.options.items()}


def _apart(words: Iterable[str], line: int) -> tuple[Word, ...]:
    """The words with letters and their values apart: -N2."""
    joined: list[str] = []
    for word in words:
        if len(word) > 2 and word[:2] in LETTERS and not word.startswith("--") and LETTERS[word[:2]] in VALUED:
            joined.extend([word[:2], word[2:].removeprefix("=")])
        else:
            joined.append(word)
    return tuple(Word(word, line) for word in joined)


def job_variables(slurm: Slurm) -> dict[str, Assigned]:
    """The SLURM_ variables that follow from the #SBATCH lines."""
    gpus = gpus_of_node(slurm)
    found: dict[str, Field[Any]] = {
        "SLURM_NNODES": slurm.number("nodes"),
        "SLURM_JOB_NUM_NODES": slurm.number("nodes"),
        "SLURM_NTASKS": slurm.number("ntasks"),
        "SLURM_NTASKS_PER_NODE": slurm.number("ntasks_per_node"),
        "SLURM_CPUS_PER_TASK": slurm.number("cpus_per_task"),
        "SLURM_GPUS_ON_NODE": gpus,
        "SLURM_GPUS_PER_NODE": slurm.options.get("gpus_per_node"),  # as it is written: h100:8; --gres does not set it
    }
    if slurm.groups:
        return {}  # those of the first group, and one for each behind a name of its own
    if found["SLURM_NTASKS"] is None:
        found["SLURM_NTASKS"] = product(slurm.number("nodes"), slurm.number("ntasks_per_node"))
    return {
        name: Assigned((str(value.value),), value.line, exported=True)
        for name, value in found.items()
        if isinstance(value, Sourced)
    }


def with_step(slurm: Slurm | None, wrapper: tuple[str, ...], marks: Marks, line: int) -> Slurm | None:
    """The batch script's options with those of the srun around the command, which win."""
    names = [word.rpartition("/")[2] for word in wrapper]
    if "srun" not in names:
        return slurm
    after = wrapper[len(names) - names[::-1].index("srun") :]
    parsed = parse_options(_apart(after, line), SRUN_OPTIONS, marks)
    step = {SAME.get(name, name): marks.field(word.text, line) for name, word in parsed.options.items()}
    slurm = _of_group(slurm, after) if slurm is not None and slurm.groups else slurm
    given = dict(slurm.options) if slurm else {}
    if "ntasks" in step and "ntasks_per_node" not in step:
        # With a number of its own, what the script says of each node is only the most that a node gets.
        given = {name: value for name, value in given.items() if name != "ntasks_per_node"}
    allocated = slurm.number("nodes") if slurm is not None and "nodes" in step and "jobid" not in step else None
    some = _names_some(step.get("nodelist"), slurm)
    return Slurm({**given, **step}, has_directives=slurm is not None, allocated=allocated, some_nodes=some)


HOSTLIST = re.compile(r"[\w.,\[\]-]+")
# srun's own --nodelist with one of these names every node of the job.
WHOLE_JOB = re.compile(r"[\"']?\$\{?SLURM_(JOB_)?NODELIST\}?[\"']?")


def _names_some(named: Field[str], job: Slurm | None) -> bool:
    """Whether the -w of a step leaves nodes of the job out; the job's own list only says which nodes it gets."""
    if isinstance(named, Unknown):
        return not WHOLE_JOB.fullmatch(named.expression)
    asked, listed = job.number("nodes") if job is not None else None, listed_nodes(named)
    return named is not None and not (isinstance(asked, Sourced) and listed is not None and listed >= asked.value)


def listed_nodes(named: Field[str]) -> int | None:
    """How many nodes a --nodelist names; None where it is a file, or not known."""
    if not isinstance(named, Sourced) or not HOSTLIST.fullmatch(named.value):
        return None
    try:
        return len({host.address for host in parse_hosts(named.value)})
    except UsageError:
        return None


def _of_group(slurm: Slurm, words: tuple[str, ...]) -> Slurm:
    """What a heterogeneous job asks for where a step runs: in its first group, or in those of --het-group."""
    given = next((word.partition("=")[2] for word in words if word.startswith(("--het-group=", "--pack-group="))), "0")
    places = [int(place) for place in re.split("[,:-]", given) if re.fullmatch(r"\d{1,3}", place)]
    if any(place >= len(slurm.groups) for place in places) or not places:
        return Slurm({}, has_directives=False)
    first = Slurm(slurm.groups[places[0]])
    if len(places) == 1:
        return first
    counts = [Slurm(slurm.groups[place]).number("nodes") for place in places]
    known = [count for count in counts if isinstance(count, Sourced)]
    nodes = Sourced(str(sum(count.value for count in known)), known[0].file, known[0].line) if known else None
    return Slurm({"nodes": nodes} if nodes is not None and len(known) == len(counts) and "-" not in given else {})


def gpus_of_node(slurm: Slurm) -> Field[int]:
    """The GPUs that Slurm gives a node: --gpus-per-node, or the gpu entry of --gres."""
    for name in ("gpus_per_node", "gres"):
        value = slurm.options.get(name)
        if isinstance(value, Sourced) and (name != "gres" or "gpu" in value.value):
            for part in value.value.split(","):
                digits = re.fullmatch(r"(?:gres/)?(?:[a-z]\S*:)?(\d{1,6})(?:\(.*\))?", part.strip(), re.IGNORECASE)
                if digits and (name != "gres" or part.strip().startswith(("gpu", "gres/gpu"))):
                    return Sourced(int(digits[1]), value.file, value.line)
            if name == "gres":
                return Sourced(1, value.file, value.line)  # --gres=gpu
    return None


def tasks_of_node(plan: Plan) -> Field[int]:
    """The tasks that srun starts on a node, each of them the whole command; None where Slurm's default of one holds."""
    if plan.slurm is None:
        return None
    given = plan.slurm.number("ntasks_per_node")
    if given is not None:
        return given
    tasks, nodes = plan.slurm.number("ntasks"), plan.slurm.number("nodes")
    if isinstance(tasks, Sourced) and isinstance(nodes, Sourced) and nodes.value and tasks.value % nodes.value == 0:
        return Sourced(tasks.value // nodes.value, tasks.file, tasks.line)
    if isinstance(tasks, Sourced) and nodes is None:
        return None
    return None


def write(layout: Layout) -> dict[str, str]:
    """An sbatch script."""
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
        + exports(shared_launch(layout))
        + f"srun bash -c {shlex.quote(inner)}\n"
    )
    return {"job.sbatch": HEAD + "\n".join(lines) + "\n" + layout.enter + body}


# A task of srun takes its number from Slurm, and says how its rank ended: srun has many words for that.
RANK = """#!/bin/sh
{exports}export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID
{python} {script}
code=$?
[ $code = 0 ] || echo "rank $RANK ended with $code"
exit $code
"""
# The step in which a node's session runs must not decide what the step of the ranks is; the allocation may. What it
# says of a task holds for as many tasks on a node: eight ranks do not each get the CPUs of the one torchrun.
STEP = """
if [ -z "$SLURM_JOB_ID" ]; then
  echo "srun: error: no SLURM_JOB_ID on $(hostname): it would wait for an allocation; reach the nodes by --hosts slurm"
  exit 1
fi
for name in $(env | sed -n 's/^\\(SLURM_[A-Z0-9_]*\\)=.*/\\1/p'); do
  case $name in
    SLURM_CONF|SLURM_JOB_ID|SLURM_JOBID|SLURM_JOB_NODELIST|SLURM_JOB_NUM_NODES|SLURM_CLUSTER_NAME) ;;
    *) unset "$name";;
  esac
done
share=$PREFLIGHT_OF_A_NODE
if [ "$PREFLIGHT_TASKS" = "$LOCAL_WORLD_SIZE" ]; then
  share=$PREFLIGHT_OF_A_TASK
  case $share in *--gpu*) export PREFLIGHT_OWN_GPUS=1;; esac
fi
set -f
for each in $PREFLIGHT_OF_A_STEP; do
  export "$each"
done
export SLURM_HOSTFILE="$HOSTS"
exec srun --jobid="$SLURM_JOB_ID" --overlap --label --kill-on-bad-exit=1 --distribution=arbitrary $share "$@"
"""


def start_all(job: Job, master_port: int) -> dict[str, list[Process]]:
    """One step of srun for all ranks, from the first node; where each of them runs is a file, in the ranks' order."""
    started: dict[str, list[Process]] = {}
    for node in job.nodes:
        variables = {"MASTER_ADDR": job.address_for(node), "MASTER_PORT": str(master_port)}
        own = {
            **shared_variables(job, node),
            **variables,
            "LOCAL_WORLD_SIZE": str(len(job.placements_on(node))),
        }
        process: Process = {"name": node, "argv": [], "environment": own, "shared": {"rank.sh": RANK}}
        if node == job.nodes[0]:
            counts = [f"--nodes={len(job.nodes)}", f"--ntasks={job.world_size}"]
            argv = ["sh", "-c", STEP, "srun", *counts, "sh", "{shared:rank.sh}"]
            hosts = "".join(f"{place.node}\n" for place in job.placements)
            own = {**own, "HOSTS": "{file:hosts}"}
            process |= {"name": ALL_RANKS, "argv": argv, "environment": own, "files": {"hosts": hosts}}
        started[node] = [process]
    return started


def in_components(environment: Mapping[str, str]) -> str:
    """Why no step of srun has all ranks: in a heterogeneous job each component has steps of its own; "" elsewhere."""
    if not environment.get("SLURM_HET_SIZE"):
        return ""
    return "no one step of a heterogeneous job has all its nodes; start the ranks with --launcher=torchrun"


SLURM = Launcher(
    name="slurm",
    description="an sbatch script",
    starts_all_nodes=True,
    equal_ranks=True,
    write=write,
    begins_with="sbatch",
)
SRUN = Launcher(
    name="srun",
    description="a step of srun, in the allocation that `--hosts slurm` reaches",
    field_names=FieldNames(rank="SLURM_PROCID", nodes="--nodes"),
    starts_all_nodes=True,
    numbers_processes=True,
    wrappers=("srun",),
    claims=lambda plan: plan.slurm is not None or "srun" in plan.wraps,
    refusal="srun starts it, inside an allocation of Slurm",
    start=start_all,
    refuses=lambda _: in_components(os.environ),
    blames=AgentOutput(
        failed=re.compile(r"(?m)^(?:\s*\d+: )?rank (?P<rank>\d+) ended with (?P<exit>-?\d+)$"),
        line=re.compile(r"\s*(?P<rank>\d+): "),
    ),
)
