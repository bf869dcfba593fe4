"""What does a job of AzureML ask for?

It runs a command on every instance, as often as its distribution says, and gives each process its rank.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import replace

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Field, Sourced, Unknown
from preflight.launch.manifests import pods
from preflight.launch.manifests.clouds.task import by_bash, group_of_nodes
from preflight.launch.manifests.group import number, variable
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import Plan, fail
from preflight.launch.text.located import Located
from preflight.said import said

# What AzureML gives every process of a distribution.
GIVEN_BY_AZUREML = {
    "pytorch": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"),
    "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "AZ_BATCH_MASTER_NODE"),
}


# What AzureML fills in: a part that may be left out, or one value.
INPUT = re.compile(r"(?P<part>\$\[\[[^\[\]]*\]\])|\$\{\{\s*(?P<path>[^{}]*?)\s*\}\}")


def is_azureml(document: Located) -> bool:
    """Whether a YAML document is a job or a pipeline of AzureML."""
    schema = document.get("$schema")
    named = schema is not None and "azureml" in str(schema.value)
    return (named or document.get("distribution", "type") is not None) and any(True for _ in _commands(document))


def azureml(document: Located, file: str) -> Answer:
    """The plans of a job's command, or of the commands of a pipeline's jobs."""
    found: list[Plan] = []
    problems: list[Finding] = []
    for job in _commands(document):
        count = number(job.get("resources", "instance_count"), file, 1)
        kind = job.get("distribution", "type")
        given = GIVEN_BY_AZUREML.get(str(kind.value).lower(), ()) if kind is not None else ()
        each = number(job.get("distribution", "process_count_per_instance"), file, 1 if given else None)
        held = job.get("environment_variables")
        env = [variable(name, value.text, value.line) for name, value in held.items()] if held is not None else []
        command = job.mapping()["command"]
        text = INPUT.sub(functools.partial(_filled_in, job), command.text)
        group = group_of_nodes(by_bash(replace(command, text=text)), env, None, count, command.line)
        plans, more = pods.plans([group], job, file, operator=given, index="NODE_RANK", around="azureml")
        found.extend(replace(plan, processes_per_node=each) if plan.is_by_hand and each else plan for plan in plans)
        problems.extend(more)
        problems.extend(_started_twice(plans, each))
    return found, problems


def _filled_in(job: Located, match: re.Match[str]) -> str:
    """The value that a job gives one of its own inputs; for any other a variable, which nobody knows here."""
    if match["part"]:
        return "INPUT"
    held = job.get(*match["path"].split(".")) if match["path"].startswith("inputs.") else None
    if held is not None and isinstance(held.value, (int, float, str)) and "$" not in held.text:
        return held.text
    return f"${{INPUT_{re.sub(r'[^A-Za-z0-9]+', '_', match['path'])}}}"


def _started_twice(plans: list[Plan], each: Field[int]) -> list[Finding]:
    """A launcher that AzureML starts once for each process starts all of them in every one."""
    if not isinstance(each, Sourced) or each.value < 2:
        return []
    found = []
    for plan in plans:
        own = plan.processes_per_node
        if plan.launcher.has_agent and not (isinstance(own, Sourced) and own.value == 1):
            started = "as many again" if own is None or isinstance(own, Unknown) else f"{own.value}"
            message = said(
                "process_count_per_instance {value}: AzureML starts {name} {value} times on each node, and "
                "it starts {started} processes in every one of them",
                each.value,
                plan.launcher.name,
                started,
            )
            fix = "process_count_per_instance: 1"
            found.append(fail("tasks_are_counted_once", message, each.where, plan.where, fix=fix))
    return found


def _commands(document: Located) -> Iterable[Located]:
    """The jobs with a command: the document itself, or the entries of its pipeline."""
    command = document.get("command")
    if command is not None and isinstance(command.value, str):
        yield document
    jobs = document.get("jobs")
    for _, job in jobs.items() if jobs is not None else ():
        inner = job.get("command")
        if inner is not None and isinstance(inner.value, str):
            yield job
