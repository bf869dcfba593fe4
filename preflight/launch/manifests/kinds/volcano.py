"""What does Volcano's Job ask for?"""

from __future__ import annotations

import re

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced, Unknown, firm
from preflight.launch.manifests import pods, roles
from preflight.launch.manifests.group import Group, group_of, number, total
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.located import Located
from preflight.said import said

VOLCANO_TORCH = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


LISTED = re.compile(r"/etc/volcano/([\w-]+)\.host\b")


def _tasks_of_lists(plan: Plan, names: list[str]) -> list[Finding]:
    """The svc plugin writes a list of hosts for each task, under the task's name."""
    address = plan.master_address
    named = LISTED.search(address.expression) if isinstance(address, Unknown) else None
    if named is None or address is None or named[1] in names:
        return []
    message = said(
        "{path} is the list of a task {name}, and the tasks are {names}", named[0], named[1], ", ".join(names)
    )
    fix = f"/etc/volcano/{names[0]}.host" if names else ""
    return [fail("headless_service_is_there", message, address.where, fix=fix)]


def _names_of_hosts(plan: Plan) -> list[Finding]:
    """VC_<TASK>_HOSTS is the svc plugin's, and so are the names that it lists."""
    address = plan.master_address
    found = re.search(r"VC_\w+_HOSTS", address.expression) if isinstance(address, Unknown) else None
    named = found or (LISTED.search(address.expression) if isinstance(address, Unknown) else None)
    if named is None or address is None:
        return []
    message = said(
        "rank 0's address comes from {named}, which the svc plugin sets, and the job does not have it", named[0]
    )
    return [fail("headless_service_is_there", message, address.where, fix="plugins: {svc: []}")]


def _tasks_of_plugin(given: Located | None, names: list[str], file: str) -> list[Finding]:
    """The pytorch plugin numbers the pods of the tasks that it is told of, `master` and `worker` where it is not."""
    problems = []
    words = given.each() if given is not None and isinstance(given.value, list) else []
    for option in ("master", "worker"):
        held = next((word for word in words if re.fullmatch(rf"--?{option}=.+", word.text)), None)
        name = held.text.partition("=")[2] if held is not None else option
        if name in names or (option == "worker" and held is None and len(names) < 2):
            continue
        where = Where(file, held.line if held is not None else given.line if given is not None else 1)
        message = said(
            "the pytorch plugin's {option} is the task {name}, and the tasks are {names}",
            option,
            name,
            ", ".join(names),
        )
        fix = said("--{option}=<one of {names}>", option, ", ".join(names))
        problems.append(fail("pods_know_their_rank", message, where, fix=fix))
    return problems


def _world_of_all_tasks(given: Located | None, groups: list[Group], found: list[Plan], file: str) -> list[Finding]:
    """The pytorch plugin counts the pods of every task into WORLD_SIZE, those of a logger too, before Volcano 1.12."""
    words = [word.text for word in (given.each() if given is not None and isinstance(given.value, list) else [])]
    named = {option: option for option in ("master", "worker")}
    named |= {word.lstrip("-").partition("=")[0]: word.partition("=")[2] for word in words if "=" in word}
    others = [group for group in groups if group.role not in (named["master"], named["worker"])]
    world, ranks = firm(total(groups)), firm(total([group for group in groups if group not in others]))
    is_own = any(isinstance(plan.environment.get("WORLD_SIZE"), Sourced) for plan in found)
    agents = bool(found) and all(plan.launcher.has_agent for plan in found)
    if not others or agents or is_own or not world or not ranks:
        return []
    message = said(
        "WORLD_SIZE counts the pods of {others} too, {world} in all, and {ranks} of them are ranks: before Volcano "
        "1.12 they wait for the others until they time out",
        ", ".join(group.role for group in others),
        world,
        ranks,
    )
    fix = said("WORLD_SIZE={ranks} in front of the command, or Volcano 1.12", ranks)
    return [warn("world_size_counts_processes", message, Where(file, others[0].pod.line), fix=fix)]


def volcano(document: Located, documents: list[Located], file: str) -> Answer:
    """Tasks with replicas, gang-scheduled by `minAvailable`; the pytorch plugin gives ranks and an address."""
    del documents
    tasks, plugins = document.get("spec", "tasks"), document.get("spec", "plugins")
    groups: list[Group] = []
    for task in tasks.each() if tasks else []:
        name = task.get("name")
        count = number(task.get("replicas"), file, 1)
        groups += group_of(task.get("template"), count, str(name.value) if name else "task")
    by_plugin = plugins is not None and plugins.get("pytorch") is not None
    found, problems = pods.plans(
        groups, document, file, operator=VOLCANO_TORCH if by_plugin else (), index="VC_TASK_INDEX"
    )
    least = document.get("spec", "minAvailable")
    names = [group.role for group in groups]
    problems.extend(roles.names_a_pod(found, document.get("metadata", "name"), groups))
    if plugins is not None and by_plugin:
        problems.extend(_tasks_of_plugin(plugins.get("pytorch"), names, file))
        problems.extend(_world_of_all_tasks(plugins.get("pytorch"), groups, found, file))
    if plugins is None or {name for name, _ in plugins.items()} <= {"env", "ssh"}:
        problems.extend(one for plan in found for one in _names_of_hosts(plan))
    else:
        problems.extend(one for plan in found for one in _tasks_of_lists(plan, names))
    return found, [
        *problems,
        *pods.gang(least, total(groups), file, is_one_job=bool(found)),
        *pods.against_gpus(found, groups),
    ]
