"""Does a script start every node once, in time, and with the devices that its processes expect?"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced, Unknown, value_of
from preflight.launch.plan import LaunchFiles, Plan, ScriptFile, Slurm, fail, warn
from preflight.launch.reading import trainer
from preflight.launch.slips.alone import OF_A_TASK, taken_from_slurm
from preflight.launch.text.marks import Marks, is_firm
from preflight.launch.text.programs import actor_batches, argument_number
from preflight.launch.text.shell import REMOTE, Command, Word, is_container
from preflight.said import joined, said

DOWNLOADS = (
    ("pip", "install"),
    ("pip3", "install"),
    ("conda", "install"),
    ("apt-get", "install"),
    ("apt", "install"),
    ("huggingface-cli", "download"),
    ("hf", "download"),
    ("modelscope", "download"),
)
FEW_PACKAGES = 3
OF_OPTIONS = re.compile(r"\"?\$\{?[A-Za-z_]")
OPTION = re.compile(r"--?[A-Za-z]")
# Packages of gigabytes, or that are built where they are installed.
HEAVY = re.compile(
    r"(?i)\b(torch|tensorflow|jax|flash[-_]attn|apex|deepspeed|transformer[-_]engine|xformers|vllm|sglang|nemo|megatron)"
)


def program_is_given(plan: Plan) -> Iterable[Finding]:
    """A launcher without a program to start prints its usage and stops."""
    is_read = plan.program is None and not plan.is_opaque and "help" not in plan.settings
    # `torchrun` among other words may be asked for its place, or its version; another program may start it by itself
    is_start = (plan.settings or " " not in plan.command) and "--launcher" not in plan.command.split()
    if is_read and is_start and plan.command and plan.launcher.name in ("torchrun", "accelerate", "deepspeed"):
        message = said("{name} is given no program and stops: the following arguments are required", plan.launcher.name)
        yield fail("program_is_given", message, plan.where, fix=f"{plan.launcher.name} ... train.py")


def script_problems(script: ScriptFile) -> Iterable[Finding]:
    """What only the script as a whole tells."""
    yield from _downloads(script.commands, script.plans, script.marks)
    yield from _scontrol(script.plans)
    yield from _started(script.commands, script.plans, script.slurm)
    yield from _left_alone(script.commands, script.plans)
    yield from actor_batches(script.commands, script.marks)


def options_are_continued(files: LaunchFiles) -> Iterable[Finding]:
    """A line that begins with a variable full of options runs as a command where the line above has no backslash."""
    for script in files.scripts:
        lines = files.texts.get(script.marks.file, "").split("\n")
        for command in script.commands:
            here = lines[command.line - 1].strip() if 1 < command.line <= len(lines) else ""
            first, above = command.words[0].plain, lines[command.line - 2].strip() if here else ""
            if command.is_torn or above.endswith("\\"):
                continue
            if not OF_OPTIONS.match(here) or not OPTION.match(first) or not above or above[0] == "#":
                continue
            message = said(
                "no backslash at the end of this line: the command ends here, and `{first}` runs as a command", first
            )
            where = (Where(script.marks.file, command.line - 1), Where(script.marks.file, command.line))
            yield fail("commands_are_continued", message, *where, fix=f"{above} \\")


def _downloads(commands: Sequence[Command], plans: Sequence[Plan], marks: Marks) -> Iterable[Finding]:
    """Nodes that download before they start come minutes apart, later than the rendezvous waits."""
    several = [plan for plan in plans if plan.has_peers]
    if not several:
        return
    last = max(plan.where.line for plan in several)
    for command in commands:
        names = [word.plain.rpartition("/")[2] for word in command.words[:5]]
        pairs = list(itertools.pairwise(names))
        fetches = any(pair in DOWNLOADS for pair in pairs) or names[0] in ("wget", "curl")
        named = [word.plain for word in command.words]
        local = {"-e", "--no-deps", "--no-index", "."} & set(named)
        if (
            fetches
            and not local
            and not _is_light(named)
            and command.per_node
            and command.line < last
            and not command.is_conditional
        ):
            message = said(
                "every node runs `{names}` before it starts: nodes come minutes apart, and the store times "
                "out after 10 to 15",
                " ".join(names[:4]),
            )
            yield warn(
                "nodes_start_together",
                message,
                Where(marks.file, command.line),
                fix="Install and download before the job, or into the image.",
            )
            return


def _is_light(names: list[str]) -> bool:
    """Whether pip installs a package or two of those that are there in seconds."""
    if "install" not in names or not any(name.rpartition("/")[2] in ("pip", "pip3") for name in names[:4]):
        return False
    packages = [name for name in names[names.index("install") + 1 :] if not name.startswith("-")]
    takes_a_list = any(name.startswith(("-r", "--requirement")) for name in names)
    return len(packages) < FEW_PACKAGES and not takes_a_list and not any(map(HEAVY.search, packages))


def _scontrol(plans: Sequence[Plan]) -> Iterable[Finding]:
    """scontrol is the host's: in a container MASTER_ADDR becomes the text of an error."""
    for plan in plans:
        address = plan.master_address
        if isinstance(address, Unknown) and address.in_container and "scontrol" in address.expression:
            yield _scontrol_finding(address.where)
        words = [value_of(argument) or "" for argument in plan.arguments]
        by_slurm = "--launcher=slurm" in words or ("--launcher", "slurm") in itertools.pairwise(words)
        if by_slurm and address is None and is_container(plan.wrapper):
            yield _scontrol_finding(plan.where)


def _scontrol_finding(where: Where) -> Finding:
    message = "scontrol is called inside the container, which has none: MASTER_ADDR becomes empty or an error text"
    return fail(
        "scontrol_runs_outside_the_container",
        message,
        where,
        fix="export MASTER_ADDR=$(scontrol show hostnames | head -n 1) in the batch script, before srun",
    )


