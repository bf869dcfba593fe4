"""What does each command of a script say of nodes and GPUs: who gives them, and who counts on them?

A scheduler, container or program that says how many is one row here; every giver is compared with every taker.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from preflight.judge.ledger.findings import Where
from preflight.launch.field import Field, Sourced, firm, value_of
from preflight.launch.launchers.slurm import gpus_of_node
from preflight.launch.plan import Plan, ScriptFile
from preflight.launch.text.marks import plain
from preflight.launch.text.shell import Command

Quantity = Literal["nodes", "GPUs on a node", "GPUs"]
COUNT = re.compile(r"\d{1,6}")
# a hostfile that the script writes itself: echo "$host slots=8", sed 's/$/ slots=8/', awk '{print $1, "slots=8"}'
WRITERS, SLOTS = frozenset({"echo", "printf", "sed", "awk", "gawk", "perl"}), re.compile(r"\bslots=(\d{1,4})\b")


@dataclass(frozen=True)
class Promise:
    """So many nodes or GPUs, who says so, and where."""

    quantity: Quantity
    count: int
    by: str
    where: Where
    is_exact: bool = False  # whether fewer takers are wrong as well: one is started on each node


@dataclass(frozen=True)
class Program:
    """A program that is told how large its cluster is; what it shares out by must divide the whole."""

    name: str
    sign: re.Pattern[str]
    nodes: tuple[str, int]  # the key, and what the program takes where it is not given
    gpus: tuple[str, int]
    shares: tuple[tuple[str, ...], ...] = ()


PROGRAMS = (
    Program(
        "verl",
        re.compile(r"\bverl\.trainer\.|\btrainer\.n_gpus_per_node="),
        ("trainer.nnodes", 1),
        ("trainer.n_gpus_per_node", 8),
        (
            ("actor_rollout_ref.rollout.tensor_model_parallel_size",),
            (
                "actor_rollout_ref.actor.megatron.tensor_model_parallel_size",
                "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size",
                "actor_rollout_ref.actor.megatron.context_parallel_size",
            ),
        ),
    ),
    Program(
        "NeMo-RL",
        re.compile(r"\bcluster\.(?:num_nodes|gpus_per_node)="),
        ("cluster.num_nodes", 1),
        ("cluster.gpus_per_node", 1),
        (
            ("policy.generation.vllm_cfg.tensor_parallel_size",),
            (
                "policy.megatron_cfg.tensor_model_parallel_size",
                "policy.megatron_cfg.pipeline_model_parallel_size",
                "policy.megatron_cfg.context_parallel_size",
            ),
        ),
    ),
)
# Of OpenRLHF: the roles with nodes and GPUs of their own, and the flags that let them share those of the actor.
ROLES = {"ref": "colocate_actor_ref", "critic": "colocate_critic_reward", "reward": "colocate_critic_reward"}


def given(script: ScriptFile, command: Command) -> Iterator[Promise]:
    """What stands around a command and says what there is."""
    words = words_of(command)
    names = [word.rpartition("/")[2] for word in words]
    if names[0] == "sbatch":
        yield from _of_sbatch(words, Where(script.marks.file, command.line))
    elif script.slurm is not None and not script.slurm.groups:
        each = gpus_of_node(script.slurm)
        nodes = script.slurm.number("nodes")
        nodes = nodes if nodes is not None or script.slurm.number("ntasks") is not None else _one(each)
        yield from _of_allocation(nodes, each)
    for name, reader in AROUND.items():
        if name in names:
            yield from reader(words[names.index(name) :], Where(script.marks.file, command.line))


def taken(script: ScriptFile, command: Command) -> Iterator[Promise]:
    """What the program of a command counts on."""
    words = [*words_of(command), *_handed(command)]
    where = Where(script.marks.file, command.line)
    for program in sized(words):
        quantities: tuple[tuple[Quantity, str], ...] = (
            ("nodes", program.nodes[0]),
            ("GPUs on a node", program.gpus[0]),
        )
        for quantity, key in quantities:
            count = number(words, key)
            if count is not None:
                yield Promise(quantity, count, key, where)
        nodes, gpus = (number(words, key) or default for key, default in (program.nodes, program.gpus))
        yield Promise("GPUs", nodes * gpus, f"{program.nodes[0]} x {program.gpus[0]}", where)
    slots = SLOTS.search(" ".join(words)) if WRITERS.intersection(words[:1]) else None
    if slots and any(plan.launcher.name == "deepspeed" for plan in script.plans):
        yield Promise("GPUs on a node", int(slots[1]), slots[0], where)
    if any("openrlhf" in word for word in words):
        yield from _of_openrlhf(words, where)


def counted(plan: Plan) -> Iterator[Promise]:
    """What a launcher counts on: the nodes that it waits for, and a GPU for each of its processes on a node."""
    held: tuple[tuple[Quantity, Field[int]], ...] = (
        ("nodes", plan.nodes),
        ("GPUs on a node", plan.processes_per_node),
    )
    for quantity, field in held if plan.launcher.has_agent else ():
        count = firm(field)
        if isinstance(field, Sourced) and field.origin == "written" and count is not None:
            yield Promise(quantity, count, plan.launcher.name, field.where)


def sized(words: Iterable[str]) -> list[Program]:
    """The programs among the words that say how large their cluster is."""
    text = " ".join(words)
    return [program for program in PROGRAMS if program.sign.search(text)]


def words_of(command: Command) -> list[str]:
    """All words of a command, those of what it is wrapped in first."""
    return [*map(plain, command.outer), *(word.plain for word in command.words)]


def all_words(command: Command) -> list[str]:
    """The same, with those that it hands to a script by a variable."""
    return [*words_of(command), *_handed(command)]


def _handed(command: Command) -> list[str]:
    """NeMo-RL's ray.sub and its like run what COMMAND holds."""
    held = command.prefix.get("COMMAND")
    return [word for text in held.texts for word in plain(text).split()] if held is not None else []


