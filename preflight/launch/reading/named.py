"""Which files do the commands of a script name, and what do they add to its plans?"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from dataclasses import replace
from typing import Any

from preflight.judge.ledger.findings import Where
from preflight.launch.commands import Context
from preflight.launch.field import Field, value_of, words
from preflight.launch.launchers.deepspeed.hostfile import hostfile_of, read_hostfile
from preflight.launch.launchers.llamafactory import LLAMAFACTORY
from preflight.launch.launchers.mpirun.command import MPIRUN
from preflight.launch.plan import Hostfile, Plan
from preflight.launch.reading import trainings
from preflight.launch.reading.bundle import Bundle, beside, read_file, resolved
from preflight.launch.reading.files import UNKNOWN_KIND, take, take_asked
from preflight.launch.text.marks import clean
from preflight.launch.text.shell import Command
from preflight.launch.text.statements import Read
from preflight.said.errors import UsageError


def with_training(bundle: Bundle, plan: Plan, script: str, *, look_beside: bool) -> Plan:
    """The plan with the options that LLaMA-Factory's YAML holds; a DeepSpeed configuration that it names is read."""
    named = (value_of(argument) or "" for argument in plan.arguments)
    path = next((word for word in named if word.endswith((".yaml", ".yml"))), "")
    if plan.launcher is not LLAMAFACTORY or not path:
        return plan
    text = beside(bundle, script, path, look_beside=look_beside)
    found = resolved(bundle, script, path) or path
    if text is not None and found not in bundle.trainings:
        take(bundle, found, text)
    training = bundle.trainings.get(found)
    if training is None:
        return plan
    config = trainings.deepspeed_file(training)
    held = beside(bundle, found, config, look_beside=look_beside) if config.endswith(".json") else None
    name = resolved(bundle, found, config) or config
    if held is not None and name not in bundle.batches:
        take(bundle, name, held)
    return replace(plan, arguments=(*trainings.arguments(training, found), *plan.arguments))


NAMING_HOSTS = words("--hostfile -hostfile --machinefile -machinefile --deepspeed_hostfile")


LETTERS, TAKES_LETTERS = ("-f", "-H"), frozenset({"deepspeed", "ds", *MPIRUN.programs})


NAMING = (
    *words("--config_file --config-file --deepspeed --deepspeed_config --deepspeed-config --ds_config"),
    *("--deepspeed_config_file", *NAMING_HOSTS),
)


def named_files(bundle: Bundle, context: Context, read: Read, name: str, *, look_beside: bool) -> None:
    """Read the --config_file and --hostfile of a script's commands where they are found, or the script writes them."""
    configs: dict[str, dict[str, Field[Any]]] = {}
    hostfiles: dict[str, Hostfile] = {}
    for command in read.commands:
        names = {word.plain.rpartition("/")[2] for word in command.words}
        letters = LETTERS if names & TAKES_LETTERS else ()
        for path in _values_of(command, (*NAMING, *letters)):
            written = read.files.known(path) if path in _values_of(command, (*NAMING_HOSTS, *letters)) else None
            if written is not None:
                lines = [(text, Where(name, line)) for text, line in written.lines]
                hostfiles[path], bundle.hostfile_problems[path] = hostfile_of(lines, path)
                bundle.hostfiles[path] = hostfiles[path]
                continue
            found = resolved(bundle, name, path)
            if found is None and look_beside and beside(bundle, name, path, look_beside=True) is not None:
                found = resolved(bundle, name, path)
            is_read = found in bundle.configs or found in bundle.hostfiles or found in bundle.batches
            if found is not None and not is_read:
                take_asked(bundle, found, bundle.texts[found])
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
        bundle.hostfiles[name], bundle.hostfile_problems[name] = read_hostfile(bundle.texts[name], name)


def _values_of(command: Command, options: tuple[str, ...]) -> list[str]:
    values = []
    for place, word in enumerate(command.words):
        written, equals, value = word.plain.partition("=")
        if written in options:
            following = command.words[place + 1].plain if place + 1 < len(command.words) else ""
            values.append(value if equals else following)
    return [value for value in values if value]


def of_other_machines(bundle: Bundle) -> dict[str, str]:
    """Configurations that lie beside one that several scripts name: node2.yaml beside node1.yaml."""
    by_config: dict[str, set[str]] = {}
    for plan in bundle.plans:
        config = value_of(plan.settings.get("config_file"))
        if config is not None and plan.config:
            by_config.setdefault(resolved(bundle, plan.where.file, str(config)) or "", set()).add(plan.where.file)
    shared = [config for config, scripts in by_config.items() if config and len(scripts) > 1]
    found: dict[str, str] = {}
    for config in shared:
        folder, name = os.path.split(config)
        like = os.path.join(glob.escape(folder), re.sub(r"\d+", "[0-9]*", glob.escape(name)))
        for path in sorted(glob.glob(like))[:MACHINES_LIMIT] if re.search(r"\d", name) else ():
            if path not in bundle.texts and os.path.isfile(path):
                with contextlib.suppress(UsageError):
                    found[path] = clean(read_file(path)).replace("\r\n", "\n")
    return found


MACHINES_LIMIT = 64
