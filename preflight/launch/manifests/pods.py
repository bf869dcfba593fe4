"""Which starts do groups of pods hold, and do they fit the number of pods and their GPUs?"""

from __future__ import annotations

import re
from dataclasses import replace

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.commands import Context, plan_of
from preflight.launch.field import Field, Sourced, Unknown, firm, value_of, written
from preflight.launch.launchers.kubernetes import KUBERNETES
from preflight.launch.manifests import indices, roles
from preflight.launch.manifests.containers import interfaces_are_there, pod_problems
from preflight.launch.manifests.group import Group, number, total
from preflight.launch.manifests.programs import program_of
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.located import Located
from preflight.launch.text.marks import Marks
from preflight.said import said

COUNTED = re.compile(r"\$[({]?(PET_NNODES|WORLD_SIZE)[)}]?")
Answer = tuple[list[Plan], list[Finding]]


def plans(
    groups: list[Group],
    document: Located,
    file: str,
    *,
    operator: tuple[str, ...] = (),
    index: str = "JOB_COMPLETION_INDEX",
    are_nodes: bool = True,
    pods_of_a_job: Field[int] = None,
    around: str = "kubernetes",
) -> Answer:
    """The plans of the groups' commands; variables that the operator sets are unknown, not absent.

    Without an operator a pod knows which one it is by `index`. `are_nodes`: the pods are the nodes of a job, whose
    commands must fit their number, `pods_of_a_job` where it is not all of them. `around` is what starts them.
    """
    found: list[Plan] = []
    problems: list[Finding] = []
    pods, is_kubernetes = pods_of_a_job or total(groups), around == "kubernetes"
    by_group: dict[str, list[Plan]] = {}
    for group in groups:
        context, plans_of_group = Context(Marks(file)), []
        for container in group.containers:
            context = Context(Marks(file))
            commands, of_form = program_of(container, context.marks, file, operator)
            problems.extend(of_form)
            for command in commands:
                plan = plan_of(command, context)
                if plan is not None:
                    plans_of_group.append(_placed(plan, pods if are_nodes else None, operator, around))
            problems.extend(context.problems)
        several = (firm(pods) or 1) > 1 or any(plan.spans_nodes for plan in plans_of_group)
        problems.extend(pod_problems(group, file, several=several))
        if several and is_kubernetes:
            problems.extend(interfaces_are_there(group, plans_of_group if are_nodes else [], file))
        if (firm(group.count) or 1) > 1:  # where the operator gives ranks, one that the command names wins
            alike = [plan for plan in plans_of_group if "PET_NODE_RANK" not in operator or written(plan.node_rank)]
            problems.extend(found for plan in alike for found in numbered_alike(plan, index))
            ranked = plans_of_group if is_kubernetes else ()
            problems.extend(found for plan in ranked for found in indices.of_index(plan, group, index, operator))
        found.extend(plans_of_group)
        by_group[group.role] = plans_of_group
    has_gpus = any(group.gpus(file) is not None for group in groups)
    if is_kubernetes and not found and has_gpus and pods is not None and are_nodes:
        found.append(Plan(KUBERNETES, Where(file, document.line), "all nodes", nodes=pods))
    if are_nodes:
        problems.extend(roles.agree(by_group))
        problems.extend(counted_right(found, pods, operator, "pods" if is_kubernetes else "nodes"))
    return found, list(dict.fromkeys(problems))


def numbered_alike(plan: Plan, index: str) -> list[Finding]:
    """All pods of a template run one command: a rank that it leaves out, or spells out, is the same in all of them."""
    static = isinstance(plan.rendezvous, Sourced) and plan.rendezvous.value == "static"
    if not plan.launcher.has_agent or not plan.spans_nodes or not static or plan.is_opaque or plan.is_conditional:
        return []
    rank, option = plan.node_rank, plan.launcher.field_names.rank_option
    if isinstance(rank, Unknown) or plan.is_standalone:
        return []
    place = rank.where if isinstance(rank, Sourced) and rank.origin == "written" else plan.where
    what = "pod" if "kubernetes" in plan.wraps else "node"
    how = (
        said("{option} {value} in every {what}", option, rank.value, what)
        if place is not plan.where and rank is not None
        else said("no {option}", option)
    )
    number = rank.value if place is not plan.where and rank is not None else 0
    message = said(
        "{how}, and nothing gives the {what}s a node rank: every {what} becomes node {number}", how, what, number
    )
    fix = f"{option}=${index}" if index.isupper() else f"{option}={index}"
    return [fail("static_rendezvous_has_node_ranks", message, place, fix=fix)]


