"""Do the files of a job say the same where every node must say the same?"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from preflight.judge.ledger.findings import Finding, Where
from preflight.knowledge.variables import judged as table
from preflight.launch.address import is_loopback, wrong_with
from preflight.launch.containers import run_of
from preflight.launch.field import Field, Sourced, Unknown, value_of
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.rules.groups import Group
from preflight.launch.text.marks import is_known
from preflight.said import joined, knowing, said


def _address(plan: Plan) -> Field[str]:
    """The address of rank 0; node 0 itself may call it localhost, and what is no address is another rule's."""
    address = value_of(plan.master_address)
    at_home = plan.written_rank == 0 and not plan.shares_host and address is not None and is_loopback(address)
    if plan.master_address is not None and address is not None and (at_home or wrong_with(address)):
        return Unknown(address, plan.master_address.file, plan.master_address.line)
    return plan.master_address


FIELDS: tuple[tuple[str, Callable[[Plan], Field[Any]]], ...] = (
    ("number of nodes", lambda plan: plan.nodes),
    ("number of processes", lambda plan: plan.world_size),
    ("master address", _address),
    ("master port", lambda plan: plan.master_port),
    ("rendezvous", lambda plan: plan.rendezvous),
    ("rendezvous id", lambda plan: plan.rendezvous_id),
    ("mixed precision", lambda plan: plan.mixed_precision),
)
# Of a configuration file; every other key may differ (debug, gpu_ids of a node).
SETTINGS = re.compile(
    r"(deepspeed_config|fsdp_config|megatron_lm_config|parallelism_config|fp8_config|dynamo_config)\..+|distributed_type"
    r"|rdzv_backend|same_network|use_cpu|zero_stage|rdzv_conf|max_restarts"
)
# accelerate's command line has defaults of its own for these two, which win over its file.
WITHOUT_EFFECT = frozenset({"rdzv_backend", "same_network"})
STEERING = ("NCCL_", "GLOO_", "TORCH_NCCL_")
NODE_NUMBER = re.compile(r"\d+")


def fields_agree(group: Group) -> Iterable[Finding]:
    """A field that differs makes two jobs out of one: none of them has all its nodes."""
    if not group.is_compared:
        return
    for name, pick in FIELDS:
        if group.reads_rank and name == "number of nodes":
            continue
        if name == "number of processes" and not group.plans[0].launcher.states_world_size:
            continue  # it follows from the number of each node, which may have fewer GPUs than the others
        if name == "rendezvous id" and not any(plan.launcher.field_names.rendezvous_id for plan in group.plans):
            continue
        yield from _one_field(group, name, pick)
    for name in sorted({key for plan in group.plans for key in plan.settings if SETTINGS.fullmatch(key)}):
        if name in WITHOUT_EFFECT and group.plans[0].launcher.name == "accelerate":
            yield from _without_effect(group, name)
            continue
        yield from _one_field(group, name, lambda plan, name=name: plan.settings.get(name))  # type: ignore[misc]


def _without_effect(group: Group, name: str) -> Iterable[Finding]:
    """A key that differs between the files of accelerate and is read by none; one that the commands give counts."""

    def of_command(plan: Plan) -> Field[Any]:
        held = plan.settings.get(name)
        return held if held is not None and plan.command and held.file == plan.where.file else None

    yield from _one_field(group, name, of_command)
    held = [
        value for plan in group.plans if of_command(plan) is None and (value := plan.settings.get(name)) is not None
    ]
    known = [value for value in held if isinstance(value, Sourced)]
    if len({str(value.value) for value in known}) > 1:
        listed = joined([said("{value} in {file}:{line}", value.value, value.file, value.line) for value in known[:4]])
        message = said(
            "{name} differs, with no effect: {listed}. accelerate takes it from the command line alone", name, listed
        )
        yield warn(
            "settings_have_an_effect",
            message,
            *(value.where for value in known),
            fix=said("--{name} in every command.", name),
        )