def number(words: Iterable[str], *keys: str) -> int | None:
    """The last number that one of the keys is given: key=2, +key=2, --key=2, --key 2, -k2."""
    found = None
    listed = list(words)
    for place, word in enumerate(listed):
        name, equals, value = word.lstrip("+-").partition("=")
        if name.replace("-", "_") in keys or name in keys:
            text = value if equals else listed[place + 1] if place + 1 < len(listed) and word.startswith("-") else ""
        elif word.startswith("-") and word[1:2] in keys and COUNT.fullmatch(word[2:]):
            text = word[2:]
        else:
            continue
        found = int(text) if COUNT.fullmatch(text.strip("'\"")) else None
    return found


def _of_allocation(nodes: Field[int], each: Field[int]) -> Iterator[Promise]:
    if isinstance(nodes, Sourced):
        yield Promise("nodes", nodes.value, "Slurm", nodes.where)
    if isinstance(each, Sourced):
        yield Promise("GPUs on a node", each.value, "Slurm", each.where)
    if isinstance(nodes, Sourced) and isinstance(each, Sourced):
        yield Promise("GPUs", nodes.value * each.value, "Slurm", nodes.where)


def _one(held: Field[int]) -> Field[int]:
    """One node, where the header asks for GPUs and says nothing of nodes."""
    return Sourced(1, held.file, held.line) if isinstance(held, Sourced) else None


GRES = re.compile(r"--(?:gpus-per-node|gres)[= ](?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d{1,3})(?= |$)")


def _of_sbatch(words: list[str], where: Where) -> Iterator[Promise]:
    """The options of the command line that submits; they win over the header of the script."""
    nodes, gpus = number(words, "nodes", "N"), GRES.search(" ".join(words))
    yield from _of_allocation(
        Sourced(nodes, where.file, where.line) if nodes else None,
        Sourced(int(gpus[1]), where.file, where.line) if gpus else None,
    )


def _of_flux(words: list[str], where: Where) -> Iterator[Promise]:
    """`flux run -N 2` starts its tasks on that many nodes."""
    until = next((place for place, word in enumerate(words[2:], start=2) if _is_program(words, place)), len(words))
    nodes = number(words[:until], "nodes", "N")
    if len(words) > 1 and words[1] in ("run", "submit", "alloc", "batch", "bulksubmit") and nodes:
        yield Promise("nodes", nodes, f"flux {words[1]}", where, is_exact=True)


def _of_xpk(words: list[str], where: Where) -> Iterator[Promise]:
    """`xpk workload create --num-nodes=2` starts its command on that many nodes."""
    nodes = number(words, "num-nodes")
    if words[1:2] == ["workload"] and nodes:
        yield Promise("nodes", nodes, "xpk --num-nodes", where, is_exact=True)


def _of_jsrun(words: list[str], where: Where) -> Iterator[Promise]:
    """`jsrun -n 4 -r 1` starts a launcher in each of its resource sets, of which a host has one."""
    sets = number(words, "nrs", "n")
    if sets and number(words, "rs_per_host", "r") == 1 and (number(words, "tasks_per_rs", "a") or 1) == 1:
        yield Promise("nodes", sets, "jsrun -n", where, is_exact=True)


def _is_program(words: list[str], place: int) -> bool:
    return not words[place].startswith("-") and (not words[place - 1].startswith("-") or "=" in words[place - 1])


def _of_container(words: list[str], where: Where) -> Iterator[Promise]:
    """`docker run --gpus 4`, or the devices by their numbers."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        text = value if equals else words[place + 1] if place + 1 < len(words) else ""
        if name != "--gpus":
            continue
        bare = text.strip("'\"")
        devices = re.search(r"device=([\d,]+)", text)
        count = int(bare) if COUNT.fullmatch(bare) else len(devices[1].strip(",").split(",")) if devices else None
        if count is not None:
            yield Promise("GPUs on a node", count, f"{words[0].rpartition('/')[2]} --gpus", where)


AROUND: Mapping[str, Callable[[list[str], Where], Iterator[Promise]]] = {
    "flux": _of_flux,
    "xpk": _of_xpk,
    "jsrun": _of_jsrun,
    "docker": _of_container,
    "podman": _of_container,
}


def _of_openrlhf(words: list[str], where: Where) -> Iterator[Promise]:
    """Every role has GPUs of its own, unless roles are put onto the same ones."""
    flags = {word.lstrip("-") for word in words}

    def size(role: str) -> int:
        sizes = [number(words, f"{role}_num_{part}") for part in ("nodes", "gpus_per_node")]
        return math.prod(size or 0 for size in sizes)

    actor = size("actor")
    if not actor:
        return
    parts = {"actor": actor}
    if "colocate_all_models" not in flags:
        parts |= {role: size(role) for role, flag in ROLES.items() if flag not in flags or role == "critic"}
        engines = number(words, "vllm_num_engines") or 0
        parts["vLLM"] = engines * (number(words, "vllm_tensor_parallel_size") or 1)
    named = " + ".join(f"{name} {count}" for name, count in parts.items() if count)
    yield Promise("GPUs", sum(parts.values()), f"OpenRLHF ({named})", where)


def text_of(plan: Plan) -> list[str]:
    """The arguments of a plan's program as far as they are known."""
    return [value_of(argument) or "" for argument in plan.arguments]
