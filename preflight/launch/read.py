"""What do the given launch files say? Every file is read, what it names beside it too, and nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from preflight.launch.bundle import Bundle, beside, expanded, meant, read_file, resolved
from preflight.launch.commands import Context, plan_of, unjudged
from preflight.launch.field import Field, value_of, words
from preflight.launch.launchers import accelerate, accelerate_file, deepspeed, first_words, launch_words, mpirun
from preflight.launch.launchers.llamafactory import LLAMAFACTORY
from preflight.launch.launchers.slurm import job_variables, read_directives
from preflight.launch.makefile import as_script, is_makefile
from preflight.launch.manifests import clouds, compose, kubernetes, trainings
from preflight.launch.plan import (
    BATCH_KEYS,
    Granted,
    Hostfile,
    LaunchFiles,
    Plan,
    ScriptFile,
    Skip,
    Slurm,
    sharing_host,
)
from preflight.launch.schedulers.directives import read_granted
from preflight.launch.schedulers.granted import with_granted
from preflight.launch.text import form, grammar, located
from preflight.launch.text.detect import kind_of, template_line
from preflight.launch.text.expansion import Assigned
from preflight.launch.text.marks import Marks, clean, is_known
from preflight.launch.text.shell import Command, Start
from preflight.launch.text.statements import Read, read_script
from preflight.ledger.findings import Finding, Where
from preflight.tables.variables import is_of_a_job

# A script with one of these runs on one node and starts the others.
STARTS_ALL = re.compile(r"(?m)^[^#\n]*\b(srun|pdsh|clush|mpirun|mpiexec|jsrun|blaunch|pbsdsh|pssh)\b")
# PBS, LSF, Grid Engine, OAR and Fujitsu's run the script itself on the first node, as Slurm does.
BATCH = re.compile(r"(?m)^#(PBS|BSUB|OAR|PJM)\s|^#\$ -")
# Variables by which a script that starts nothing speaks for the job all the same.
OF_THE_JOB = ("NCCL_", "GLOO_", "MASTER_", "CUDA_VISIBLE", "TORCH_NCCL_")
STARTS_FILES = re.compile(
    r"(.*/)?(bash|sh|zsh|source|\.|sbatch|srun|qsub|exec|nohup|sudo)$|\S+\.(sh|sbatch|slurm|bash)$"
)
SCRIPT = re.compile(r"[\w./~+-]+\.(sh|sbatch|slurm|bash)")
UNKNOWNS_LIMIT = 4
STARTS_LIMIT = 64  # of one script, as of the turns of a loop
ACCELERATE_KEYS = ("distributed_type", "compute_environment", "num_machines", "num_processes", "deepspeed_config")


def read_files(patterns: Iterable[str]) -> LaunchFiles:
    """Read every file; UsageError for one that cannot be read or is broken, a Skip for one of a kind not judged."""
    files = expanded(patterns)
    return read_texts({name: read_file(name) for name in files}, look_beside=True)


def read_texts(texts: Mapping[str, str], *, look_beside: bool = False) -> LaunchFiles:
    """The same from texts by file name; `look_beside` also reads what a script names and was not given."""
    raw = texts
    texts = {name: clean(text).replace("\r\n", "\n") for name, text in raw.items()}
    bundle = Bundle(dict(texts))
    scripts: list[str] = []
    for name in texts:
        texts[name] = text = meant(bundle, name, as_script(texts[name]) if is_makefile(name) else texts[name])
        if _take(bundle, name, text) == "shell":
            scripts.append(name)
            bundle.problems.extend(form.carriage_returns(raw[name], name))
    _scripts(bundle, {name: texts[name] for name in scripts}, look_beside=look_beside)
    for name, settings in bundle.configs.items():
        if name in texts and name not in bundle.used_configs:
            plan = accelerate.config_plan(settings, bundle.config_lines[name])
            bundle.plans.append(replace(plan, config=texts[name]))
    used = {argument.file for plan in bundle.plans for argument in plan.arguments}
    for name, training in bundle.trainings.items():
        if name not in used:
            reason = "a LLaMA-Factory configuration: judged together with the script that starts it"
            bundle.skips.append(Skip(name, training.line, reason))
    for name, problems in bundle.hostfile_problems.items():
        if not mpirun.reads_alone(bundle.plans, name) and not mpirun.is_a_list(bundle.plans):
            bundle.problems.extend(problems)
    _unread(bundle)
    order = {name: place for place, name in enumerate(texts)}
    plans = sorted(bundle.plans, key=lambda plan: order.get(plan.where.file, len(order)))
    return LaunchFiles(
        tuple(texts),
        tuple(plans),
        tuple(bundle.hostfiles.values()),
        tuple(bundle.batches.values()),
        tuple(bundle.variables.items()),
        tuple(bundle.skips),
        tuple(dict.fromkeys(bundle.problems)),
        tuple(bundle.scripts),
        raw,
    )


def _take(bundle: Bundle, name: str, text: str) -> str:
    """Read a file of any kind but a script; returns its kind."""
    kind = kind_of(name, text, launch_words())
    template = template_line(text) if kind in ("yaml", "shell", "json") else 0
    if template:
        bundle.skips.append(Skip(name, template, "an unrendered template: give the rendered file"))
        return "template"
    if not text.strip():
        bundle.skips.append(Skip(name, 1, "empty"))
        return "empty"
    if kind == "yaml":
        _yaml(bundle, name, text)
    elif kind == "json":
        _json(bundle, name, text)
    elif kind == "hostfile":
        hostfile, problems = deepspeed.read_hostfile(text, name)
        bundle.hostfiles[name] = hostfile
        bundle.hostfile_problems[name] = problems
    elif kind == "variables":
        values, problems = deepspeed.read_variables(text, name)
        bundle.variables[name] = values
        bundle.problems.extend(problems)
    elif kind == "other":
        bundle.skips.append(Skip(name, 1, UNKNOWN_KIND))
    return kind


def _manifest(bundle: Bundle, name: str, documents: list[located.Located]) -> None:
    plans, skips, problems = kubernetes.read(documents, name)
    bundle.plans.extend(plans)
    bundle.skips.extend(skips)
    bundle.problems.extend(problems)


def _yaml(bundle: Bundle, name: str, text: str) -> None:
    documents = located.load(text, name)
    if any("apiVersion" in document.mapping() and "kind" in document.mapping() for document in documents):
        _manifest(bundle, name, documents)
    elif documents and compose.is_compose(documents[0]):
        plans, problems = compose.read(documents[0], name)
        bundle.plans.extend(plans)
        bundle.problems.extend(problems)
        if not plans:
            bundle.skips.append(Skip(name, 1, "a compose file with no command of a known launcher"))
    elif any(map(clouds.is_skypilot, documents)):
        _of_a_cloud(bundle, name, clouds.skypilot(documents, name), "a SkyPilot task")
    elif documents and clouds.is_dstack(documents[0]):
        _of_a_cloud(bundle, name, clouds.dstack(documents[0], name), "a task of dstack")
    elif documents and clouds.is_beaker(documents[0]):
        _of_a_cloud(bundle, name, clouds.beaker(documents[0], name), "a Beaker experiment")
    elif documents and clouds.is_azureml(documents[0]):
        _of_a_cloud(bundle, name, clouds.azureml(documents[0], name), "an AzureML job")
    elif documents and any(key in documents[0].mapping() for key in ACCELERATE_KEYS):
        unfilled = [
            held for _, held in documents[0].items() if isinstance(held.value, str) and held.value.startswith("$")
        ]
        if unfilled:
            bundle.skips.append(
                Skip(name, unfilled[0].line, f"an unrendered template: {unfilled[0].value} is not filled in")
            )
            return
        settings, problems = accelerate_file.read_config(documents[0], name)
        bundle.configs[name] = settings
        bundle.config_lines[name] = Where(name, documents[0].line)
        bundle.problems.extend(problems)
    elif documents and trainings.is_training(documents[0]):
        bundle.trainings[name] = documents[0]
    else:
        bundle.skips.append(Skip(name, 1, FOREIGN_YAML))


def _unread(bundle: Bundle) -> None:
    """What was read by its form, and of which no rule says anything: that is not the same as nothing wrong in it."""
    for name, values in bundle.variables.items():
        if not any(map(is_of_a_job, values)):
            line = min((held.line for held in values.values() if held is not None), default=1)
            bundle.skips.append(Skip(name, line, "no variable in it is of a job: nothing in it was judged"))
    for name, config in bundle.batches.items():
        if not config.says_something:
            reason = "a DeepSpeed configuration without batch sizes: nothing in it was judged"
            bundle.skips.append(Skip(name, 1, reason))
    foreign = {skip.file for skip in bundle.skips if skip.reason == FOREIGN_YAML}
    bundle.problems[:] = [one for one in bundle.problems if not foreign.intersection(where.file for where in one.where)]


def _of_a_cloud(bundle: Bundle, name: str, answer: tuple[list[Plan], list[Finding]], what: str) -> None:
    plans, problems = answer
    bundle.plans.extend(plans)
    bundle.problems.extend(problems)
    if not plans:
        bundle.skips.append(Skip(name, 1, f"{what} with no command of a known launcher"))


def _json(bundle: Bundle, name: str, text: str) -> None:
    config = deepspeed.read_batches(text, name)
    if any(key in config.values for key in ACCELERATE_KEYS[:4]):
        documents = located.load(text, name)
        settings, problems = accelerate_file.read_config(documents[0], name)
        bundle.configs[name] = settings
        bundle.config_lines[name] = Where(name, 1)
        bundle.problems.extend(problems)
    elif any(key in config.values for key in (*BATCH_KEYS, "zero_optimization", "fp16", "bf16", "optimizer")):
        bundle.batches[name] = config
    elif {"apiVersion", "kind"} <= set(config.values):
        _manifest(bundle, name, located.load(text, name))
    else:
        bundle.skips.append(Skip(name, 1, "JSON of no launcher that is known"))


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


def _scripts(bundle: Bundle, texts: Mapping[str, str], *, look_beside: bool) -> None:
    """The plans of all scripts; one that another starts is read with what it gets from there."""
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
    problems = list(form.problems(text, name, reading))
    bundle.problems.extend(problems)
    repaired = form.as_meant(text, problems)
    if repaired != text:
        text, reading = repaired, grammar.read(repaired)

    lacking: list[str] = []

    def load(path: str) -> str | None:
        found = beside(bundle, name, path, look_beside=look_beside)
        lacking.extend([path] if found is None and is_known(path) else [])
        return found

    read = read_script(
        text,
        name,
        per_node=slurm is None and not STARTS_ALL.search(text) and not BATCH.search(text),
        load=load,
        variables=job_variables(slurm) if slurm else {},
        launch_words=first_words(),
        reading=reading,
        marks=Marks(name, by.read.marks.unknowns) if by else None,
        start=start,
    )
    if slurm is None and read.batches:  # a script that writes the batch script and hands it to sbatch
        slurm = read_directives(read.batches[0].text, name, first_line=read.batches[0].line)
    slurm = slurm or (by.slurm if by else None)
    granted = None if slurm else (by.granted if by else None) or read_granted(text, name)
    return Walked(name, text, reading, read, slurm, granted, lacking)


def _judged(bundle: Bundle, walks: Sequence[Walked], *, has_started: bool, look_beside: bool) -> None:
    """The plans of a script's starts, with the configurations and hostfiles that it names."""
    name = walks[0].name
    commands: list[Command] = []
    plans: list[Plan] = []
    unknowns: dict[str, int] = {}
    for walk in walks:
        context = Context(walk.read.marks, walk.slurm)
        _named_files(bundle, context, walk.read.commands, name, look_beside=look_beside)
        torn = grammar.Lines(walk.text).line(walk.reading.broken.place) if walk.reading.broken else len(walk.text)
        found, reasons = _plans_of(
            bundle, context, walk.read.commands, name, torn=torn, lacking=walk.lacking, look_beside=look_beside
        )
        bundle.problems.extend(context.problems)
        commands.extend(walk.read.commands)
        plans.extend(with_granted(plan, walk.granted) for plan in found)
        unknowns.update(reasons)
    here = sharing_host(plans)
    plans = [replace(plan, shares_host=True) if plan in here else plan for plan in plans]
    bundle.scripts.append(ScriptFile(tuple(commands), tuple(plans), walks[0].read.marks, walks[0].slurm))
    bundle.plans.extend(plans)
    bundle.skips.extend(
        Skip(name, line, f"not judged: {reason}") for reason, line in list(unknowns.items())[:UNKNOWNS_LIMIT]
    )
    if not plans and not has_started:
        read = walks[0].read
        _bare(bundle, name, commands, read.marks, read.variables, has_unknowns=bool(unknowns))


