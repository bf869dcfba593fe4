"""What does a task of SkyPilot ask for? Its script runs on every one of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import firm
from preflight.launch.manifests import pods
from preflight.launch.manifests.clouds.task import by_bash, group_of_nodes
from preflight.launch.manifests.group import number, variable
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import Plan
from preflight.launch.text.located import Located

ACCELERATORS = re.compile(r"[\w.-]+:(\d{1,3})")


SKYPILOT_KEYS = frozenset({"resources", "num_nodes", "setup", "envs", "file_mounts", "workdir"})


def is_skypilot(document: Located) -> bool:
    """Whether a YAML document is a task of SkyPilot: a script to run, and something of what it is to run on."""
    run = document.get("run")
    return run is not None and isinstance(run.value, str) and bool(SKYPILOT_KEYS & set(document.mapping()))


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
        env = [variable(name, value, document.line) for name, value in known.items()]
        for part in ("envs", "secrets"):
            given = document.get(part)
            env += [variable(name, held.text, held.line) for name, held in given.items()] if given is not None else []
        group = group_of_nodes(by_bash(run), env, gpus, count, run.line)
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
