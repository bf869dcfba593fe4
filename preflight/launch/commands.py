"""Which commands of a script launch training, and through which launcher?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from preflight.launch.field import Field, words
from preflight.launch.launchers import accelerate, deepspeed, env, llamafactory, torchrun
from preflight.launch.launchers.slurm import with_step
from preflight.launch.plan import Hostfile, Plan, Slurm
from preflight.launch.text.marks import Marks
from preflight.launch.text.options import Reader
from preflight.launch.text.shell import Command
from preflight.ledger.findings import Finding

PYTHON = re.compile(r"python(\d(\.\d+)?)?")
# Commands that only name a launcher.
TALK = frozenset(
    words(
        """
    echo printf pip pip3 pipx uv-pip which type command pkill killall kill pgrep grep egrep sed
    awk cat tee ls cp mv rm mkdir chmod apt apt-get yum dnf brew git wget curl tar alias touch
    cd test [ [[ ps module rsync scp log info vim
    """
    )
)
TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic.run")


@dataclass
class Context:
    """What the commands of one file are read against: configurations and hostfiles that they name."""

    marks: Marks
    slurm: Slurm | None = None
    configs: Mapping[str, Mapping[str, Field[Any]]] = field(default_factory=dict)
    hostfiles: Mapping[str, Hostfile] = field(default_factory=dict)
    problems: list[Finding] = field(default_factory=list)


def plan_of(command: Command, context: Context) -> Plan | None:
    """The plan of a command, None where it launches nothing."""
    names = [word.plain.rpartition("/")[2] for word in command.words]
    if names[0] in TALK or (names[0] in ("uv", "conda", "poetry", "sudo") and "install" in names[1:4]):
        return None
    for place, name in enumerate(names):
        if name in TALK and place < 3 and names[0] in ("sudo", "env", "command"):
            return None
        plan = _plan_at(command, context, names, place, name)
        if plan is not None:
            return replace(plan, is_opaque=True) if command.is_torn else plan
        if PYTHON.fullmatch(name):
            return None
    return None


def _plan_at(command: Command, context: Context, names: list[str], place: int, name: str) -> Plan | None:
    reader = Reader(command, context.marks)
    wrapper = reader.wrapper(place)
    reader.slurm = with_step(context.slurm, wrapper, context.marks, command.line)
    rest = command.words[place + 1 :]
    plan: Plan | None = None
    module = _module(names[place + 1 :]) if PYTHON.fullmatch(name) else None
    if name == "torchrun":
        plan = torchrun.read(reader, rest, wrapper)
    elif module is not None and names[place + 1 + module] in TORCH_MODULES:
        plan = torchrun.read(reader, rest[module + 1 :], wrapper)
    elif name == "accelerate" and names[place + 1 : place + 2] == ["launch"]:
        plan = accelerate.read(reader, rest[1:], wrapper, context.configs)
    elif name == "accelerate-launch":
        plan = accelerate.read(reader, rest, wrapper, context.configs)
    elif module is not None and names[place + 1 + module] == "accelerate.commands.launch":
        plan = accelerate.read(reader, rest[module + 1 :], wrapper, context.configs)
    elif name in ("deepspeed", "ds") and rest:
        plan = deepspeed.read(reader, rest, wrapper, context.hostfiles)
    elif module is not None and names[place + 1 + module] == "deepspeed.launcher.runner":
        plan = deepspeed.read(reader, rest[module + 1 :], wrapper, context.hostfiles)
    elif name in ("llamafactory-cli", "lmf"):
        plan = llamafactory.read_llamafactory(reader, rest, wrapper)
    elif PYTHON.fullmatch(name):
        plan = env.read(reader, rest, wrapper)
    if plan is not None:
        context.problems.extend(reader.problems)
    return plan


def _module(names: list[str]) -> int | None:
    """The place of the module's name in ``python -u -m module``."""
    for place, name in enumerate(names[:-1]):
        if name == "-m":
            return place + 1
        if not name.startswith("-"):
            return None
    return None
