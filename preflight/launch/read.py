"""What do the given launch files say? Every file is read, what it names beside it too, and nothing is run."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from preflight.errors import UsageError
from preflight.launch.commands import Context, plan_of, unjudged
from preflight.launch.field import Field, value_of, words
from preflight.launch.launchers import accelerate, accelerate_file, deepspeed, first_words, launch_words, mpirun
from preflight.launch.launchers.slurm import job_variables, read_directives
from preflight.launch.manifests import clouds, compose, kubernetes
from preflight.launch.plan import BatchConfig, Hostfile, LaunchFiles, Plan, ScriptFile, Skip, sharing_host
from preflight.launch.text import form, grammar, letters, located
from preflight.launch.text.detect import kind_of, template_line
from preflight.launch.text.expansion import Assigned
from preflight.launch.text.marks import Marks, clean, is_known, plain
from preflight.launch.text.shell import Command
from preflight.launch.text.statements import read_script
from preflight.ledger.findings import Finding, Where

# A script with one of these runs on one node and starts the others.
STARTS_ALL = re.compile(r"(?m)^[^#\n]*\b(srun|pdsh|clush)\b")
# Variables by which a script that starts nothing speaks for the job all the same.
OF_THE_JOB = ("NCCL_", "GLOO_", "MASTER_", "CUDA_VISIBLE", "TORCH_NCCL_")
STARTS_FILES = re.compile(
    r"(.*/)?(bash|sh|zsh|source|\.|sbatch|srun|qsub|exec|nohup|sudo)$|\S+\.(sh|sbatch|slurm|bash)$"
)
SCRIPT = re.compile(r"[\w./~+-]+\.(sh|sbatch|slurm|bash)")
UNKNOWNS_LIMIT = 4
ACCELERATE_KEYS = ("distributed_type", "compute_environment", "num_machines", "num_processes", "deepspeed_config")


@dataclass
class Bundle:
    """The files read so far, by the name they were given with or found under."""

    texts: dict[str, str] = field(default_factory=dict)
    configs: dict[str, dict[str, Field[Any]]] = field(default_factory=dict)
    config_lines: dict[str, Where] = field(default_factory=dict)
    used_configs: set[str] = field(default_factory=set)
    hostfiles: dict[str, Hostfile] = field(default_factory=dict)
    hostfile_problems: dict[str, list[Finding]] = field(default_factory=dict)  # to DeepSpeed
    batches: dict[str, BatchConfig] = field(default_factory=dict)
    variables: dict[str, Mapping[str, Field[str]]] = field(default_factory=dict)
    plans: list[Plan] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)
    scripts: list[ScriptFile] = field(default_factory=list)


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
        texts[name] = text = _meant(bundle, name, texts[name])
        if _take(bundle, name, text) == "shell":
            scripts.append(name)
            bundle.problems.extend(form.carriage_returns(raw[name], name))
    for name in scripts:
        _script(bundle, name, texts[name], look_beside=look_beside)
    for name, settings in bundle.configs.items():
        if name in texts and name not in bundle.used_configs:
            plan = accelerate.config_plan(settings, bundle.config_lines[name])
            bundle.plans.append(replace(plan, config=texts[name]))
    for name, problems in bundle.hostfile_problems.items():
        if not mpirun.reads_alone(bundle.plans, name):
            bundle.problems.extend(problems)
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


def _meant(bundle: Bundle, name: str, text: str) -> str:
    """The text with plain letters for those that only look like them, which are a problem each."""
    if text.isascii() or name.endswith(".json"):
        return text
    is_yaml = name.endswith((".yaml", ".yml"))
    bundle.problems.extend(letters.problems(text, name, is_yaml=is_yaml))
    bundle.texts[name] = letters.as_meant(text, is_yaml=is_yaml)
    return bundle.texts[name]


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


def _yaml(bundle: Bundle, name: str, text: str) -> None:
    documents = located.load(text, name)
    if any("apiVersion" in document.mapping() and "kind" in document.mapping() for document in documents):
        plans, skips, problems = kubernetes.read(documents, name)
        bundle.plans.extend(plans)
        bundle.skips.extend(skips)
        bundle.problems.extend(problems)
    elif documents and compose.is_compose(documents[0]):
        plans, problems = compose.read(documents[0], name)
        bundle.plans.extend(plans)
        bundle.problems.extend(problems)
        if not plans:
            bundle.skips.append(Skip(name, 1, "a compose file with no command of a known launcher"))
    elif any(map(clouds.is_skypilot, documents)):
        _of_a_cloud(bundle, name, clouds.skypilot(documents, name), "a SkyPilot task")
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
    else:
        bundle.skips.append(Skip(name, 1, "YAML of no launcher that is known"))


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
    elif any(key in config.values for key in (*deepspeed.BATCH_KEYS, "zero_optimization", "fp16", "bf16", "optimizer")):
        bundle.batches[name] = config
    else:
        bundle.skips.append(Skip(name, 1, "JSON of no launcher that is known"))


def _script(bundle: Bundle, name: str, text: str, *, look_beside: bool) -> None:
    """The plans of a script, with the configurations and hostfiles that it names."""
    slurm = read_directives(text, name)
    reading = grammar.read(text)
    problems = list(form.problems(text, name, reading))
    bundle.problems.extend(problems)
    meant = form.as_meant(text, problems)
    if meant != text:
        text, reading = meant, grammar.read(meant)

    lacking: list[str] = []

    def load(path: str) -> str | None:
        found = _beside(bundle, name, path, look_beside=look_beside)
        lacking.extend([path] if found is None and is_known(path) else [])
        return found

    commands, marks, variables, batches = read_script(
        text,
        name,
        per_node=slurm is None and not STARTS_ALL.search(text),
        load=load,
        variables=job_variables(slurm) if slurm else {},
        launch_words=first_words(),
        reading=reading,
    )
    if slurm is None and batches:  # a script that writes the batch script and hands it to sbatch
        slurm = read_directives(batches[0].text, name, first_line=batches[0].line)
    context = Context(marks, slurm)
    _named_files(bundle, context, commands, name, look_beside=look_beside)
    plans = []
    unknowns: dict[str, int] = {}
    torn = grammar.Lines(text).line(reading.broken.place) if reading.broken else len(text)
    for command in commands:
        plan = plan_of(command, context)
        unknown = unjudged(command, plan, marks)
        if unknown:
            hint = f"; {lacking[0]} is not given" if lacking and plan is not None and plan.is_open else ""
            unknowns.setdefault(f"{unknown}{hint}", command.line)
        if plan is None:
            continue
        if command.line >= torn:
            plan = replace(plan, is_opaque=True)
        config = value_of(plan.settings.get("config_file"))
        if config in context.configs:
            config = _resolved(bundle, name, str(config)) or str(config)
            bundle.used_configs.add(config)
            plan = replace(plan, config=bundle.texts[config])
        plans.append(plan)
    plans = _without_helpers(plans)
    here = sharing_host(plans)
    plans = [replace(plan, shares_host=True) if plan in here else plan for plan in plans]
    bundle.problems.extend(context.problems)
    bundle.scripts.append(ScriptFile(tuple(commands), tuple(plans), marks, slurm))
    bundle.plans.extend(plans)
    bundle.skips.extend(
        Skip(name, line, f"not judged: {reason}") for reason, line in list(unknowns.items())[:UNKNOWNS_LIMIT]
    )
    if not plans:
        _bare(bundle, name, commands, marks, variables, told=bool(unknowns))


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
    told: bool,
) -> None:
    """A script that starts no job: one that only sets variables speaks for the job all the same."""
    exported = {key: marks.field(held.text, held.line) for key, held in variables.items() if held.exported}
    speaking = {key: value for key, value in exported.items() if key.startswith(OF_THE_JOB)}
    if exported and not commands:
        speaking = exported
    if speaking:
        bundle.variables[name] = speaking
    if told or (speaking and not commands):
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
    reason = f"no command of a known launcher{f'; {started.plain} is not given' if started else ''}"
    bundle.skips.append(Skip(name, started.line if started else 1, f"not judged: {reason}"))


UNKNOWN_KIND = "no launch file of a known kind"
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
            found = _resolved(bundle, name, path)
            if found is None and look_beside and _beside(bundle, name, path, look_beside=True) is not None:
                found = _resolved(bundle, name, path)
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


def _resolved(bundle: Bundle, script: str, path: str) -> str | None:
    """The name under which a path that a script names was given: as written, beside the script, or by its end."""
    path = plain(path)
    candidates = (path, os.path.join(os.path.dirname(script), path), os.path.normpath(path))
    for candidate in candidates:
        if candidate in bundle.texts:
            return candidate
    ends = [name for name in bundle.texts if os.path.basename(name) == os.path.basename(path)]
    return ends[0] if len(ends) == 1 else None


def _beside(bundle: Bundle, script: str, path: str, *, look_beside: bool) -> str | None:
    """The text of a file that a script names, given, or found beside it or from here."""
    found = _resolved(bundle, script, path)
    if found is not None:
        return bundle.texts[found]
    beside = os.path.join(os.path.dirname(script), path)
    is_ours = path.endswith((".yaml", ".yml", ".json", ".sh", ".env")) or "host" in os.path.basename(path)
    for candidate in (beside, path) if look_beside and is_ours else ():
        if os.path.isfile(candidate):
            bundle.texts[candidate] = clean(read_file(candidate)).replace("\r\n", "\n")
            _meant(bundle, candidate, bundle.texts[candidate])
            return bundle.texts[candidate]
    return None


FILE_LIMIT_BYTES = 4 << 20

FILES_LIMIT = 4096


def expanded(patterns: Iterable[str]) -> list[str]:
    """The files that names and patterns stand for, each once."""
    files: list[str] = []
    for pattern in patterns:
        is_glob = any(letter in pattern for letter in "*?[") and not os.path.exists(pattern)
        found = sorted(path for path in glob.glob(pattern) if os.path.isfile(path)) if is_glob else [pattern]
        if not found:
            raise UsageError(f"{pattern!r} matches no file")
        files.extend(found)
    if len(files) > FILES_LIMIT:
        raise UsageError(f"{len(files)} launch files; wanted at most {FILES_LIMIT}")
    return list(dict.fromkeys(files))


def read_file(name: str) -> str:
    """The text of a file of a sensible size."""
    try:
        if not os.path.isfile(name):
            raise UsageError(f"{name!r} is not a file that can be read")
        with open(name, "rb") as stream:
            data = stream.read(FILE_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name!r} cannot be read: {reason}") from None
    if len(data) > FILE_LIMIT_BYTES:
        raise UsageError(f"{name!r} has more than {FILE_LIMIT_BYTES >> 20} MiB")
    if b"\0" in data:
        raise UsageError(f"{name!r} is no text file")
    return data.decode("utf-8-sig", "replace")
