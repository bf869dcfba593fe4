"""What does a container that is started by hand (docker run, podman run, compose) lack for a job?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Unknown, firm, value_of, words
from preflight.launch.plan import Plan, fail, warn
from preflight.said import said

ENGINES = ("docker", "podman", "nvidia-docker")
# Options of `docker run` that stand alone; every other one has a value behind it.
FLAGS = frozenset(
    words(
        """
    -d --detach --rm -i -t -it -ti -dit -itd -id -di -td --interactive --tty --privileged --init --read-only -P
    --publish-all --no-healthcheck --oom-kill-disable --sig-proxy --disable-content-trust --replace --tls-verify -dt
    --rmi -idt -tid -dti -tdi
    """
    )
)


@dataclass(frozen=True)
class Container:
    """The options of one container, and how each one that may be missing is written there."""

    file: str
    line: int
    network: str
    publishes: bool
    shm: str
    ipc: str
    is_privileged: bool
    locks_memory: bool
    has_gpus: bool
    devices: tuple[str, ...]
    words: Mapping[str, str]
    image: str = ""
    has_networks: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    taken_along: tuple[str, ...] = ()  # variables of the shell outside, by -e NAME
    is_opaque: bool = False

    @property
    def where(self) -> Where:
        """File and line."""
        return Where(self.file, self.line)


VARIABLE = re.compile(r"\$\{?([A-Z][A-Z0-9_]*)\}?")
RUN_WORDS = {"network": "--network=host", "shm": "--shm-size=16g", "memlock": "--ulimit memlock=-1"}


def run_of(wrapper: tuple[str, ...], file: str, line: int) -> Container | None:
    """The container that `docker run` around a command starts; None where there is none."""
    names = [word.rpartition("/")[2] for word in wrapper]
    place = next(
        (at for at, name in enumerate(names[:-1]) if name in ENGINES and "run" in names[at + 1 : at + 3]), None
    )
    if place is None:
        return None
    given = wrapper[place + 1 + names[place + 1 :].index("run") + 1 :]
    options, at, opaque = _options(given)

    def last(*asked: str) -> str:
        return next((options[name][-1] for name in asked if name in options), "")

    limits, rights = options.get("--ulimit", []), options.get("--cap-add", [])
    pairs = [pair.partition("=") for name in ("-e", "--env") for pair in options.get(name, [])]
    return Container(
        file,
        line,
        image=given[at] if at < len(given) and not opaque else "",
        network=last("--network", "--net"),
        publishes="-p" in options or "--publish" in options,
        shm=last("--shm-size"),
        ipc=last("--ipc"),
        is_privileged="--privileged" in options,
        locks_memory=any(limit.startswith("memlock") for limit in limits) or bool({"IPC_LOCK", "ALL"} & set(rights)),
        has_gpus="--gpus" in options
        or last("--runtime") not in ("", "runc")
        or names[place] == "nvidia-docker"
        or any("infiniband" not in device for device in options.get("--device", [])),
        devices=tuple(word for name in ("--device", "-v", "--volume", "--mount") for word in options.get(name, [])),
        variables={name: value for name, equals, value in pairs if equals},
        taken_along=tuple(name for name, equals, _ in pairs if not equals),
        is_opaque=opaque or "--env-file" in options,
        words=RUN_WORDS,
    )


def _options(given: tuple[str, ...]) -> tuple[dict[str, list[str]], int, bool]:
    """The values of each option, the place of the word behind them, and whether a word may hold any option."""
    options: dict[str, list[str]] = {}
    opaque = False
    at = 0
    while at < len(given):
        word = given[at]
        if not word.startswith("-"):
            if word[:1] > "\uefff":  # not known: it may hold any option
                opaque = True
                at += 1
                continue
            break
        name, equals, value = word.partition("=")
        if name in FLAGS:
            value = "true"
        elif not equals and at + 1 < len(given):
            at += 1
            value = given[at]
        options.setdefault(name, []).append(value)
        at += 1
    return options, at, opaque


def trouble(container: Container, plan: Plan, *, has_peers_here: bool = False) -> Iterable[Finding]:
    """What keeps the ranks of a plan from each other, or slows them down, in such a container."""
    if container.is_opaque:
        return
    where, several = container.where, plan.spans_nodes and not has_peers_here
    bridge = container.network in ("", "bridge", "default") and not container.has_networks
    if several and bridge:
        ports = "; ports that are published are not those that NCCL and Gloo choose" if container.publishes else ""
        message = said(
            "{firm} nodes, and the container is behind Docker's bridge: no other node reaches it{ports}",
            firm(plan.nodes),
            ports,
        )
        yield fail("containers_share_the_network", message, where, plan.where, fix=container.words["network"])
    is_large = container.ipc in ("host", "shareable") or container.ipc.startswith("container:") or container.shm
    processes = value_of(plan.processes_per_node)
    if not is_large and ((processes or 1) > 1 or _counts_on_the_node(plan)) and not _mounts(container, "/dev/shm"):
        message = "64 MiB at /dev/shm, the default of a container: NCCL and data loaders of several processes need more"
        yield warn("containers_have_shared_memory", message, where, plan.where, fix=container.words["shm"])
    uses_rdma = any("infiniband" in device for device in container.devices) or _names_adapter(plan, container)
    if several and uses_rdma and not container.locks_memory and not container.is_privileged:
        message = "RDMA without --ulimit memlock=-1: ibv_reg_mr fails with Cannot allocate memory"
        yield warn("containers_lock_memory", message, where, plan.where, fix=container.words["memlock"])


def _mounts(container: Container, path: str) -> bool:
    return any(path in device for device in container.devices)


def _counts_on_the_node(plan: Plan) -> bool:
    processes = plan.processes_per_node
    return isinstance(processes, Unknown) and processes.expression in ("gpu", "auto")


def _names_adapter(plan: Plan, container: Container) -> bool:
    held = container.variables.get("NCCL_IB_HCA") or value_of(plan.environment.get("NCCL_IB_HCA")) or ""
    return bool(held)


def in_containers(plan: Plan) -> Iterable[Finding]:
    """The rule for the commands of scripts."""
    container = run_of(plan.wrapper, plan.where.file, plan.where.line)
    if container is None:
        return
    yield from trouble(container, plan)
    yield from _unset_inside(plan, container)
    left = [
        name
        for name, held in plan.environment.items()
        if name.startswith(("NCCL_", "GLOO_")) and name not in container.variables and held is not None
    ]
    given = {word for word in plan.wrapper if word in left}  # -e NAME hands the shell's value on
    lost = [name for name in left if name not in given and not _inside(plan, name)]
    if lost and not container.is_opaque:
        places = [held.where for name in lost if (held := plan.environment[name]) is not None]
        message = said("{lost}: exported outside, and a container sees only what -e hands it", ", ".join(lost))
        fix = " ".join(f"-e {name}" for name in lost)
        yield warn("containers_get_the_variables", message, container.where, *places, fix=fix)


def _unset_inside(plan: Plan, container: Container) -> Iterable[Finding]:
    """A variable that nothing gives the shell that works it out: the one in the container, or the one outside."""
    if container.is_opaque or not plan.spans_nodes:
        return
    lacking: dict[str, Where] = {}
    for held in (plan.node_rank, plan.master_address, plan.master_port):
        found = VARIABLE.fullmatch(held.expression) if isinstance(held, Unknown) else None
        if not isinstance(held, Unknown) or found is None:
            continue
        name = found[1]
        if held.in_container and name not in container.variables and name not in container.taken_along:
            lacking.setdefault(name, held.where)
        elif not held.in_container and name in container.variables and not held.hidden:
            message = said("{name} is worked out outside the container, and -e sets it inside alone: it is empty", name)
            fix = "bash -c '...', in single quotes"
            yield warn("containers_get_the_variables", message, held.where, container.where, fix=fix)
    if lacking:
        are, them = ("is", "it") if len(lacking) == 1 else ("are", "them")
        message = said(
            "{lacking} {are} worked out inside the container, and no -e gives {them} there: empty",
            ", ".join(lacking),
            are,
            them,
        )
        fix = " ".join(f"-e {name}" for name in lacking)
        yield warn("containers_get_the_variables", message, *lacking.values(), container.where, fix=fix)


def _inside(plan: Plan, name: str) -> bool:
    """Whether a shell inside the container sets the variable, on the line of the command or beyond."""
    held = plan.environment[name]
    return "bash" in plan.wraps and held is not None and held.where.line >= plan.where.line
