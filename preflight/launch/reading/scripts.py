"""Which scripts start which, and what does each of them start?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.commands import Context, plan_of, unjudged
from preflight.launch.field import value_of
from preflight.launch.launchers import first_words, launch_words
from preflight.launch.launchers.slurm import job_variables, read_directives
from preflight.launch.plan import Granted, Plan, ScriptFile, Skip, Slurm, fail, sharing_host
from preflight.launch.reading.bare import bare
from preflight.launch.reading.bundle import Bundle, beside, resolved
from preflight.launch.reading.justfile import is_justfile, of_each_recipe
from preflight.launch.reading.makefile import is_makefile, of_each_target
from preflight.launch.reading.named import named_files, with_training
from preflight.launch.reading.trainer import find_programs, with_trainer
from preflight.launch.schedulers import sbatch
from preflight.launch.schedulers.directives import read_granted
from preflight.launch.schedulers.granted import with_granted
from preflight.launch.text import form, grammar
from preflight.launch.text.detect import kind_of
from preflight.launch.text.marks import Marks, is_known
from preflight.launch.text.shell import Command, Start
from preflight.launch.text.statements import Read, read_script
from preflight.said import said, values_in

# A script with one of these runs on one node and starts the others.
STARTS_ALL = re.compile(r"(?m)^[^#\n]*\b(srun|pdsh|clush|mpirun|mpiexec|jsrun|blaunch|pbsdsh|pssh)\b")


# PBS, LSF, Grid Engine, OAR and Fujitsu's run the script itself on the first node, as Slurm does.
BATCH = re.compile(r"(?m)^#(PBS|BSUB|OAR|PJM)\s|^#\$ -")


TARGETS_LIMIT = 200  # of one Makefile or justfile: each is a script with all lines of the others left empty
UNKNOWNS_LIMIT = 4


OPTION = re.compile(r"--?[A-Za-z]")
STARTS_LIMIT = 64  # of one script, as of the turns of a loop


@dataclass
class Walked:
    """A script as one start of it runs: its commands, what they are read against, and the scripts that it starts."""

    name: str
    text: str
    reading: grammar.Reading
    read: Read
    slurm: Slurm | None
    granted: Granted | None
    lacking: list[str]
    by: Walked | None


def judge_scripts(bundle: Bundle, texts: Mapping[str, str], *, look_beside: bool) -> None:
    """The plans of all scripts; one that another starts is read with what it gets from there.

    Of a Makefile or justfile each target is a script of its own: make and just run those that they are asked for.
    """
    for name, text in texts.items():
        split = of_each_target if is_makefile(name) else of_each_recipe if is_justfile(name) else None
        parts = split(bundle.given.get(name, ""), text, TARGETS_LIMIT + 1) if split else []
        if parts[TARGETS_LIMIT:]:
            why = said("not judged: what is behind its first {TARGETS_LIMIT} targets", TARGETS_LIMIT)
            bundle.skips.append(Skip(name, 1, why, of_start=True))
        for part in parts[:TARGETS_LIMIT]:
            _with_started(bundle, [_walk(bundle, name, part, look_beside=look_beside)], set(), look_beside=look_beside)
        if parts and any(plan.where.file == name for plan in bundle.plans):  # `clean` beside `train` is no job unread
            bundle.skips = [skip for skip in bundle.skips if skip.file != name or skip.of_start or skip.line > 1]
    texts = {name: text for name, text in texts.items() if not is_makefile(name) and not is_justfile(name)}
    walks = {name: _walk(bundle, name, text, look_beside=look_beside) for name, text in texts.items()}
    started = {resolved(bundle, walk.name, one.path) for walk in walks.values() for one in _starts(walk)}
    done: set[str] = set()
    for name in (*(name for name in texts if name not in started), *texts):
        if name not in done:
            _with_started(bundle, [walks[name]], done, look_beside=look_beside)


def _starts(walk: Walked) -> list[Start]:
    """The scripts that one starts in any case: in a branch of it they may get something else."""
    return [one for one in walk.read.starts if not one.is_conditional]


def _with_started(bundle: Bundle, walks: list[Walked], done: set[str], *, look_beside: bool) -> None:
    """The plans of one script, and of those that it starts."""
    done.add(walks[0].name)
    found: dict[str, list[Walked]] = {}
    for walk in walks:
        for start in _starts(walk):
            name = resolved(bundle, walk.name, start.path)
            if name is None or name in done or len(found.get(name, ())) >= STARTS_LIMIT:
                continue
            if kind_of(name, bundle.texts[name], launch_words()) == "shell":
                inner = _walk(bundle, name, bundle.texts[name], look_beside=look_beside, start=start, by=walk)
                found.setdefault(name, []).append(inner)
    _judged(bundle, walks, has_started=bool(found), look_beside=look_beside)
    for inner_walks in found.values():
        _with_started(bundle, inner_walks, done, look_beside=look_beside)


def _walk(
    bundle: Bundle,
    name: str,
    text: str,
    *,
    look_beside: bool,
    start: Start | None = None,
    by: Walked | None = None,
) -> Walked:
    """What a script runs, by itself or as another one starts it."""
    slurm = read_directives(text, name)
    reading = grammar.read(text)
    problems = [*form.problems(text, name, reading), *sbatch.problems(text, name, reading)]
    bundle.problems.extend(problems)
    repaired = form.as_meant(text, problems)
    if repaired != text:
        text, reading = repaired, grammar.read(repaired)

    lacking: list[str] = []

    def load(path: str) -> str | None:
        found = beside(bundle, name, path, look_beside=look_beside)
        lacking.extend([path] if found is None and is_known(path) else [])
        return found

    per_node = slurm is None and not STARTS_ALL.search(text) and not BATCH.search(text)

    def walked(*, logs_in: bool = False) -> Read:
        return read_script(
            text,
            name,
            per_node=per_node and not logs_in,
            per_turn=logs_in,
            load=load,
            variables=job_variables(slurm) if slurm else {},
            launch_words=first_words(),
            reading=reading,
            marks=Marks(name, by.read.marks.unknowns) if by else None,
            start=start,
        )

    read = walked()
    if per_node and not start and any(map(_logs_in, read.commands)):
        lacking.clear()
        read = walked(logs_in=True)
    if slurm is None and read.batches:  # a script that writes the batch script and hands it to sbatch
        slurm = read_directives(read.batches[0].text, name, first_line=read.batches[0].line)
    slurm = slurm or (by.slurm if by else None)
    granted = None if slurm else (by.granted if by else None) or read_granted(text, name)
    return Walked(name, text, reading, read, slurm, granted, lacking, by)


def _logs_in(command: Command) -> bool:
    """Whether a start is handed to a node: ``ssh n1 "torchrun ..."``, which is read, or ``ssh n1 torchrun ...``."""
    first, *rest = (word.plain for word in command.words)
    return "ssh" in command.outer or (first == "ssh" and any(word in rest for word in first_words()))


def _judged(bundle: Bundle, walks: Sequence[Walked], *, has_started: bool, look_beside: bool) -> None:
    """The plans of a script's starts, with the configurations and hostfiles that it names."""
    name = walks[0].name
    commands: list[Command] = []
    plans: list[Plan] = []
    unknowns: dict[str, int] = {}
    for walk in walks:
        context = Context(walk.read.marks, walk.slurm)
        named_files(bundle, context, walk.read, name, look_beside=look_beside)
        find_programs(bundle, name, walk.read.commands, look_beside=look_beside)
        found, reasons = _plans_of(bundle, context, walk, look_beside=look_beside)
        bundle.problems.extend(context.problems)
        commands.extend(walk.read.commands)
        plans.extend(with_granted(plan, walk.granted) for plan in found)
        unknowns.update(reasons)
    here = sharing_host(plans)
    plans = [replace(plan, shares_host=True) if plan in here else plan for plan in plans]
    is_started = walks[0].by is not None
    bundle.scripts.append(ScriptFile(tuple(commands), tuple(plans), walks[0].read.marks, walks[0].slurm, is_started))
    bundle.plans.extend(plans)
    bundle.skips.extend(
        Skip(
            name,
            line,
            said("not judged: {reason}", reason),
            of_start=True,
            is_template=any(values_in(reason, "outside")),
        )
        for reason, line in list(unknowns.items())[:UNKNOWNS_LIMIT]
    )
    if plans or unknowns:
        bundle.skips.extend(_sourced(walks[0], unknowns))
    if not plans and not has_started:
        read = walks[0].read
        bare(bundle, name, commands, read.marks, read.variables, has_unknowns=bool(unknowns), ended=read.ended)


