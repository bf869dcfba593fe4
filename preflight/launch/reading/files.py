"""What is in a file of any kind but a script?"""

from __future__ import annotations

import re

from preflight.judge.ledger.findings import Finding, Where
from preflight.knowledge.variables.judged import is_of_a_job
from preflight.launch.launchers import launch_words
from preflight.launch.launchers.accelerate.file import read_config
from preflight.launch.launchers.deepspeed.config import read_batches, read_variables
from preflight.launch.launchers.deepspeed.hostfile import read_hostfile
from preflight.launch.manifests import compose, kubernetes
from preflight.launch.manifests.clouds.azureml import azureml, is_azureml
from preflight.launch.manifests.clouds.batch import batch, is_batch
from preflight.launch.manifests.clouds.beaker import beaker, is_beaker
from preflight.launch.manifests.clouds.dstack import dstack, is_dstack
from preflight.launch.manifests.clouds.skypilot import is_skypilot, skypilot
from preflight.launch.plan import BATCH_KEYS, Plan, Skip, fail
from preflight.launch.reading import trainings
from preflight.launch.reading.bundle import Bundle
from preflight.launch.text import located
from preflight.launch.text.detect import kind_of, template_line
from preflight.launch.text.located import Broken
from preflight.said import said

ACCELERATE_KEYS = ("distributed_type", "compute_environment", "num_machines", "num_processes", "deepspeed_config")


def take_asked(bundle: Bundle, name: str, text: str) -> str:
    """Read a file that was given or named; a broken one is a finding, and leaves the rest of its set to be judged."""
    try:
        return take(bundle, name, text)
    except Broken as error:
        if tuple(bundle.given) == (name,):
            raise
        message = said("not {form}: {reason}", error.form, error.reason)
        bundle.problems.append(fail("config_files_are_read", message, error.where))
        return "broken"


def take(bundle: Bundle, name: str, text: str) -> str:
    """Read a file of any kind but a script; returns its kind."""
    kind = kind_of(name, text, launch_words())
    template = template_line(text) if kind in ("yaml", "shell", "json") else 0
    if template:
        bundle.skips.append(Skip(name, template, "an unrendered template: give the rendered file", of_start=True))
        return "template"
    if not text.strip():
        bundle.skips.append(Skip(name, 1, "empty"))
        return "empty"
    if kind == "yaml":
        _yaml(bundle, name, text)
    elif kind == "json":
        _json(bundle, name, text)
    elif kind == "hostfile":
        hostfile, problems = read_hostfile(text, name)
        bundle.hostfiles[name] = hostfile
        bundle.hostfile_problems[name] = problems
    elif kind == "variables":
        values, problems = read_variables(text, name)
        bundle.variables[name] = values
        bundle.problems.extend(problems)
    elif kind == "other":
        bundle.skips.append(Skip(name, 1, _named_kind(name, text)))
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
    elif any(map(is_skypilot, documents)):
        _of_a_cloud(bundle, name, skypilot(documents, name), "a SkyPilot task")
    elif documents and is_dstack(documents[0]):
        _of_a_cloud(bundle, name, dstack(documents[0], name), "a task of dstack")
    elif documents and is_beaker(documents[0]):
        _of_a_cloud(bundle, name, beaker(documents[0], name), "a Beaker experiment")
    elif documents and is_azureml(documents[0]):
        _of_a_cloud(bundle, name, azureml(documents[0], name), "an AzureML job")
    elif documents and any(key in documents[0].mapping() for key in ACCELERATE_KEYS):
        unfilled = [
            held for _, held in documents[0].items() if isinstance(held.value, str) and held.value.startswith("$")
        ]
        if unfilled:
            bundle.skips.append(
                Skip(
                    name,
                    unfilled[0].line,
                    said("an unrendered template: {value} is not filled in", unfilled[0].value),
                    of_start=True,
                )
            )
            return
        settings, problems = read_config(documents[0], name)
        bundle.configs[name] = settings
        bundle.config_lines[name] = Where(name, documents[0].line)
        bundle.problems.extend(problems)
    elif documents and trainings.is_training(documents[0]):
        bundle.trainings[name] = documents[0]
    else:
        bundle.skips.append(Skip(name, 1, FOREIGN_YAML))


def unread(bundle: Bundle) -> None:
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
        bundle.skips.append(Skip(name, 1, said("{what} with no command of a known launcher", what)))


def _json(bundle: Bundle, name: str, text: str) -> None:
    config = read_batches(text, name)
    if any(key in config.values for key in ACCELERATE_KEYS[:4]):
        documents = located.load(text, name)
        settings, problems = read_config(documents[0], name)
        bundle.configs[name] = settings
        bundle.config_lines[name] = Where(name, 1)
        bundle.problems.extend(problems)
    elif any(key in config.values for key in (*BATCH_KEYS, "zero_optimization", "fp16", "bf16", "optimizer")):
        bundle.batches[name] = config
    elif "nodeProperties" in config.values and is_batch(located.load(text, name)[0]):
        _of_a_cloud(bundle, name, batch(located.load(text, name)[0], name), "a job definition of AWS Batch")
    elif {"apiVersion", "kind"} <= set(config.values):
        _manifest(bundle, name, located.load(text, name))
    else:
        bundle.skips.append(Skip(name, 1, "JSON of no launcher that is known"))


# Files that start or describe a job in a form of their own: by the end of their names, or by what stands in them.
FOREIGN = (
    ("a notebook", re.compile(r".*\.ipynb"), re.compile("")),
    ("a Python program", re.compile(r".*\.py"), re.compile(r"submitit|subprocess|torchrun|sbatch|torchx|os\.system")),
    ("a configuration of torchtitan", re.compile(r".*\.toml"), re.compile(r"(?m)^\[(parallelism|training|job)\]")),
    ("a unit of systemd", re.compile(r".*\.service|.*"), re.compile(r"(?m)^ExecStart=")),
    (
        "a submission to HTCondor",
        re.compile(r".*\.(sub|condor)"),
        re.compile(r"(?mi)^\s*(executable|universe|queue)\b"),
    ),
    ("HCL", re.compile(r".*\.(hcl|tf|nomad)|.*"), re.compile(r"(?m)^[A-Za-z_]\w*(\s+\"[^\"]*\")+\s*\{")),
)


def _named_kind(name: str, text: str) -> str:
    """What a file that is not read is, where its form tells it."""
    for what, named, holds in FOREIGN:
        if named.fullmatch(name.lower()) and holds.search(text):
            return said("{what}: not read; give the command or script that it runs", what)
    return UNKNOWN_KIND


UNKNOWN_KIND = "no launch file of a known kind"


FOREIGN_YAML = "YAML of no launcher that is known"
