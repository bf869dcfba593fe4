"""Which variables of a script do ssh, pdsh, sudo and srun leave behind, where the job on the other side reads them?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.launchers.slurm import SRUN
from preflight.launch.plan import Plan, ScriptFile, fail, warn
from preflight.launch.text.execute import LEAVING
from preflight.launch.text.expansion import Assigned
from preflight.launch.text.marks import is_known
from preflight.launch.text.shell import Command
from preflight.said import said

# What decides over which network ranks meet; what only tells more of it may stay behind.
STEERING = re.compile(r"(?!NCCL_DEBUG)(NCCL|GLOO|TORCH_NCCL|FI|UCX)_\w+")
# What a job is steered by, and a step without --export=ALL does not get.
OF_A_STEP = re.compile(r"(MASTER_(ADDR|PORT)|RANK|WORLD_SIZE)|(NCCL|GLOO|TORCH\w*|FI|UCX|HF|CUDA)_\w+|LD_LIBRARY_PATH")
SOURCES = re.compile(r"(?:^|[;&|\s])(?:source|\.)\s+(?!\S*(?:activate|conda\.sh)\b)\S")
TAKING = re.compile(r"-\w*E|--preserve-env|(-o)?SendEnv\b.*")


def variables_go_along(script: ScriptFile) -> Iterable[Finding]:
    """ssh and pdsh start a shell with the variables of the other node, sudo one with hardly any."""
    for plan in script.plans:
        by = _leaves_by(plan)
        commands = _commands(script, plan)
        if not by or not plan.spans_nodes or plan.is_conditional or not commands or _reads_files(script, by):
            continue
        left = _left(commands[-1], plan, by)
        if left:
            names = ", ".join(left)
            message = said("{by} does not hand on what is exported here: the job runs without {names}", by, names)
            where = (Where(script.marks.file, held.line) for held in left.values())
            fix = f"{by} ... {' '.join(f'{name}=${name}' for name in left)} {plan.launcher.name} ..."
            yield warn("variables_are_exported", message, plan.where, *where, fix=fix)


def steps_take_variables_along(script: ScriptFile) -> Iterable[Finding]:
    """srun --export=NAME hands on these names alone: with ALL in front it adds them to all others."""
    for plan in script.plans:
        given = [word.partition("=") for word in plan.wrapper if word.startswith("--export=")] if plan.slurm else []
        handed = [part.partition("=")[0] for part in given[-1][2].split(",")] if given else ["ALL"]
        if "ALL" in handed or not all(map(is_known, handed)):
            continue
        handed += _set_inside(script, plan)
        lost = {
            name: held for name, held in plan.environment.items() if OF_A_STEP.fullmatch(name) and name not in handed
        }
        if not lost:
            continue
        meeting = any(name.startswith("MASTER_") for name in lost) and not plan.rendezvous_id
        names, word = ", ".join(lost), "=".join((given[-1][0], given[-1][2]))
        message = said("{word}: the tasks of srun do not get {names}, which the script exports", word, names)
        where = (held.where for held in lost.values() if held is not None)
        fix = word.replace("=", "=ALL,", 1).replace(",NONE", "")
        tell = fail if meeting and ("bash" in plan.wraps or plan.launcher is SRUN) else warn
        yield tell("variables_are_exported", message, plan.where, *where, fix=fix)


def _set_inside(script: ScriptFile, plan: Plan) -> list[str]:
    """The variables that the shell which a step starts sets for the command itself."""
    found = [one for one in _commands(script, plan) if one.outer]
    if not found:
        return []
    inner = found[-1]
    steps = [one for one in script.commands if one.line <= inner.line and one.words[0].plain == "srun"]
    outside = steps[-1].variables if steps else {}
    taken = [name for name, held in inner.variables.items() if not _is_same(outside.get(name), held)]
    return [*inner.prefix, *taken]


def _is_same(outside: Assigned | None, held: Assigned) -> bool:
    return outside is not None and (outside.line, outside.texts) == (held.line, held.texts)


def _commands(script: ScriptFile, plan: Plan) -> list[Command]:
    """Those of the line of a start that are wrapped as it is."""
    return [one for one in script.commands if one.line == plan.where.line and _words(one) >= plan.wraps]


def _leaves_by(plan: Plan) -> str:
    """The program around a command that leaves variables behind, "" where none does or it is told to take them."""
    if any(TAKING.fullmatch(word) for word in plan.wrapper):
        return ""
    return next((name for name in (*sorted(LEAVING), "sudo") if name in plan.wraps), "")


def _words(command: Command) -> set[str]:
    return {word.rpartition("/")[2] for word in (*command.outer, *(word.plain for word in command.words))}


def _reads_files(script: ScriptFile, by: str) -> bool:
    """Whether something on the other side reads a file, which may set what is left behind."""
    if by == "sudo":
        return False
    texts = [word.plain for command in script.commands if by in _words(command) for word in command.words]
    return any(SOURCES.search(text) for text in texts)


def _left(command: Command, plan: Plan, by: str) -> Mapping[str, Assigned]:
    handed = {word.partition("=")[0] for word in plan.wrapper if "=" in word}
    return {
        name: held
        for name, held in command.variables.items()
        if held.exported
        and (held.is_hidden or by == "sudo")
        and STEERING.fullmatch(name)
        and name not in command.prefix
        and name not in handed
    }
