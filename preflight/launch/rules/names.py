"""Is a name in a script the one that was meant: of a variable that is read or exported, of an option?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.knowledge.variables.judged import refused
from preflight.knowledge.variables.names import LEVELS, ROWS
from preflight.launch.fixes.pasted import command_at
from preflight.launch.plan import LaunchFiles, warn
from preflight.launch.reading.unset import COMMENT, SLURM, VARIABLE, is_in, is_set, sets_more
from preflight.said import said

LIKE = 0.9  # of two names from which on one is the other misspelt
DIGITS = re.compile(r"\d+")  # node1_ip and node2_ip are two names
SET = re.compile(r"(?m)^\s*(?:export\s+|local\s+|declare\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)\+?=")
OF_SLURM = "SLURM_"
# Slurm sets these only where the option is given: each with its name, and how else it is written.
OF_AN_OPTION = {
    "SLURM_CPUS_PER_GPU": ("--cpus-per-gpu", ""),
    "SLURM_CPUS_PER_TASK": ("--cpus-per-task", "-c"),
    "SLURM_GPUS": ("--gpus", "-G"),
    "SLURM_GPUS_PER_NODE": ("--gpus-per-node", ""),
    "SLURM_GPUS_PER_TASK": ("--gpus-per-task", ""),
    "SLURM_NTASKS_PER_NODE": ("--ntasks-per-node", ""),
}
SHAPES = frozenset({"nodes", "ntasks", "gres", "gpus_per_node", "ntasks_per_node"})
EXPORTED = re.compile(r"\s*export\s+([A-Za-z_]\w*)\s*(?:#.*)?")


def variables_are_read_by_their_names(files: LaunchFiles) -> Iterable[Finding]:
    """`$nodes_arrays` where the script sets nodes_array, `$SLURM_JOB_NODELIS`: an empty word, and nobody says so."""
    bare = [COMMENT.sub(r"\1", text) for text in files.texts.values()]
    for file, text in files.script_texts.items():
        told = {unset.name for plan in files.plans for unset in plan.unset}
        own = [] if sets_more(text, files.texts) else SET.findall(text)
        for number, line in enumerate(text.split("\n"), start=1):
            for found in VARIABLE.finditer(COMMENT.sub(r"\1", line)):
                name = found[1] or found[2] or found[3]
                meant = "" if name in told or is_set(name, bare) or _may_be_empty(name, text) else _meant(name, own)
                told.add(name)
                if meant:
                    message = said("${name} is set nowhere, and ${meant} is: the word is empty", name, meant)
                    yield warn("outside_variables_are_set", message, Where(file, number), fix=f"${meant}")


def options_of_slurm_set_variables(files: LaunchFiles) -> Iterable[Finding]:
    """`$SLURM_CPUS_PER_TASK` is empty in a job that was not asked for with --cpus-per-task."""
    bare = [COMMENT.sub(r"\1", text) for text in files.texts.values()]
    for script in files.scripts:
        file, slurm = script.marks.file, script.slurm
        if slurm is None or not slurm.has_directives or slurm.groups or SHAPES.isdisjoint(slurm.options):
            continue  # all of it is given on the command line of sbatch
        lines = files.texts.get(file, "").split("\n")
        for name, (option, letter) in OF_AN_OPTION.items():
            reads = (at for at, line in enumerate(lines, start=1) if _reads(COMMENT.sub(r"\1", line), name))
            given = re.compile(rf"(?<!\S){option}(?![\w-])" + rf"|(?<!\S){letter}[ =]?[$\d]" * bool(letter))
            number = next(reads, 0)
            if not number or is_in(name, bare) or any(map(given.search, files.texts.values())):
                continue
            message = said(
                "{name} is empty: Slurm sets it only where --{dashed} is given, and no #SBATCH line has it",
                name,
                option.removeprefix("--"),
            )
            yield warn("variables_are_set", message, Where(file, number), fix=f"#SBATCH {option}=N")


def _reads(line: str, name: str) -> bool:
    return any(name in found.groups() for found in VARIABLE.finditer(line)) and not _may_be_empty(name, line)


def _meant(name: str, own: Iterable[str]) -> str:
    """The name that is one slip away: of what the script sets, or of what Slurm does."""
    if name.startswith(OF_SLURM):
        near = difflib.get_close_matches(name.removeprefix(OF_SLURM), SLURM, n=1, cutoff=LIKE)
        return f"{OF_SLURM}{near[0]}" if near else ""
    others = [other for other in own if DIGITS.sub("", other) != DIGITS.sub("", name)]
    return next(iter(difflib.get_close_matches(name, others, n=1, cutoff=LIKE)), "")


def _may_be_empty(name: str, text: str) -> bool:
    """Whether the script reckons with it being empty: it has a default there, or is asked for."""
    return re.search(rf"\$\{{{name}:?[-+=?]|-[znv]\s+[\"']?\$?\{{?{name}\b", text) is not None


def exports_have_values(files: LaunchFiles) -> Iterable[Finding]:
    """`export NCCL_DEBUG_INFO` for `export NCCL_DEBUG=INFO` exports a variable that nobody has."""
    for file, text in files.script_texts.items():
        for number, line in enumerate(text.split("\n"), start=1):
            found = EXPORTED.fullmatch(line)
            if found is None or found[1] in ROWS or len(re.findall(rf"\b{found[1]}\b", text)) > 1:
                continue
            for name in (*ROWS, "LOGLEVEL"):
                value = found[1].removeprefix(f"{name}_")
                if value != found[1] and (value in LEVELS if name == "LOGLEVEL" else not refused(name, value)):
                    message = said("{found} is set nowhere: the line exports nothing", found[1])
                    yield warn("outside_variables_are_set", message, Where(file, number), fix=f"export {name}={value}")
                    break


SPLIT = re.compile(r"\s*export\s+([A-Za-z_]\w*)=([\w.:,/-]+)\s+([A-Za-z_]\w*)\s*(?:#.*)?")
LISTED = re.compile(r"(NCCL|GLOO|UCX|CUDA)_")  # what takes a list parts it by commas


def exported_values_are_whole(files: LaunchFiles) -> Iterable[Finding]:
    """`export NCCL_IB_HCA=mlx5_0 mlx5_1` gives it the first alone, and exports a variable of the second's name."""
    for file, text in files.script_texts.items():
        for number, line in enumerate(text.split("\n"), start=1):
            found = SPLIT.fullmatch(line)
            if found is None or found[3].isupper() or len(re.findall(rf"\b{found[3]}\b", text)) > 1:
                continue
            name, value, behind = found.groups()
            message = said("{name} is {value} alone: {behind} is taken for the name of a variable", name, value, behind)
            whole = f"{value},{behind}" if LISTED.match(name) else f'"{value} {behind}"'
            yield warn("variables_are_assigned", message, Where(file, number), fix=f"export {name}={whole}")