def _one_field(group: Group, name: str, pick: Callable[[Plan], Field[Any]]) -> Iterable[Finding]:
    known = [
        found for plan in group.plans if isinstance(found := pick(plan), Sourced) and found.origin != "environment"
    ]
    absent = [plan for plan in group.plans if pick(plan) is None and not plan.is_opaque]
    values = Counter(repr(found.value) for found in known)
    is_default = all(found.value in (False, None, "no", "static", "") for found in known)
    some_lack_it = bool(absent) and len(values) == 1 and len(known) + len(absent) == len(group.plans) and not is_default
    if len(values) < 2 and not some_lack_it:
        return
    leading = {value: count for value, count in values.items() if not is_loopback(value.strip("'"))} or values
    most = max(leading, key=lambda value: leading[value])  # what leads each node to itself is no advice
    held: dict[str, list[Where]] = {}
    places: dict[str, list[str]] = {}
    for found in known:
        held.setdefault(str(found.value), []).append(found.where)
        places.setdefault(str(found.value), []).append(f"{found.file}:{found.line}")
    for plan in absent:
        places.setdefault("not set", []).append(plan.where.file)
    text = joined([said("{value} in {where}", value, ", ".join(where[:4])) for value, where in places.items()])
    odd = [found.where for found in known if repr(found.value) != most] or [plan.where for plan in absent]
    rest = [found.where for found in known if repr(found.value) == most]
    names = group.plans[0].field_names
    written = {
        "master address": names.address,
        "master port": names.port,
        "number of nodes": names.nodes,
        "rendezvous id": names.rendezvous_id,
    }
    if name == "master port" and names.port == names.address:
        message = knowing(said("the port of {port} differs: {text}", names.port, text), held=held)
        yield fail("fields_agree", message, *odd, *rest,
                   fix=said("port {most} in {port} of every file", most, names.port))  # fmt: skip
        return
    name = written.get(name) or name
    most = most.strip(chr(39))
    yield fail(
        "fields_agree",
        knowing(said("{name} differs: {text}", name, text), held=held),
        *odd,
        *rest,
        fix=knowing(said("{name}: {strip} in every file", name, most), everywhere=f"{name}: {most}"),
    )


def exports_agree(group: Group) -> Iterable[Finding]:
    """NCCL does not compare its variables: ranks with different values wait for each other, or do not connect."""
    if not group.is_set:
        return
    names = dict.fromkeys(name for plan in group.plans for name in plan.environment if name.startswith(STEERING))
    for name in names:
        given = [plan.environment.get(name) for plan in group.plans]
        known = [held for held in given if isinstance(held, Sourced) and held.origin != "environment"]
        absent = [plan for plan in group.plans if plan.environment.get(name) is None]
        if len(known) + len(absent) < len(group.plans) or table.may_differ(name):
            continue
        values: dict[str, list[str]] = {}
        for held in known:
            values.setdefault(held.value.strip(), []).append(f"{held.file}:{held.line}")
        is_default = set(values) == {"0"} and name in ("NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE")
        if len(values) + bool(absent) < 2 or is_default:
            continue
        listed = joined([said("{value} in {places}", value, ", ".join(places[:4])) for value, places in values.items()])
        listed += said("; not set in {file}", ", ".join(plan.where.file for plan in absent[:4])) if absent else ""
        tell = fail if table.must_agree(name) else warn
        most = max(values, key=lambda value: len(values[value]))
        where = (held.where for held in known)
        yield tell(
            "exports_agree",
            said("{name} differs: {listed}", name, listed),
            *where,
            fix=knowing(said("export {name}={most} in every file", name, most), everywhere=f"export {name}={most}"),
        )


def _lies_elsewhere(program: str) -> bool:
    """Whether where it lies depends on the folder that it is started from, or on nothing."""
    return os.path.isabs(program) or program.startswith("..")