def _plans_of(
    bundle: Bundle,
    context: Context,
    commands: Sequence[Command],
    name: str,
    *,
    torn: int,
    lacking: Sequence[str],
    look_beside: bool,
) -> tuple[list[Plan], dict[str, int]]:
    """The plans of a script's commands, and why others are not judged: reason -> line.

    From the line `torn` on nothing is sure; `lacking` are the files that the script reads, and nobody gave.
    """
    plans = []
    unknowns: dict[str, int] = {}
    for command in commands:
        plan = plan_of(command, context)
        unknown = unjudged(command, plan, context.marks)
        if unknown:
            hint = f"; {lacking[0]} is not given" if lacking and plan is not None and plan.is_open else ""
            unknowns.setdefault(f"{unknown}{hint}", command.line)
        if plan is None:
            continue
        if command.line >= torn:
            plan = replace(plan, is_opaque=True)
        config = value_of(plan.settings.get("config_file"))
        if config in context.configs:
            config = resolved(bundle, name, str(config)) or str(config)
            bundle.used_configs.add(config)
            plan = replace(plan, config=bundle.texts[config])
        plans.append(_with_training(bundle, plan, name, look_beside=look_beside))
    return _without_helpers(plans), unknowns


def _with_training(bundle: Bundle, plan: Plan, script: str, *, look_beside: bool) -> Plan:
    """The plan with the options that LLaMA-Factory's YAML holds; a DeepSpeed configuration that it names is read."""
    named = (value_of(argument) or "" for argument in plan.arguments)
    path = next((word for word in named if word.endswith((".yaml", ".yml"))), "")
    if plan.launcher is not LLAMAFACTORY or not path:
        return plan
    text = beside(bundle, script, path, look_beside=look_beside)
    found = resolved(bundle, script, path) or path
    if text is not None and found not in bundle.trainings:
        _take(bundle, found, text)
    training = bundle.trainings.get(found)
    if training is None:
        return plan
    config = trainings.deepspeed_file(training)
    held = beside(bundle, found, config, look_beside=look_beside) if config.endswith(".json") else None
    name = resolved(bundle, found, config) or config
    if held is not None and name not in bundle.batches:
        _take(bundle, name, held)
    return replace(plan, arguments=(*trainings.arguments(training, found), *plan.arguments))