def _placed(plan: Plan, pods: Field[int], operator: tuple[str, ...], around: str) -> Plan:
    nodes = plan.nodes
    by_itself = (
        nodes is None and plan.start == "all nodes"
    )  # a server on Ray's nodes, a job for a cluster that is there
    if (nodes is None and not by_itself) or (
        isinstance(nodes, Sourced) and nodes.origin == "tool" and "PET_NNODES" in operator
    ):
        nodes = pods
    if isinstance(nodes, Unknown) and COUNTED.fullmatch(nodes.expression) and pods is not None:
        nodes = pods if nodes.expression.strip("${()}") in operator else nodes  # the operator counts them
    return replace(plan, start="all nodes", nodes=nodes, wrapper=(around, *plan.wrapper))


def counted_right(found: list[Plan], pods: Field[int], operator: tuple[str, ...], what: str) -> list[Finding]:
    """The number of nodes that a command names is the number of pods."""
    problems = []
    count = firm(pods)
    for plan in found:
        nodes = plan.nodes
        if (
            count is None
            or not isinstance(nodes, Sourced)
            or not isinstance(pods, Sourced)
            or not plan.launcher.has_agent
            or (plan.launcher.states_world_size and nodes.origin != "written")
        ):
            continue
        fewest, option = firm(plan.fewest_nodes) or nodes.value, plan.launcher.field_names.nodes
        option = (
            f"--{option}" if option[:1].islower() else option
        )  # a key of accelerate's file, as its command takes it
        if nodes.origin == "tool" and "PET_NNODES" not in operator and count > 1:
            message = said(
                "{name} without {option}: each of the {count} {what} becomes a world of its own",
                plan.launcher.name,
                option,
                count,
                what,
            )
            problems.append(
                fail(
                    "nodes_are_counted_right",
                    message,
                    plan.where,
                    pods.where,
                    fix=f"{option}={count}",
                )
            )
        elif nodes.origin == "written" and not fewest <= count <= max(nodes.value, fewest):
            message = said("{option} {value}, and the manifest starts {count} {what}", option, nodes.value, count, what)
            problems.append(
                fail(
                    "nodes_are_counted_right",
                    message,
                    nodes.where,
                    pods.where,
                    fix=f"{option}={count}",
                )
            )
    return problems


def against_gpus(found: list[Plan], groups: list[Group]) -> list[Finding]:
    """As many processes in a pod as it has GPUs."""
    problems = []
    for plan in found:
        what = "a pod" if "kubernetes" in plan.wraps else "a node"
        gpus = [group.gpus(plan.where.file) for group in _of_its_template(plan, groups)]
        known = {value_of(count) for count in gpus if count is not None}
        processes = plan.processes_per_node
        if len(known) != 1 or len(gpus) != sum(count is not None for count in gpus):
            continue
        (have,) = known
        place = gpus[0]
        if not isinstance(processes, Sourced) or not isinstance(place, Sourced) or have is None:
            continue
        if processes.value > have > 0:
            message = said(
                "{value} process{s} in {what} with {have} GPU{s2}",
                processes.value,
                "es" * (processes.value != 1),
                what,
                have,
                "s" * (have != 1),
            )
            problems.append(
                fail("processes_match_devices", message, processes.where, place.where, fix=f"--nproc_per_node={have}")
            )
        elif processes.value < have:
            message = said(
                "{value} process{s} in {what} with {have} GPUs; idle: {have2}",
                processes.value,
                "es" * (processes.value != 1),
                what,
                have,
                have - processes.value,
            )
            fix = f"{'torchrun ' if plan.is_by_hand else ''}--nproc_per_node={have}"
            problems.append(warn("processes_match_devices", message, processes.where, place.where, fix=fix))
    return problems


def _of_its_template(plan: Plan, groups: list[Group]) -> list[Group]:
    """The groups whose template holds the plan: the last ones that begin above it, of one pod where YAML repeats it."""
    above = [group.pod.line for group in groups if group.pod.line <= plan.where.line]
    return [group for group in groups if above and group.pod.line == max(above)] or groups


def of_its_template(found: list[Plan], group: Group, groups: list[Group]) -> list[Plan]:
    """The plans that the pods of one group run."""
    return [plan for plan in found if any(held is group for held in _of_its_template(plan, groups))]


def gang(least: Located | None, total: Field[int], file: str, *, is_one_job: bool = True) -> list[Finding]:
    """The pods that must be there together are all of them, where they are ranks of one job."""
    wanted = number(least, file)
    if not isinstance(wanted, Sourced) or not isinstance(total, Sourced) or wanted.value == total.value:
        return []
    if wanted.value > total.value:
        message = said(
            "minAvailable {value} is more than the {value2} pods of the job: it never starts", wanted.value, total.value
        )
        return [fail("gang_is_the_whole_job", message, wanted.where, fix=f"minAvailable: {total.value}")]
    if not is_one_job:
        return []
    message = said(
        "minAvailable {value} of {value2} pods: a part may start and wait for the rest", wanted.value, total.value
    )
    return [warn("gang_is_the_whole_job", message, wanted.where, fix=f"minAvailable: {total.value}")]