PROGRAM_BEGINS = re.compile(r"\s(?:[^\s=]+\.py\b|-m\s|--module\b)")
OPTION = re.compile(r"(?<!\S)--([A-Za-z][\w-]*)(?:=|\s+)(\S+)")


def options_stand_once(files: LaunchFiles) -> Iterable[Finding]:
    """Of an option that is given twice the last value is taken; the first was most likely meant for another option."""
    for plan in files.plans:
        lines = files.texts.get(plan.where.file, "").split("\n") if plan.command else []
        numbers = sorted(command_at(lines, plan.where.line)) if lines else []
        held: dict[str, tuple[str, int]] = {}
        for number in numbers:
            line = lines[number - 1]
            end = PROGRAM_BEGINS.search(f" {line}")
            for found in OPTION.finditer(line, 0, end.start() if end else len(line)):
                name, value = found[1].replace("-", "_"), found[2]
                before, first = held.setdefault(name, (value, number))
                if before != value and name in plan.settings:
                    message = said("--{name} stands twice: {value} counts, which stands last", name, value)
                    places = (Where(plan.where.file, first), Where(plan.where.file, number))
                    yield warn("options_stand_once", message, *places, fix="Delete one.")
            if end:
                break


FILES_RULES = (
    variables_are_read_by_their_names,
    options_of_slurm_set_variables,
    exports_have_values,
    exported_values_are_whole,
    options_stand_once,
)
