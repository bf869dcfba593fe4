"""What do the job files of SkyPilot, dstack, Beaker and AzureML ask for?

SkyPilot runs the script of a task on every one of its nodes. AzureML runs a command on every instance, as often as
its distribution says, and gives each process its rank.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import replace

from preflight.launch.field import Field, Sourced, Unknown, firm
from preflight.launch.manifests import pods
from preflight.launch.manifests.group import Group, number
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import Plan, fail
from preflight.launch.text.located import Located
from preflight.ledger.findings import Finding, Where

ACCELERATORS = re.compile(r"[\w.-]+:(\d{1,3})")
SKYPILOT_KEYS = frozenset({"resources", "num_nodes", "setup", "envs", "file_mounts", "workdir"})
# What AzureML gives every process of a distribution.
GIVEN_BY_AZUREML = {
    "pytorch": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"),
    "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "AZ_BATCH_MASTER_NODE"),
}
# What AzureML fills in: a part that may be left out, or one value.
INPUT = re.compile(r"(?P<part>\$\[\[[^\[\]]*\]\])|\$\{\{\s*(?P<path>[^{}]*?)\s*\}\}")


def is_skypilot(document: Located) -> bool:
    """Whether a YAML document is a task of SkyPilot: a script to run, and something of what it is to run on."""
    run = document.get("run")
    return run is not None and isinstance(run.value, str) and bool(SKYPILOT_KEYS & set(document.mapping()))


def is_azureml(document: Located) -> bool:
    """Whether a YAML document is a job or a pipeline of AzureML."""
    schema = document.get("$schema")
    named = schema is not None and "azureml" in str(schema.value)
    return (named or document.get("distribution", "type") is not None) and any(True for _ in _commands(document))


def skypilot(documents: Iterable[Located], file: str) -> Answer:
    """The plans of every task's script."""
    found: list[Plan] = []
    problems: list[Finding] = []
    for document in documents:
        run = document.get("run")
        if run is None or not isinstance(run.value, str):
            continue
        count = number(document.get("num_nodes"), file, 1)
        gpus = _accelerators(document)
        known = {"SKYPILOT_NUM_NODES": str(firm(count))} if firm(count) else {}
        known |= {"SKYPILOT_NUM_GPUS_PER_NODE": gpus.text} if gpus is not None else {}
        env = [_variable(name, value, document.line) for name, value in known.items()]
        for part in ("envs", "secrets"):
            given = document.get(part)
            env += [_variable(name, held.text, held.line) for name, held in given.items()] if given is not None else []
        group = _group(_script(run), env, gpus, count, run.line)
        plans, more = pods.plans(
            [group],
            document,
            file,
            operator=("SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS"),
            index="SKYPILOT_NODE_RANK",
            around="skypilot",
        )
        found.extend(plans)
        problems.extend([*more, *pods.against_gpus(plans, [group])])
    return found, problems


def is_dstack(document: Located) -> bool:
    """Whether a YAML document is a task of dstack."""
    kind, commands = document.get("type"), document.get("commands")
    return kind is not None and kind.value == "task" and commands is not None and bool(commands.each())


def dstack(document: Located, file: str) -> Answer:
    """The plans of a task's commands, which run on each of its nodes."""
    commands = document.mapping()["commands"].each()
    count = number(document.get("nodes"), file, 1)
    gpus = _gpus_of_dstack(document)
    known = {"DSTACK_NODES_NUM": str(firm(count))} if firm(count) else {}
    known |= {"DSTACK_GPUS_PER_NODE": gpus.text} if gpus is not None else {}
    env = [_variable(name, value, document.line) for name, value in known.items()]
    given = document.get("env")
    env += [_variable(name, held.text, held.line) for name, held in given.items()] if given is not None else []
    for entry in given.each() if given is not None else ():
        name, equals, value = str(entry.value).partition("=")
        env += [_variable(name, value, entry.line)] if equals else []
    first = commands[0].line
    lines: list[str] = []
    for command in commands:  # each at its own line of the file
        at = command.line + ("\n" in command.text)
        lines += [""] * (at - first - len(lines)) + command.text.rstrip().split("\n")
    group = _group(_script(Located("\n".join(lines), first, "\n".join(lines))), env, gpus, count, first)
    operator = ("DSTACK_NODE_RANK", "DSTACK_NODES_IPS", "DSTACK_MASTER_NODE_IP", "DSTACK_GPUS_NUM", "DSTACK_RUN_NAME")
    found, problems = pods.plans([group], document, file, operator=operator, index="DSTACK_NODE_RANK", around="dstack")
    return found, [*problems, *pods.against_gpus(found, [group])]


OF_BEAKER = ("BEAKER_REPLICA_RANK", "BEAKER_REPLICA_COUNT", "BEAKER_NODE_HOSTNAME")
OF_A_LEADER = ("BEAKER_LEADER_REPLICA_HOSTNAME", "BEAKER_LEADER_REPLICA_IP", "BEAKER_LEADER_REPLICA_NODE_ID")


