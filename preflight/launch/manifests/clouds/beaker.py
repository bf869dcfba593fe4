"""What does an experiment of Beaker ask for?"""

from __future__ import annotations

from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.manifests import pods
from preflight.launch.manifests.clouds.task import group_of_nodes
from preflight.launch.manifests.group import number, variable
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import Plan, fail
from preflight.launch.text.located import Located

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
            variable(name.text, value.text, value.line)
            for entry in (given.each() if given is not None else ())
            if (name := entry.get("name")) is not None and (value := entry.get("value")) is not None
        ]
        words = [word for part in ("command", "arguments") if (held := task.get(part)) for word in held.each()]
        gpus = task.get("resources", "gpuCount")
        group = group_of_nodes(Located(words, task.line), env, gpus, count, task.line)
        operator = (*OF_BEAKER, *OF_A_LEADER)
        plans, more = pods.plans([group], task, file, operator=operator, index="BEAKER_REPLICA_RANK", around="beaker")
        found.extend(plans)
        problems.extend([*more, *pods.against_gpus(plans, [group])])
        if any(plan.spans_nodes for plan in plans):
            problems.extend(_of_replicas(task, words, file))
    return found, problems


def _of_replicas(task: Located, words: list[Located], file: str) -> Iterable[Finding]:
    """Replicas know their leader only where one is selected, and reach it only over the network of their hosts."""
    asks = next((name for name in OF_A_LEADER for word in words if name in word.text), "")
    leader, network = task.get("leaderSelection"), task.get("hostNetworking")
    where = Where(file, task.line)
    if asks and (leader is None or leader.value is not True):
        message = f"${asks} is empty without leaderSelection: true"
        yield fail("variables_are_set", message, where, fix="leaderSelection: true")
    if network is None or network.value is not True:
        message = "several replicas without hostNetworking: true: none of them reaches another"
        yield fail("containers_share_the_network", message, where, fix="hostNetworking: true")