def _started(commands: Sequence[Command], plans: Sequence[Plan], slurm: Slurm | None) -> Iterable[Finding]:
    """A batch script runs on its first node alone; srun starts the others."""
    if slurm is None:
        return
    again = any("srun" in {word.plain for word in command.words} and "$0" in str(command.words) for command in commands)
    # ssh "$(declare -f start); start ..." in a loop: what runs on the other nodes is not known here
    again = again or any(
        command.words[0].plain == "ssh" and command.loop and not is_firm(command.words[-1].text) for command in commands
    )
    for plan in plans:
        nodes = slurm.number("nodes")
        if plan.launcher.starts_all_nodes or plan.wraps & REMOTE or plan.is_conditional or again:
            continue
        if isinstance(nodes, Sourced) and nodes.value > 1 and (plan.spans_nodes or plan.is_by_hand):
            message = said(
                "the batch script runs on the first of {value} nodes only, and no srun starts the others", nodes.value
            )
            number = OF_A_TASK.search(plan.node_rank.expression if isinstance(plan.node_rank, Unknown) else "")
            if number:
                own = said("in the batch script ${number} is 0, each task of srun has its own", number[1])
                message = joined([message, own])
            yield fail("every_node_is_started", message, plan.where, nodes.where, fix=f"srun {plan.command}")


OF_A_LIST = re.compile(r"PBS_NODEFILE|LSB_|PE_HOSTFILE|PBS_NUM_NODES")
STARTERS = {"PBS": "mpiexec -n {} --ppn 1", "LSF": 'blaunch -z "$(sort -u $LSB_DJOB_HOSTFILE)"'}


def _left_alone(commands: Sequence[Command], plans: Sequence[Plan]) -> Iterable[Finding]:
    """The same for PBS and LSF: without mpiexec, pbsdsh, blaunch or ssh the first node waits for the others."""
    if any(_reaches(command) for command in commands):
        return
    for plan in plans:
        nodes, held = plan.granted.nodes if plan.granted is not None else None, plan.granted
        counted = plan.nodes
        several = plan.spans_nodes or (isinstance(counted, Unknown) and OF_A_LIST.search(counted.expression))
        if nodes is None and held is not None and plan.spans_nodes:
            nodes = held.most  # however they are packed, the script runs on one of them
        if held is None or not isinstance(nodes, Sourced) or nodes.value < 2 or not several or plan.is_conditional:
            continue
        if plan.launcher.has_agent and not plan.launcher.starts_all_nodes and not plan.is_standalone:
            message = said(
                "the batch script runs on the first of {value} nodes only, and nothing in it starts the others",
                nodes.value,
            )
            fix = f"{STARTERS[held.system].format(nodes.value)} {plan.command}"
            yield fail("every_node_is_started", message, plan.where, nodes.where, fix=fix)


def _reaches(command: Command) -> bool:
    """Whether a command may start something on another node: by its name, in the words of a shell, by a script."""
    words = {word.plain.rpartition("/")[2] for word in (*command.words, *map(_word, command.outer))}
    return bool(REMOTE & words) or any(OTHER_SCRIPT.search(word.plain) for word in command.words)


OTHER_SCRIPT = re.compile(r"\.(sh|bash)$|\b(ssh|mpirun|mpiexec|pbsdsh|blaunch|qrsh)\b")


def _word(text: str) -> Word:
    return Word(text, 0)


def named_nodes_are_started(files: LaunchFiles) -> Iterable[Finding]:
    """Lightning and its like take the tasks of srun for their ranks: without srun the first waits for the others."""
    for script in files.scripts:
        nodes = script.slurm.number("nodes") if script.slurm is not None else None
        if not isinstance(nodes, Sourced) or nodes.value < 2 or nodes.origin != "written":
            continue
        if any(
            REMOTE & {name.rpartition("/")[2] for name in (*(word.plain for word in command.words), *command.outer)}
            for command in script.commands
        ):
            continue
        yield from _alone(script, nodes, files.programs)


def _alone(script: ScriptFile, nodes: Sourced[int], texts: Mapping[str, str]) -> Iterable[Finding]:
    """The first program that counts on as many nodes as the script has, in its options or in its own text."""
    programs = {os.path.basename(name): name for name in texts}
    for command in script.commands:
        names = [word.plain for word in command.words]
        by_python = command.words[0].plain.rpartition("/")[2].startswith("python")
        if not by_python or command.is_conditional or command.outer:
            continue
        where = [Where(script.marks.file, command.line), nodes.where]
        counted = argument_number(names, "num_nodes", "num-nodes")
        program = next((programs[base] for name in names if (base := os.path.basename(name)) in programs), "")
        if counted is None and program:
            counted, line = trainer.counts(texts[program]).get("num_nodes", (None, 0))
            where.append(Where(program, line))
        number = OF_A_TASK.search(" ".join(script.marks.spelled(word.text) for word in command.words))
        if number:
            message = said(
                "the batch script runs on the first of {value} nodes only, and no srun starts the others; in the batch "
                "script ${number} is 0, each task of srun has its own",
                nodes.value,
                number[1],
            )
            fix = said("srun bash -c '{command}'", " ".join(script.marks.spelled(word.text) for word in command.words))
            yield fail("every_node_is_started", message, where[0], nodes.where, fix=fix)
            return
        if counted is None:
            yield from taken_from_slurm(texts.get(program, ""), program, nodes, where[0], names)
        if counted == nodes.value:
            message = said(
                "the batch script runs on the first of {value} nodes only, and no srun starts the others", nodes.value
            )
            yield fail("every_node_is_started", message, *where, fix=f"srun {' '.join(names)}")
            return
