"""Which slip of a shell line starts another command than the one that is meant?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Edit, Finding, Where
from preflight.launch.field import Sourced
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.said import said

ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
PROGRAM = re.compile(r"[\w-]+\.py")
# Libraries read these from the environment of their process, and from nowhere else.
OF_A_LIBRARY = re.compile(
    r"(?:NCCL|RCCL|GLOO|TORCH_NCCL|UCX|FI|NVSHMEM)_[A-Z0-9_]+|CUDA_(?:VISIBLE_DEVICES|LAUNCH_BLOCKING|DEVICE_MAX_CONNECTIONS)|OMP_NUM_THREADS"
)

EXPORTS_ALL = re.compile(r"(?m)^\s*set\s+(?:-\w*a|-o\s+allexport)")


def assignments_stand_first(plan: Plan) -> Iterable[Finding]:
    """NAME=value is an assignment in front of a command alone: behind a launcher it is the program's name."""
    named = plan.program
    if plan.launcher.runs_program and isinstance(named, Sourced) and ASSIGNED.fullmatch(named.value):
        message = said(
            "{value} stands behind {name}, which takes it for the program and finds no such file",
            named.value,
            plan.launcher.name,
        )
        rest = plan.command.replace(f" {named.value}", "", 1)
        yield fail("program_is_given", message, named.where, fix=f"{named.value} {rest}")


def programs_are_continued(files: LaunchFiles) -> Iterable[Finding]:
    """A program's name alone in the line below a start is a command of its own, which nobody has."""
    for script in files.scripts:
        lines = files.texts.get(script.marks.file, "").split("\n")
        starts = [plan.where.line for plan in script.plans if plan.launcher.runs_program]
        for command in script.commands:
            before = [other.line for other in script.commands if other.line < command.line]
            if not PROGRAM.fullmatch(command.words[0].plain) or not before or max(before) not in starts:
                continue
            above = lines[command.line - 2].rstrip() if 1 < command.line <= len(lines) else ""
            if not above.strip() or above.lstrip().startswith("#") or above.endswith("\\") or command.is_torn:
                continue
            message = said(
                "no backslash at the end of this line: the command ends here, and `{option}` runs as a command",
                command.words[0].plain,
            )
            edit = Edit(script.marks.file, command.line - 1, command.line - 1, (f"{above} \\",))
            places = Where(script.marks.file, command.line - 1), Where(script.marks.file, command.line)
            yield fail("commands_are_continued", message, *places, fix=f"{above.strip()} \\", edits=(edit,))


def library_variables_are_exported(files: LaunchFiles) -> Iterable[Finding]:
    """A variable that only a library reads is for nothing where the script keeps it to itself."""
    for script in files.scripts:
        text = files.texts.get(script.marks.file, "")
        told: dict[str, Where] = {}
        for plan in script.plans:
            for name, held in plan.unexported.items():
                is_read = re.search(rf"\b{name}\b(?!=)", text) is not None  # as in `docker run -e NAME`
                if isinstance(held, Sourced) and OF_A_LIBRARY.fullmatch(name) and not is_read:
                    told.setdefault(name, held.where)
        if told and not EXPORTS_ALL.search(text):
            names, be = ", ".join(told), "are" if len(told) > 1 else "is"
            message = said("{names} {be} set and not exported: the processes do not get it", names, be)
            yield warn("variables_are_exported", message, *told.values(), fix=f"export {' '.join(told)}")


CHANGES_FOLDER = re.compile(r"d|c|ccd|cdd|dc|cf|xd")
FOLDER = re.compile(r"[~./$][^\s]*/?")


def folders_are_entered(files: LaunchFiles) -> Iterable[Finding]:
    """`d /data` for `cd /data`: there is no such command, and what follows runs where the script was before."""
    for script in files.scripts:
        text = files.texts.get(script.marks.file, "")
        for command in script.commands if script.plans else ():
            name, named = command.words[0].plain, [word.plain for word in command.words[1:]]
            is_slip = CHANGES_FOLDER.fullmatch(name) and len(named) == 1 and FOLDER.fullmatch(named[0])
            if is_slip and not re.search(rf"(?m)(?:^|\s)(?:alias\s+{name}=|(?:function\s+)?{name}\s*\(\))", text):
                message = said("{name} {folder}: no such command; cd is meant", name, named[0])
                yield fail("folders_are_entered", message, Where(script.marks.file, command.line), fix=f"cd {named[0]}")


CONTAINER_IP = re.compile(r"(?m)^[^#\n]*\b(?:docker|podman)\s[^#\n]*\s--ip[= ](\d{1,3}(?:\.\d{1,3}){3})\b")


def address_is_a_containers(files: LaunchFiles) -> Iterable[Finding]:
    """Where a script gives its containers addresses, that of rank 0 is one of them."""
    for script in files.scripts:
        own = CONTAINER_IP.findall(files.texts.get(script.marks.file, ""))
        nets = {address.rpartition(".")[0] for address in own}
        for plan in script.plans if len(own) > 1 else ():
            held = plan.master_address
            if not isinstance(held, Sourced) or held.value in own or held.value.rpartition(".")[0] not in nets:
                continue
            message = said(
                "{value} is the address of none of the containers: they have {own}", held.value, ", ".join(own)
            )
            yield warn("master_address_leads_to_rank_0", message, held.where, fix=own[0])


PLAN_RULES = (assignments_stand_first,)
FILES_RULES = (
    programs_are_continued,
    library_variables_are_exported,
    folders_are_entered,
    address_is_a_containers,
)
