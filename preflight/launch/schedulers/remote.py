"""Which variables of a script do ssh, pdsh and sudo leave behind, where the job on the other side reads them?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.plan import Plan, ScriptFile, warn
from preflight.launch.text.execute import LEAVING
from preflight.launch.text.expansion import Assigned
from preflight.launch.text.shell import Command
from preflight.said import said

# What decides over which network ranks meet; what only tells more of it may stay behind.
STEERING = re.compile(r"(?!NCCL_DEBUG)(NCCL|GLOO|TORCH_NCCL|FI|UCX)_\w+")
SOURCES = re.compile(r"(?:^|[;&|\s])(?:source|\.)\s+(?!\S*(?:activate|conda\.sh)\b)\S")
TAKING = re.compile(r"-\w*E|--preserve-env|(-o)?SendEnv\b.*")


def variables_go_along(script: ScriptFile) -> Iterable[Finding]:
    """ssh and pdsh start a shell with the variables of the other node, sudo one with hardly any."""
    for plan in script.plans:
        by = _leaves_by(plan)
        commands = [one for one in script.commands if one.line == plan.where.line and _words(one) >= plan.wraps]
        if not by or not plan.spans_nodes or plan.is_conditional or not commands or _reads_files(script, by):
            continue
        left = _left(commands[-1], plan, by)
        if left:
            names = ", ".join(left)
            message = said("{by} does not hand on what is exported here: the job runs without {names}", by, names)
            where = (Where(script.marks.file, held.line) for held in left.values())
            fix = f"{by} ... {' '.join(f'{name}=${name}' for name in left)} {plan.launcher.name} ..."
            yield warn("variables_are_exported", message, plan.where, *where, fix=fix)


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