def _without_helpers(plans: list[Plan]) -> list[Plan]:
    """The plans without those of a plain python that stands beside a launcher and is given no rank."""
    if not any(plan.launcher.has_agent for plan in plans):
        return plans
    return [plan for plan in plans if not plan.is_by_hand or "RANK" in plan.environment]


def _bare(
    bundle: Bundle,
    name: str,
    commands: list[Command],
    marks: Marks,
    variables: Mapping[str, Assigned],
    *,
    has_unknowns: bool,
) -> None:
    """A script that starts no job: one that only sets variables speaks for the job all the same."""
    exported = {key: marks.field(held.text, held.line) for key, held in variables.items() if held.exported}
    speaking = {key: value for key, value in exported.items() if key.startswith(OF_THE_JOB)}
    if exported and not commands:
        speaking = exported
    if speaking:
        bundle.variables[name] = speaking
    if has_unknowns or (speaking and not commands):
        return
    started = next(
        (
            word
            for command in commands
            if STARTS_FILES.match(command.words[0].plain)
            for word in command.words
            if SCRIPT.fullmatch(word.plain)
        ),
        None,
    )
    script = ""
    if started is not None and resolved(bundle, name, started.plain) is None:
        script = f"; {started.plain} is not given"
    elif started is not None:
        script = f"; {started.plain} is judged by itself, without what it gets from here"
    reason = f"no command of a known launcher{script}"
    bundle.skips.append(Skip(name, started.line if started else 1, f"not judged: {reason}"))


