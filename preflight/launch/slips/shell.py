"""Which slip of a shell line starts another command than the one that is meant?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.launch.field import Sourced
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.ledger.findings import Edit, Finding, Where
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


PLAN_RULES = (assignments_stand_first,)
FILES_RULES = (programs_are_continued, library_variables_are_exported)