def programs_agree(group: Group) -> Iterable[Finding]:
    """Nodes that run different programs or arguments wait for each other's collectives."""
    if not group.is_set:
        return
    programs = {found.value for plan in group.plans if isinstance(found := plan.program, Sourced)}
    where = [plan.program.where for plan in group.plans if plan.program is not None]
    if len(programs) > 1 and len({NODE_NUMBER.sub("", program) for program in programs}) > 1:
        if len(set(map(os.path.basename, programs))) == 1 and any(map(_lies_elsewhere, programs)):
            return  # ../train.py of one folder, and /home/me/train.py: the same for all that the files say
        yield warn(
            "programs_agree", said("the nodes run different programs: {programs}", ", ".join(sorted(programs))), *where
        )
        return
    given: list[dict[str, str]] = []
    for plan in group.plans:
        spelled = [found.value if isinstance(found, Sourced) else UNKNOWN for found in plan.arguments]
        options = by_option(spelled)
        if plan.program is None or any(
            option.startswith("argument") for option, value in options.items() if value == UNKNOWN
        ):
            return
        given.append(options)
    if any(UNKNOWN in options.values() for options in given):  # `--flag $ARGS` may hold any option
        shared = set.intersection(*(set(options) for options in given))
        given = [{option: value for option, value in options.items() if option in shared} for options in given]
    odd = [
        option
        for option in dict.fromkeys(option for options in given for option in options)
        if len({_numberless(options.get(option)) for options in given}) > 1
        and not OF_A_NODE.fullmatch(option)
        and all(UNKNOWN not in options.get(option, "") for options in given)
    ]
    for option in odd[:8]:
        held: dict[str, list[str]] = {}
        for plan, options in zip(group.plans, given, strict=True):
            value = options.get(option)
            held.setdefault("absent" if value is None else value or "given", []).append(plan.where.file)
        listed = joined([said("{value} in {files}", value, ", ".join(files[:4])) for value, files in held.items()])
        message = said("{option} of the program differs: {listed}", option, listed)
        yield warn("programs_agree", message, *where, fix=said("The same {option} in every file.", option))


def images_agree(group: Group) -> Iterable[Finding]:
    """Nodes with different images run different versions of torch and NCCL."""
    held = [run_of(plan.wrapper, plan.where.file, plan.where.line) for plan in group.plans]
    images = {run.image: run for run in held if run is not None and run.image and is_known(run.image)}
    if group.is_set and len(images) > 1 and None not in held:
        listed = joined([said("{image} in {file}:{line}", image, run.file, run.line) for image, run in images.items()])
        where = (run.where for run in images.values())
        yield warn(
            "images_agree", said("the image differs: {listed}", listed), *where, fix="The same image on every node."
        )


UNKNOWN = "\0"  # an argument of the program whose text is not known here
# Options of a program that tell a node from the others, and are to differ.
OF_A_NODE = re.compile(
    r"-*(node|machine|local|global|process)?[-_.]?(rank|id|index|idx)|-*(host|host[-_]?(name|ip)|output.*log.*)"
)


def by_option(given: list[str]) -> dict[str, str]:
    """The arguments of a program by option: ``--seq 4096``, ``--seq=4096``, ``model.seq=4096``; the rest by place."""
    found: dict[str, str] = {}
    place = 0
    while place < len(given):
        name, equals, value = given[place].partition("=")
        following = given[place + 1] if place + 1 < len(given) else "-"
        if not name.startswith("-") and not equals:
            found[f"argument {place + 1}"] = name
        elif not equals and not re.match(r"--?[A-Za-z]", following):
            value, place = following, place + 1
            found[name] = value if following != "-" or place < len(given) else ""
        else:
            found[name] = value
        place += 1
    return found


def _numberless(value: str | None) -> str | None:
    """A path that names its node by a number is the same on all of them."""
    return NODE_NUMBER.sub("#", value) if value is not None and "/" in value else value


def processes_agree(group: Group) -> Iterable[Finding]:
    """torchrun takes another number of processes on every node; most who write two numbers meant one."""
    launcher = group.plans[0].launcher
    if not group.is_set or launcher.equal_ranks or not launcher.has_agent:
        return
    known = [held for plan in group.plans if isinstance(held := plan.processes_per_node, Sourced)]
    firmly = [held for held in known if held.origin == "written"]
    if len({held.value for held in firmly}) > 1:
        listed = joined([said("{value} in {file}:{line}", held.value, held.file, held.line) for held in firmly[:8]])
        message = said(
            "the number of processes differs between the nodes: {listed}. It is allowed where their GPUs differ", listed
        )
        fix = "one number in every file, that of the GPUs of a node"
        yield warn("processes_agree", message, *(held.where for held in firmly), fix=fix)


GROUP_RULES = (fields_agree, exports_agree, programs_agree, images_agree, processes_agree)
