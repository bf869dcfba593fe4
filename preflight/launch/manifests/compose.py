"""What do the services of a docker compose file ask for: programs, variables, devices, memory and networks?"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.commands import Context, plan_of
from preflight.launch.containers import Container, trouble
from preflight.launch.field import Sourced, firm
from preflight.launch.manifests import pods
from preflight.launch.manifests.admission import names_are_filled_in
from preflight.launch.manifests.group import number, variable
from preflight.launch.manifests.programs import program_of
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.located import Located
from preflight.launch.text.marks import Marks
from preflight.said import said


def is_compose(document: Located) -> bool:
    """Whether a YAML document is a compose file: services, each with an image or a build."""
    services = document.get("services")
    held = services.mapping().values() if services is not None else []
    return any(service.get("image") is not None or service.get("build") is not None for service in held)


def read(document: Located, file: str) -> tuple[list[Plan], list[Finding]]:
    """The plans of all services, and what their containers lack."""
    services = document.get("services")
    plans: list[Plan] = []
    problems: list[Finding] = []
    found: list[tuple[Located, list[Plan]]] = []
    for _, service in services.items() if services is not None else ():
        marks = Marks(file)
        context = Context(marks)
        commands, of_form = program_of(as_container(service, marks), marks, file, ())
        problems.extend(of_form)
        held = [plan_of(command, context) for command in commands]
        of_service = [replace(plan, wrapper=("compose", *plan.wrapper)) for plan in held if plan is not None]
        problems.extend(context.problems)
        found.append((service, of_service))
    starting = sum(bool(of_service) for _, of_service in found)
    is_stack = _is_stack(document)
    for service, of_service in found:
        problems.extend(_of_replicas(service, of_service, file, is_alone=starting == 1))
        problems.extend(_ignored(service, file) if is_stack and of_service else ())
        problems.extend(one for plan in of_service for one in _devices_are_enough(service, plan, file))
        container = container_of(service, file)
        for plan in of_service:
            has_peers = starting > 1 or _is_several(service, file)
            problems.extend(trouble(container, plan, has_peers_here=has_peers))
        plans.extend(of_service)
    problems.extend(
        _unknown_names(document, [plan for _, held in found for plan in held], file) if starting > 1 else ()
    )
    problems.extend(_apart([service for service, held in found if any(plan.spans_nodes for plan in held)], file))
    for service, _ in found:
        problems.extend(_filled_in_outside(service, file))
    problems.extend(names_are_filled_in(services, file) if services is not None else ())
    return plans, problems


# What `docker stack deploy` passes over of what containers of a job need.
IGNORED = ("network_mode", "shm_size", "ipc", "privileged", "devices")
OF_A_STACK = ("placement", "mode", "endpoint_mode", "update_config")


def _is_stack(document: Located) -> bool:
    """Whether a compose file is written for a swarm."""
    services, networks = document.get("services"), document.get("networks")
    drivers = [held.get("driver") for _, held in (networks.items() if networks is not None else ())]
    placed = (one.get("deploy", key) for _, one in (services.items() if services else ()) for key in OF_A_STACK)
    return any(held is not None for held in placed) or any(held and held.value == "overlay" for held in drivers)


def _ignored(service: Located, file: str) -> list[Finding]:
    """A swarm starts its services without these options, and says so only while it deploys them."""
    given = [(key, held) for key in IGNORED if (held := service.get(key)) is not None]
    if not given:
        return []
    message = said("docker stack deploy ignores {key}", ", ".join((key for key, _ in given)))
    fix = "a tmpfs mounted at /dev/shm in place of shm_size, a network of the file in place of network_mode"
    return [warn("stack_options_count", message, *(Where(file, held.line) for _, held in given), fix=fix)]


def _devices_are_enough(service: Located, plan: Plan, file: str) -> list[Finding]:
    """A process for each GPU needs as many as the service reserves, by their count or by their numbers."""
    held, each = service.get("deploy", "resources", "reservations", "devices"), plan.processes_per_node
    count = 0
    for device in held.each() if held is not None else ():
        listed, counted = device.get("device_ids"), device.get("count")
        if counted is None and listed is None:
            return []  # all of them
        given = firm(number(counted, file)) if counted is not None else len(listed.each() if listed is not None else [])
        if given is None:
            return []
        count += given
    if held is None or not count or not plan.launcher.has_agent or not isinstance(each, Sourced) or each.value <= count:
        return []
    message = said("{value} processes, and the service reserves {count} GPUs", each.value, count)
    return [fail("resources_are_enough", message, each.where, Where(file, held.line), fix=f"count: {each.value}")]


def _is_several(service: Located, file: str) -> bool:
    return (firm(number(service.get("deploy", "replicas"), file)) or 1) > 1


def _of_replicas(service: Located, plans: list[Plan], file: str, *, is_alone: bool) -> list[Finding]:
    """All replicas of a service run one command, and are the nodes of a job where no other service has any."""
    count = number(service.get("deploy", "replicas"), file)
    if not _is_several(service, file):
        return []
    found = [one for plan in plans for one in pods.numbered_alike(plan, "<the number of the replica>")]
    several = [replace(plan, start="all nodes") for plan in plans if plan.spans_nodes]
    return [*found, *(pods.counted_right(several, count, (), "replicas") if is_alone else ())]


def _unknown_names(document: Located, plans: list[Plan], file: str) -> list[Finding]:
    """The services of a file find each other by their names, and by those that the file gives them besides."""
    held = document.mapping()["services"]
    services = held.mapping()
    names = set(services)
    for service in services.values():
        if service.get("network_mode") is not None or service.get("extra_hosts") is not None:
            return []  # names of hosts, which are not in the file
        names |= {own.text for key in ("container_name", "hostname") if (own := service.get(key)) is not None}
        networks = service.get("networks")
        for _, network in networks.items() if networks is not None else ():
            aliases = network.get("aliases")
            names |= {alias.text for alias in (aliases.each() if aliases is not None else ())}
    for plan in plans:
        address = plan.master_address
        if not isinstance(address, Sourced) or not plan.spans_nodes or address.origin != "written":
            continue
        if NAME.fullmatch(address.value) and address.value not in names | {"localhost"}:
            message = said(
                "{value} is not a service of this file, which has {names}", address.value, ", ".join(sorted(names))
            )
            return [fail("services_find_rank_0", message, address.where, Where(file, held.line))]
    return []


NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def _apart(services: list[Located], file: str) -> list[Finding]:
    """Services that share no network of compose do not reach each other."""
    held = [(service, _networks(service)) for service in services if service.get("network_mode") is None]
    for place, (one, ours) in enumerate(held):
        for other, theirs in held[place + 1 :]:
            if not ours & theirs:
                message = said(
                    "{ours} here and {theirs} there: the nodes share no network",
                    ", ".join(sorted(ours)),
                    ", ".join(sorted(theirs)),
                )
                where = [Where(file, service.line) for service in (one, other)]
                return [
                    fail(
                        "containers_share_the_network",
                        message,
                        *where,
                        fix=said("networks: [{min}] in both", min(ours)),
                    )
                ]
    return []


def _networks(service: Located) -> set[str]:
    given = service.get("networks")
    if given is None:
        return {"default"}
    return {name for name, _ in given.items()} | {str(entry.value) for entry in given.each()}


def _filled_in_outside(service: Located, file: str) -> list[Finding]:
    """compose fills $NAME in before the container is there: a variable that only the container has is empty by then."""
    line = service.line
    variables = as_container(service, Marks(file)).get("env")
    given = {str(name.value) for entry in (variables.each() if variables else ()) if (name := entry.get("name"))}
    command = service.get("command")
    words = [command, *command.each()] if command is not None else []
    for word in words:
        names = [match["name"] or match["braced"] for match in FILLED_IN.finditer(word.text) if not match["how"]]
        inside = [name for name in dict.fromkeys(filter(None, names)) if name in given]
        if inside:
            message = (
                f"${inside[0]} is filled in by compose from its own surroundings, not from the service's environment"
            )
            return [warn("variables_are_set", message, Where(file, word.line or line), fix=f"$${inside[0]}")]
    return []


FILLED_IN = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?:(?P<how>:?[-?+])(?P<other>[^{}]*))?\})"
)


def filled_in(text: str, marks: Marks, line: int) -> str:
    """What compose puts in the place of its own variables: not known here, but for a default; $$ is a $ inside."""

    def value(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        if match["how"] in ("-", ":-"):
            return marks.default(match["other"])
        return marks.unknown(match[0], line)

    return FILLED_IN.sub(value, text)


def as_container(service: Located, marks: Marks) -> Located:
    """A service as Kubernetes would write its container: words and variables in lists."""
    words: list[Located] = []
    for key in ("entrypoint", "command"):
        held = service.get(key)
        if held is not None and isinstance(held.value, str):
            line = held.line + 1 if "\n" in held.text else held.line
            words += [Located(word, line, word) for word in _split(filled_in(held.value, marks, line))]
        elif held is not None:
            words += [replace(word, text=filled_in(word.text, marks, word.line)) for word in held.each()]
    variables: list[Located] = []
    given = service.get("environment")
    for entry in given.each() if given is not None else ():
        name, equals, value = str(entry.text or entry.value).partition("=")
        if equals:
            variables.append(variable(name, filled_in(value, marks, entry.line), entry.line))
    for name, entry in given.items() if given is not None else ():
        variables.append(variable(name, filled_in(entry.text, marks, entry.line), entry.line))
    line = service.line
    return Located({"command": Located(words, line), "env": Located(variables, line)}, line)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def container_of(service: Located, file: str) -> Container:
    """What a service says of its container."""

    def text(*path: str) -> str:
        held = service.get(*path)
        return str(held.value) if held is not None and not isinstance(held.value, (dict, list)) else ""

    lists = [held for key in ("devices", "volumes") if (held := service.get(key)) is not None]
    listed = [str(entry.value) for held in lists for entry in held.each()]
    ulimits = service.get("ulimits", "memlock")
    gpus = service.get("deploy", "resources", "reservations", "devices")
    ports = service.get("ports")
    return Container(
        file=file,
        line=service.line,
        network=text("network_mode"),
        has_networks=service.get("networks") is not None,
        publishes=bool(ports and ports.each()),
        shm=text("shm_size"),
        ipc=text("ipc"),
        is_privileged=text("privileged").lower() == "true",
        locks_memory=ulimits is not None or _adds(service),
        has_gpus=gpus is not None or text("runtime") == "nvidia" or service.get("gpus") is not None,
        devices=tuple(listed),
        words={"network": "network_mode: host", "shm": "shm_size: 16gb", "memlock": "ulimits: {memlock: -1}"},
    )


def _adds(service: Located) -> bool:
    rights = service.get("cap_add")
    return rights is not None and bool({str(held.value) for held in rights.each()} & {"IPC_LOCK", "ALL"})