def is_beaker(document: Located) -> bool:
    """Whether a YAML document is an experiment of Beaker: tasks with an image of its own kind, or of Docker's."""
    version, tasks = document.get("version"), document.get("tasks")
    first = tasks.get(0) if tasks is not None else None
    return (
        version is not None and str(version.value).startswith("v2") and first is not None and "image" in first.mapping()
    )


def beaker(document: Located, file: str) -> Answer:
    """The plans of every task's command, which runs in each of its replicas."""
    found: list[Plan] = []
    problems: list[Finding] = []
    for task in document.mapping()["tasks"].each():
        count = number(task.get("replicas"), file, 1)
        given = task.get("envVars")
        env = [
            _variable(name.text, value.text, value.line)
            for entry in (given.each() if given is not None else ())
            if (name := entry.get("name")) is not None and (value := entry.get("value")) is not None
        ]
        words = [word for part in ("command", "arguments") if (held := task.get(part)) for word in held.each()]
        gpus = task.get("resources", "gpuCount")
        group = _group(Located(words, task.line), env, gpus, count, task.line)
        operator = (*OF_BEAKER, *OF_A_LEADER)
        plans, more = pods.plans([group], task, file, operator=operator, index="BEAKER_REPLICA_RANK", around="beaker")
        found.extend(plans)
        problems.extend([*more, *pods.against_gpus(plans, [group])])
        if any(plan.spans_nodes for plan in plans):
            problems.extend(_of_replicas(task, words, file))
    return found, problems


def _of_replicas(task: Located, words: list[Located], file: str) -> Iterable[Finding]:
    """Replicas are told of a leader where one is chosen, and reach it on the network of their hosts."""
    asks = next((name for name in OF_A_LEADER for word in words if name in word.text), "")
    leader, network = task.get("leaderSelection"), task.get("hostNetworking")
    where = Where(file, task.line)
    if asks and (leader is None or leader.value is not True):
        message = f"${asks} is empty without leaderSelection: true"
        yield fail("variables_are_set", message, where, fix="leaderSelection: true")
    if network is None or network.value is not True:
        message = "several replicas without hostNetworking: true: none of them reaches another"
        yield fail("containers_share_the_network", message, where, fix="hostNetworking: true")


def _gpus_of_dstack(document: Located) -> Located | None:
    """The GPUs of a node: ``gpu: H100:8``, ``gpu: 80GB:8``, ``gpu: {count: 8}``."""
    held = document.get("resources", "gpu")
    if held is None:
        return None
    count = held.get("count")
    if count is not None and isinstance(count.value, int):
        return Located(count.value, count.line, str(count.value))
    last = str(held.value).rpartition(":")[2] if isinstance(held.value, str) else ""
    return Located(int(last), held.line, last) if last.isascii() and last.isdigit() and len(last) < 4 else None


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
        env = [_variable(name, value.text, value.line) for name, value in held.items()] if held is not None else []
        command = job.mapping()["command"]
        text = INPUT.sub(functools.partial(_filled_in, job), command.text)
        group = _group(_script(replace(command, text=text)), env, None, count, command.line)
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
            message = (
                f"process_count_per_instance {each.value}: AzureML starts {plan.launcher.name} {each.value} times on"
                f" each node, and it starts {started} processes in every one of them"
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


def _accelerators(document: Located) -> Located | None:
    """The GPUs of a node, where one kind of accelerator is named: ``H100:8``, ``{H100: 8}``."""
    held = document.get("resources", "accelerators")
    if held is None:
        return None
    entries = list(held.items())
    if len(entries) == 1 and isinstance(entries[0][1].value, int):
        count = entries[0][1]
        return Located(count.value, count.line, str(count.value))
    match = ACCELERATORS.fullmatch(held.value.strip()) if isinstance(held.value, str) else None
    return Located(int(match[1]), held.line, match[1]) if match else None


def _script(held: Located) -> Located:
    shell = [Located(word, held.line, word) for word in ("bash", "-c")]
    return Located([*shell, Located(held.text, held.line, held.text)], held.line)


def _variable(name: str, value: str, line: int) -> Located:
    return Located({"name": Located(name, line, name), "value": Located(value, line, value)}, line)


def _group(words: Located, env: list[Located], gpus: Located | None, count: Field[int], line: int) -> Group:
    """The nodes of a task, as Kubernetes would write pods of one template."""
    limits = Located({"nvidia.com/gpu": gpus} if gpus is not None else {}, line)
    resources = Located({"limits": limits}, line)
    container = Located({"command": words, "env": Located(env, line), "resources": resources}, line)
    pod = Located({"containers": Located([container], line)}, line)
    return Group(pod, count, "node", knows_volumes=False)
