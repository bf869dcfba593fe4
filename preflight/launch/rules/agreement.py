"""Do the files of a job say the same where every node must say the same?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from preflight.launch.field import Field, Sourced
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.rules.groups import Group
from preflight.ledger.findings import Finding

FIELDS: tuple[tuple[str, Callable[[Plan], Field[Any]]], ...] = (
    ("number of nodes", lambda plan: plan.nodes),
    ("number of processes", lambda plan: plan.world_size),
    ("master address", lambda plan: plan.master_address),
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
        if name == "rendezvous id" and not any(plan.launcher.spelling.rendezvous_id for plan in group.plans):
            continue
        yield from _one_field(group, name, pick)
    for name in sorted({key for plan in group.plans for key in plan.settings if SETTINGS.fullmatch(key)}):
        yield from _one_field(group, name, lambda plan, name=name: plan.settings.get(name))  # type: ignore[misc]


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
    most = values.most_common(1)[0][0]
    places: dict[str, list[str]] = {}
    for found in known:
        places.setdefault(str(found.value), []).append(f"{found.file}:{found.line}")
    for plan in absent:
        places.setdefault("not set", []).append(plan.where.file)
    text = "; ".join(f"{value} in {', '.join(where[:4])}" for value, where in places.items())
    odd = [found.where for found in known if repr(found.value) != most] or [plan.where for plan in absent]
    rest = [found.where for found in known if repr(found.value) == most]
    yield fail(
        "fields_agree", f"{name} differs: {text}", *odd, *rest, fix=f"{name}: {most.strip(chr(39))} in every file"
    )


def programs_agree(group: Group) -> Iterable[Finding]:
    """Nodes that run different programs or arguments wait for each other's collectives."""
    if not group.is_set:
        return
    programs = {found.value for plan in group.plans if isinstance(found := plan.program, Sourced)}
    where = [plan.program.where for plan in group.plans if plan.program is not None]
    if len(programs) > 1 and len({NODE_NUMBER.sub("", program) for program in programs}) > 1:
        yield warn("programs_agree", f"the nodes run different programs: {', '.join(sorted(programs))}", *where)
        return
    texts = []
    for plan in group.plans:
        known = [found for found in plan.arguments if isinstance(found, Sourced)]
        if len(known) < len(plan.arguments) or plan.program is None:
            return
        texts.append(tuple(NODE_NUMBER.sub("#", found.value) if "/" in found.value else found.value for found in known))
    if len(set(texts)) > 1:
        common = set(texts[0]).intersection(*texts[1:])
        odd = sorted({word for text in texts for word in text if word not in common})
        message = f"the arguments of the program differ between the files: {' '.join(odd)[:200]}"
        yield warn("programs_agree", message, *where, fix="The same arguments in every file.")


GROUP_RULES = (fields_agree, programs_agree)
