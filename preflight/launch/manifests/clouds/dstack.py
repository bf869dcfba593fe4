"""What does a task of dstack ask for?"""

from __future__ import annotations

from preflight.launch.field import firm, whole
from preflight.launch.manifests import pods
from preflight.launch.manifests.clouds.task import by_bash, group_of_nodes
from preflight.launch.manifests.group import number, variable
from preflight.launch.manifests.pods import Answer
from preflight.launch.text.located import Located


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
    env = [variable(name, value, document.line) for name, value in known.items()]
    given = document.get("env")
    env += [variable(name, held.text, held.line) for name, held in given.items()] if given is not None else []
    for entry in given.each() if given is not None else ():
        name, equals, value = str(entry.value).partition("=")
        env += [variable(name, value, entry.line)] if equals else []
    first = commands[0].line
    lines: list[str] = []
    for command in commands:  # each at its own line of the file
        at = command.line + ("\n" in command.text)
        lines += [""] * (at - first - len(lines)) + command.text.rstrip().split("\n")
    group = group_of_nodes(by_bash(Located("\n".join(lines), first, "\n".join(lines))), env, gpus, count, first)
    operator = ("DSTACK_NODE_RANK", "DSTACK_NODES_IPS", "DSTACK_MASTER_NODE_IP", "DSTACK_GPUS_NUM", "DSTACK_RUN_NAME")
    found, problems = pods.plans([group], document, file, operator=operator, index="DSTACK_NODE_RANK", around="dstack")
    return found, [*problems, *pods.against_gpus(found, [group])]


def _gpus_of_dstack(document: Located) -> Located | None:
    """The GPUs of a node: ``gpu: H100:8``, ``gpu: 80GB:8``, ``gpu: {count: 8}``."""
    held = document.get("resources", "gpu")
    if held is None:
        return None
    count = held.get("count")
    if count is not None and isinstance(count.value, int):
        return Located(count.value, count.line, str(count.value))
    last = str(held.value).rpartition(":")[2] if isinstance(held.value, str) else ""
    number = whole(last)
    return Located(number, held.line, last) if number is not None else None
