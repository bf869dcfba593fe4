"""Do the pods of a job that are made from several templates, a master's and its workers', belong to one job?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from preflight.judge.ledger.findings import Finding
from preflight.launch.address import is_loopback
from preflight.launch.field import Field, Sourced, Unknown, value_of
from preflight.launch.manifests.group import Group
from preflight.launch.plan import Plan, fail
from preflight.launch.text.located import Located
from preflight.said import joined, said

FIRST = ("master", "leader")  # the roles whose one pod is node 0


def agree(by_role: Mapping[str, list[Plan]]) -> list[Finding]:
    """Each template gives its pods ranks of their own, and all of them meet at one address and port."""
    one_each = {role: plans[0] for role, plans in by_role.items() if len(plans) == 1}
    held = {role: plan for role, plan in one_each.items() if _takes_part(plan)}
    if len(held) < 2 or len({plan.launcher.name for plan in held.values()}) > 1:
        return []
    return [*_ranks(held), *_meeting_points(held)]


def _takes_part(plan: Plan) -> bool:
    """Whether a plan is one of several nodes, by a number and an address that its command names."""
    is_node = plan.launcher.has_agent or plan.launcher.numbers_processes or plan.node_rank is not None
    return is_node and not plan.is_opaque and not plan.is_conditional and value_of(plan.nodes) != 1


def _rank(plan: Plan) -> Field[int]:
    return plan.rank if plan.is_by_hand else plan.node_rank


def _ranks(held: Mapping[str, Plan]) -> Iterable[Finding]:
    ranks: dict[int, dict[str, Sourced[int]]] = {}
    name = next(iter(held.values())).field_names.rank
    for role, plan in held.items():
        rank = _rank(plan)
        is_static = not plan.launcher.rendezvous_gives_ranks or value_of(plan.rendezvous) == "static"
        if isinstance(rank, Sourced) and rank.origin == "written" and is_static:
            ranks.setdefault(rank.value, {})[role] = rank
    first = next((role for role in held if role.lower() in FIRST), None)
    others = {role: rank for role, rank in ranks.get(0, {}).items() if role.lower() not in FIRST}
    if first is not None and others and isinstance(_rank(held[first]), Unknown):
        message = said(
            "{name} 0 is given to the pods of {others}, and it is that of the pod of {first}",
            name,
            " and of ".join(others),
            first,
        )
        where = (rank.where for rank in others.values())
        yield fail(
            "ranks_are_distinct",
            message,
            *where,
            fix=said("{name} from the pod's own index, as in {first}", name, first),
        )
    for number, given in ranks.items():
        if len(given) > 1:
            message = said("{name} {number} is given to the pods of {given}", name, number, " and of ".join(given))
            where = (rank.where for rank in given.values())
            yield fail("ranks_are_distinct", message, *where, fix=said("{name} of its own in each of them", name))


def _meeting_points(held: Mapping[str, Plan]) -> Iterable[Finding]:
    names = next(iter(held.values())).field_names
    addresses = {role: plan.master_address for role, plan in held.items()}
    ports = {role: plan.master_port for role, plan in held.items()}
    for name, given in ((names.address, addresses), (names.port, ports)):
        known = {role: value for role, value in given.items() if _is_compared(value)}
        if len({str(value_of(value)) for value in known.values()}) > 1:
            listed = joined([said("{value_of} in {role}", value_of(value), role) for role, value in known.items()])
            where = (value.where for value in known.values() if value is not None)
            yield fail(
                "fields_agree",
                said("{name} differs: {listed}", name, listed),
                *where,
                fix=said("One {name} in every template.", name),
            )


def _is_compared(value: Field[str] | Field[int]) -> bool:
    """Whether a value is written down; what leads home, as node 0 may well have it, is another rule's."""
    return isinstance(value, Sourced) and value.origin == "written" and not is_loopback(str(value.value))


def names_a_pod(plans: Iterable[Plan], own: Located | None, groups: Iterable[Group]) -> list[Finding]:
    """An address that looks like the name of a pod of such a job is that of one of this job's pods."""
    by_role = {group.role.lower(): group for group in groups}
    if own is None or not by_role or any(group.pod.get("hostNetwork") is not None for group in by_role.values()):
        return []  # on the hosts' network the address may be a host's, which may be called worker-3
    looks = re.compile(rf".+-({'|'.join(map(re.escape, by_role))})-\d+")
    right = [f"{own.text}-{role}-0" for role in by_role]
    problems = []
    for plan in plans:
        address = plan.master_address
        if not isinstance(address, Sourced) or address.origin != "written":
            continue
        first = address.value.split(".")[0]
        is_ours = first.startswith(tuple(name.removesuffix("0") for name in right))
        if looks.fullmatch(first) and not is_ours:
            message = said(
                "MASTER_ADDR {value} is not a pod of {text}; the first ones are {right}",
                address.value,
                own.text,
                ", ".join(right),
            )
            fix = f"MASTER_ADDR: {right[0]}"
            problems.append(fail("headless_service_is_there", message, address.where, fix=fix))
    return problems
