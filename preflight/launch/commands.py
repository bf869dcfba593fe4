"""Which commands of a script launch training, and through which launcher?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from preflight.judge.ledger.findings import Finding
from preflight.launch.containers import run_of
from preflight.launch.field import Field, Unknown, shown, words, written
from preflight.launch.launchers import ROWS
from preflight.launch.launchers.mpirun import command as mpirun
from preflight.launch.launchers.slurm import with_step
from preflight.launch.plan import Handed, Hostfile, Plan, Slurm
from preflight.launch.schedulers.mpi import stays_behind
from preflight.launch.text.expansion import Assigned
from preflight.launch.text.marks import UNKNOWN_MARK, Marks, is_firm, is_known
from preflight.launch.text.options import Around, Reader
from preflight.launch.text.shell import CONTAINERS, REMOTE, SHELLS, Command, Word, is_container
from preflight.launch.traits import PYTHON
from preflight.said import said

PYTHON_NAME = re.compile(r"python(\d(\.\d+)?)?")
# Commands that mention a launcher without starting it.
TALK = frozenset(
    words(
        """
    echo printf pip pip3 pipx uv-pip which type command pkill killall kill pgrep grep egrep sed
    awk cat tee ls cp mv rm mkdir chmod apt apt-get yum dnf brew git wget curl tar alias touch
    cd test [ ps module rsync scp log info vim
    """
    )
)
LAUNCHER_WORDS = 100  # among which a launcher's name stands, with Python's own options before it
KEEP_FOLDER = frozenset({"srun", "mpirun", "mpiexec", "jsrun"})  # they start their tasks where they are started
Read = Callable[[Reader, tuple[Word, ...], tuple[str, ...]], Plan | None]
# The words of a program, or the name of a module -> the reader of the words that follow.
PROGRAMS: Mapping[tuple[str, ...], Read] = {
    tuple(program.split()): row.read for row in ROWS for program in row.programs if row.read is not None
}
KNOWN = tuple(program for program in PROGRAMS if program != (PYTHON,)) + tuple(
    (module,) for row in ROWS for module in row.modules
)
MODULES: Mapping[str, Read] = {module: row.read for row in ROWS for module in row.modules if row.read is not None}
WRAPPERS = {program: Around(row, row.around) for row in ROWS for program in row.wrappers}


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
    if names[0] == "command" and names[1:2] in (["-v"], ["-V"]):
        return None
    if names[0] in TALK or (names[0] in ("uv", "conda", "poetry", "sudo") and "install" in names[1:4]):
        return None
    for place, name in enumerate(names):
        if name in TALK and place < 3 and names[0] in ("sudo", "env", "command"):
            return None
        if PYTHON_NAME.fullmatch(name) and RUNNERS.intersection(names[place + 1 : place + 4]):
            return None
        plan = _plan_at(command, context, names, place)
        if plan is not None and place and _is_filled_in(plan, names[:place]):
            return None
        if plan is not None:
            if place and not is_firm(command.words[0].text):
                plan = replace(plan, is_conditional=True)  # what starts it is not known: mpirun in one of the branches
            plan = replace(plan, loop=command.loop, in_background=command.in_background, folder=_folder(command, plan))
            return replace(plan, is_opaque=True) if command.is_torn else plan
        if PYTHON_NAME.fullmatch(name):
            return None
    return None


def _folder(command: Command, plan: Plan) -> str:
    """Where the command runs on its node, by the last `cd` before it; on another node it starts in one of its own."""
    held = command.variables.get("PWD")
    leaves = is_container(plan.wrapper) or plan.wraps & (REMOTE - KEEP_FOLDER)
    return held.text if held is not None and is_firm(held.text) and not leaves else ""


# Programs that start the command behind them unchanged.
PASSING = frozenset(
    words(
        """
    env exec nohup setsid time timeout nice ionice taskset numactl chrt sudo su unbuffer stdbuf strace ltrace nsys
    ncu rocprof rocprofv3 py-spy gdb catchsegv conda mamba micromamba poetry uv uvx pipenv pdm hatch rye pixi coverage
    xargs ssh pdsh clush mpirun mpiexec mpiexec.hydra srun screen tmux script command builtin systemd-run prlimit
    runuser doas jsrun blaunch pbsdsh pbs_tmrsh pssh
    """
    )
)


RUNNERS = frozenset(
    {"deepy.py"}
)  # programs in Python that start all nodes by themselves: gpt-neox on DeepSpeed's runner


def _is_filled_in(plan: Plan, before: list[str]) -> bool:
    """Whether a program of its own starts a bare launcher: `oumi distributed torchrun` works out the counts itself."""
    is_bare = not plan.is_opaque and not written(plan.nodes) and not written(plan.processes_per_node)
    starter = before[0]
    is_own = re.fullmatch(r"[a-z][\w.-]*", starter) is not None and starter not in PASSING | SHELLS | CONTAINERS
    return plan.launcher.has_agent and is_bare and is_own and not plan.is_standalone


def unjudged(command: Command, plan: Plan | None, marks: Marks) -> str:
    """What is unknown about a command that starts a job, or may start one; "" where nothing is."""
    words = command.words
    if plan is not None:
        config = plan.setting("config_file")
        lacking = said("{config} is not given", config) if isinstance(config, str) and not plan.config else ""
        if plan.is_open and not plan.is_opaque:
            fields = (plan.nodes, plan.node_rank, plan.processes_per_node, plan.master_address)
            outside = dict.fromkeys(shown(held) for held in fields if isinstance(held, Unknown))
            return said("{outside} come from outside", ", ".join(outside))
        return (lacking or _hidden(words, marks)) if plan.is_opaque else ""
    names = [word.plain.rpartition("/")[2] for word in words]
    if names[0] in TALK or names[0].startswith("-") or command.is_opened:
        return ""
    if not is_known(words[0].plain.rpartition("/")[2]) and any(
        name.startswith("--") or name.endswith(".py") for name in names[1:]
    ):
        return said("what {spelled} stands for is unknown here", marks.spelled(words[0].text)[:80])
    started = next((known for known in KNOWN if _stands_in(known, names)), ())
    if started:
        starter = next((name for name in names if name.endswith((".py", ".sh"))), names[0])
        return said("{starter} starts `{started}` in a way of its own", starter, " ".join(started))
    return ""


def _hidden(words: tuple[Word, ...], marks: Marks) -> str:
    unknown = [word for word in words if UNKNOWN_MARK.match(word.plain)]
    shown = dict.fromkeys(marks.spelled(word.text)[:60] for word in unknown)
    return said("what {list} stands for is unknown here", ", ".join(list(shown)[:3])) if shown else ""


def _stands_in(program: tuple[str, ...], names: list[str]) -> bool:
    """Whether a program's words are among others, and not the value of an option."""
    for place in range(1, len(names) - len(program) + 1):
        if tuple(names[place : place + len(program)]) == program and (
            names[place - 1] == "--" or not names[place - 1].startswith("-")
        ):
            return True
    return False


def _plan_at(command: Command, context: Context, names: list[str], place: int) -> Plan | None:
    found = _launcher_at(names[place : place + LAUNCHER_WORDS])
    if found is None:
        return None
    read, words_of_it = found
    reader = Reader(command, context.marks, configs=context.configs, hostfiles=context.hostfiles, wrappers=WRAPPERS)
    wrapper = reader.wrapper(place)
    container = run_of(wrapper, context.marks.file, command.line)
    if container is not None and container.variables:
        inside = {name: Assigned((value,), command.line, exported=True) for name, value in container.variables.items()}
        reader.command = replace(command, variables={**command.variables, **inside})
    handed = mpirun.handed_to(wrapper)
    if handed:
        inside = {name: Assigned((value,), command.line, exported=True) for name, value in handed.items()}
        reader.command = replace(reader.command, variables={**inside, **reader.command.variables, **inside})
    reader.slurm = with_step(context.slurm, wrapper, context.marks, command.line)
    after = place + words_of_it
    after += _is_handed_options(names, place, after)
    plan = read(reader, command.words[after:], wrapper)
    if plan is not None:
        context.problems.extend(reader.problems)
        context.problems.extend(stays_behind(plan, command.variables))
        plan = replace(plan, words=tuple(map(_handed, command.words[after:])))
    return plan


def _handed(word: Word) -> Handed:
    return Handed(UNKNOWN_MARK.sub("1", word.plain), word.line, is_known(word.text))


def _launcher_at(names: list[str]) -> tuple[Read, int] | None:
    """How the launcher that these words begin with is read, and how many of them are its name."""
    if PYTHON_NAME.fullmatch(names[0]):
        module = _module(names[1:])
        if module is not None and names[1 + module] in MODULES:
            return MODULES[names[1 + module]], module + 2
        return PROGRAMS[PYTHON,], 1
    module = _module(names[1:]) if not names[0].startswith("-") else None
    if module is not None and names[1 + module] in MODULES:  # ./python.sh -m torch.distributed.run
        # debugpy-run -m torch.distributed.run -p 5678 -- --nnodes 2: what stands before -- is its own
        ends = names.index("--", module) if "--" in names[2 + module : 8 + module] else 1 + module
        is_own = all(not name.endswith(".py") for name in names[2 + module : ends])
        return MODULES[names[1 + module]], (ends if is_own else 1 + module) + 1
    fitting = (program for program in PROGRAMS if tuple(names[: len(program)]) == program)
    program = max(fitting, key=len, default=())
    return (PROGRAMS[program], len(program)) if program else None


def _is_handed_options(names: list[str], place: int, after: int) -> bool:
    """Whether a program is told its launcher, and its options behind a --: ``--launcher torchrun -- ...``."""
    return place > 0 and names[place - 1].startswith("--") and names[after : after + 1] == ["--"]


def _module(names: list[str]) -> int | None:
    """The place of the module's name in ``python -u -m module``."""
    for place, name in enumerate(names[:-1]):
        if name == "-m":
            return place + 1
        if not name.startswith("-"):
            return None
    return None