UNKNOWN_KIND = "no launch file of a known kind"
FOREIGN_YAML = "YAML of no launcher that is known"
NAMING_HOSTS = words("--hostfile -hostfile --machinefile -machinefile --deepspeed_hostfile")
LETTERS, TAKES_LETTERS = ("-f", "-H"), frozenset({"deepspeed", "ds", *mpirun.MPIRUN.programs})
NAMING = (
    *words("--config_file --config-file --deepspeed --deepspeed_config --deepspeed-config --ds_config"),
    *("--deepspeed_config_file", *NAMING_HOSTS),
)


def _named_files(bundle: Bundle, context: Context, commands: list[Command], name: str, *, look_beside: bool) -> None:
    """Read the --config_file and --hostfile of a script's commands where they can be found."""
    configs: dict[str, dict[str, Field[Any]]] = {}
    hostfiles: dict[str, Hostfile] = {}
    for command in commands:
        names = {word.plain.rpartition("/")[2] for word in command.words}
        letters = LETTERS if names & TAKES_LETTERS else ()
        for path in _values_of(command, (*NAMING, *letters)):
            found = resolved(bundle, name, path)
            if found is None and look_beside and beside(bundle, name, path, look_beside=True) is not None:
                found = resolved(bundle, name, path)
            is_read = found in bundle.configs or found in bundle.hostfiles or found in bundle.batches
            if found is not None and not is_read:
                _take(bundle, found, bundle.texts[found])
            if found is not None and not is_read and path in _values_of(command, (*NAMING_HOSTS, *letters)):
                _as_hostfile(bundle, found)
            if found in bundle.configs:
                configs[path] = bundle.configs[found]
            elif found in bundle.hostfiles:
                hostfiles[path] = bundle.hostfiles[found]
    context.configs, context.hostfiles = configs, hostfiles


def _as_hostfile(bundle: Bundle, name: str) -> None:
    """A file that a script names as its hostfile is one, whatever it is called."""
    skipped = [skip for skip in bundle.skips if skip.file == name and skip.reason == UNKNOWN_KIND]
    if skipped:
        bundle.skips = [skip for skip in bundle.skips if skip not in skipped]
        bundle.hostfiles[name], bundle.hostfile_problems[name] = deepspeed.read_hostfile(bundle.texts[name], name)


def _values_of(command: Command, options: tuple[str, ...]) -> list[str]:
    values = []
    for place, word in enumerate(command.words):
        written, equals, value = word.plain.partition("=")
        if written in options:
            following = command.words[place + 1].plain if place + 1 < len(command.words) else ""
            values.append(value if equals else following)
    return [value for value in values if value]
