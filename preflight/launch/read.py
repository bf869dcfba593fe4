"""What do the given launch files say? Every file is read, what it names beside it too, and nothing is run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from preflight.launch.launchers.accelerate.command import config_plan
from preflight.launch.launchers.mpirun.command import is_a_list, reads_alone
from preflight.launch.plan import LaunchFiles, Skip
from preflight.launch.reading import justfile, makefile, subprocesses, units
from preflight.launch.reading.bundle import Bundle, expanded, meant, read_file
from preflight.launch.reading.files import take, take_asked, unread
from preflight.launch.reading.named import of_other_machines
from preflight.launch.reading.scripts import judge_scripts
from preflight.launch.reading.unset import with_unset
from preflight.launch.text import form
from preflight.launch.text.grammar import is_too_deep
from preflight.launch.text.marks import clean
from preflight.said import said
from preflight.said.errors import UsageError


def read_files(patterns: Iterable[str]) -> LaunchFiles:
    """Read every file; UsageError for one that cannot be read or is broken, a Skip for one of a kind not judged."""
    files = expanded(patterns)
    return read_texts({name: read_file(name) for name in files}, look_beside=True)


def read_texts(texts: Mapping[str, str], *, look_beside: bool = False) -> LaunchFiles:
    """The same from texts by file name; `look_beside` also reads what a script names and was not given."""
    raw = texts
    texts = {name: clean(text).replace("\r\n", "\n") for name, text in raw.items()}
    bundle = Bundle(dict(texts), dict(texts))
    scripts: list[str] = []
    for name in texts:
        bundle.problems.extend(makefile.problems(texts[name], name) if makefile.is_makefile(name) else ())
        texts[name] = text = meant(bundle, name, _as_script(name, texts[name]))
        started = subprocesses.as_script(text) if name.endswith(".py") else ""
        if started:
            scripts.append(name)
            texts[name] = started
        elif take_asked(bundle, name, text) == "shell":
            if is_too_deep(text):
                raise UsageError(said("{name}: nested too deep", name))
            scripts.append(name)
            bundle.problems.extend(form.carriage_returns(raw[name], name))
    judge_scripts(bundle, {name: texts[name] for name in scripts}, look_beside=look_beside)
    for name, text in (of_other_machines(bundle) if look_beside else {}).items():
        bundle.texts[name] = texts[name] = text
        with contextlib.suppress(UsageError):  # nobody asked for it
            take(bundle, name, text)
    for name, settings in bundle.configs.items():
        if name in texts and name not in bundle.used_configs:
            plan = config_plan(settings, bundle.config_lines[name])
            bundle.plans.append(replace(plan, config=texts[name]))
    used = {argument.file for plan in bundle.plans for argument in plan.arguments}
    for name, training in bundle.trainings.items():
        if name not in used:
            reason = "a LLaMA-Factory configuration: judged together with the script that starts it"
            bundle.skips.append(Skip(name, training.line, reason))
    for name, problems in bundle.hostfile_problems.items():
        if not reads_alone(bundle.plans, name) and not is_a_list(bundle.plans):
            bundle.problems.extend(problems)
    unread(bundle)
    bundle.plans = [with_unset(plan, bundle.texts) for plan in bundle.plans]
    order = {name: place for place, name in enumerate(texts)}
    plans = sorted(bundle.plans, key=lambda plan: order.get(plan.where.file, len(order)))
    return LaunchFiles(
        tuple(raw),
        tuple(plans),
        tuple(bundle.hostfiles.values()),
        tuple(bundle.batches.values()),
        tuple(bundle.variables.items()),
        tuple(bundle.skips),
        tuple(dict.fromkeys(bundle.problems)),
        tuple(bundle.scripts),
        raw,
        {name: text for name, text in bundle.texts.items() if name.endswith(".py")},
    )


def _as_script(name: str, text: str) -> str:
    """The commands of a file that make, just or systemd runs; any other as it is."""
    if makefile.is_makefile(name):
        return makefile.as_script(text)
    if justfile.is_justfile(name):
        return justfile.as_script(text)
    return units.as_script(text) if units.is_unit(text) else text