# What sets nothing of a job: the interpreter's own set-up, and a person's.
NO_SETTINGS = re.compile(r"[/~$]|.*\b(activate|conda|profile|bashrc|modules?|venv)\b")


def _sourced(walk: Walked, told: Iterable[str]) -> Iterator[Skip]:
    """The files that a script reads its settings from and that are not there: what they set is not known."""
    for path, line in walk.read.unread[:UNKNOWNS_LIMIT]:
        if not NO_SETTINGS.match(path) and path not in {
            given for reason in told for name in ("config", "lacking") for given in values_in(reason, name)
        }:
            reason = said("not judged: what {path} sets is unknown: it is not given, and not beside the script", path)
            yield Skip(walk.name, line, reason, of_start=True)


def _plans_of(
    bundle: Bundle, context: Context, walk: Walked, *, look_beside: bool
) -> tuple[list[Plan], dict[str, int]]:
    """The plans of a script's commands, and why others are not judged: reason -> line."""
    name, lines = walk.name, grammar.Lines(walk.text)
    # from the line on at which bash stops nothing is sure
    torn = walk.reading.torn or len(walk.text)
    own = {lines.line(place) for place in walk.reading.commands}
    plans: list[Plan] = []
    unknowns: dict[str, int] = {}
    for command in walk.read.commands:
        plan = plan_of(command, context)
        is_inside = bool(command.outer) or command.words[0].line not in own
        if is_inside and OPTION.match(command.words[0].plain):
            bundle.problems.append(_torn_inside(command, name))
            plans = [replace(held, is_opaque=True) if held.command else held for held in plans]
        unknown = unjudged(command, plan, context.marks)
        if unknown:
            if walk.lacking and plan is not None and plan.is_open:
                unknown = said("{unknown}; {lacking} is not given", unknown, walk.lacking[0])
            unknowns.setdefault(unknown, command.line)
        if plan is None:
            continue
        if command.line >= torn:
            plan = replace(plan, is_opaque=True)
        config = value_of(plan.settings.get("config_file"))
        if config in context.configs:
            config = resolved(bundle, name, str(config)) or str(config)
            bundle.used_configs.add(config)
            plan = replace(plan, config=bundle.texts[config])
        plan = with_training(bundle, plan, name, look_beside=look_beside)
        plans.append(with_trainer(bundle, plan, name))
    return _without_helpers(plans), unknowns


def _torn_inside(command: Command, name: str) -> Finding:
    """A text that a shell runs may be cut by its line breaks, as a script is."""
    option, shell = command.words[0].plain, command.outer[-1] if command.outer else "eval"
    message = said(
        "a line break in the text that {shell} runs: the command ends there, and `{option}` runs as a command",
        shell,
        option,
    )
    where = Where(name, command.words[0].line)
    return fail(
        "commands_are_continued", message, where, fix="A backslash at the end of the line above, and nothing after it."
    )


def _without_helpers(plans: list[Plan]) -> list[Plan]:
    """The plans without those of a plain python that stands beside a launcher and is given no rank."""
    if not any(plan.launcher.has_agent for plan in plans):
        return plans
    return [plan for plan in plans if not plan.is_by_hand or "RANK" in plan.environment]
