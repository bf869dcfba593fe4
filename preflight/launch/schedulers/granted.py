"""Does the job count on the nodes and GPUs that PBS or LSF gives its script?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Sourced, firm
from preflight.launch.launchers.mpirun.command import MPIRUN
from preflight.launch.plan import STARTS_ALL, Granted, Plan, fail, warn
from preflight.said import said


def with_granted(plan: Plan, granted: Granted | None) -> Plan:
    """The plan in a script that gets this; mpirun takes the nodes that are there, where it does not say its own."""
    takes_them = plan.launcher is MPIRUN and plan.nodes is None and not isinstance(plan.world_size, Sourced)
    nodes = granted.nodes if granted is not None and takes_them else plan.nodes
    return replace(plan, granted=granted, nodes=nodes)


def granted_fits(plan: Plan) -> Iterable[Finding]:
    """No more nodes than the script gets, none that waits outside of the job, and no more processes than GPUs."""
    held = plan.granted
    is_counted = plan.launcher.has_agent or plan.launcher is MPIRUN
    if held is None or not is_counted or plan.is_conditional or plan.is_opaque:
        return
    yield from _nodes(plan, held)
    each, gpus = plan.processes_per_node, held.gpus
    if isinstance(each, Sourced) and isinstance(gpus, Sourced) and each.origin == "written" and each.value > gpus.value:
        message = said(
            "{value} process{s} on each node, and {system} gives it {value2} GPU{s2}",
            each.value,
            "es" * (each.value != 1),
            held.system,
            gpus.value,
            "s" * (gpus.value != 1),
        )
        fix = said("--nproc_per_node={value}, or {value2} GPUs in the directive", gpus.value, each.value)
        yield warn("processes_match_devices", message, each.where, gpus.where, fix=fix)


def _nodes(plan: Plan, held: Granted) -> Iterable[Finding]:
    nodes, most, exact = plan.nodes, held.most, held.nodes
    if not isinstance(nodes, Sourced) or nodes.origin != "written" or not isinstance(most, Sourced):
        return
    fewest = firm(plan.fewest_nodes) or nodes.value
    is_aside = plan.loop != "" or plan.in_background
    starts_others = bool(plan.wraps & STARTS_ALL) or plan.loop != ""
    message = said(
        "the job needs {value} node{s}, and the script asks {system} for",
        nodes.value,
        "s" * (nodes.value != 1),
        held.system,
    )
    if fewest > most.value:
        # Scripts of one node each may meet as one job; one that starts the others has all of them.
        tell = fail if starts_others or most.value > 1 else warn
        at_most = "" if exact is not None else "at most "
        yield tell(
            "nodes_are_granted",
            f"{message} {at_most}{most.value}",
            nodes.where,
            most.where,
            fix=said("{value} nodes", nodes.value),
        )
    elif isinstance(exact, Sourced) and nodes.value < exact.value and plan.launcher.has_agent and not is_aside:
        yield warn(
            "nodes_are_granted",
            said("{message} {value}: the others stay idle, or wait outside of the job", message, exact.value),
            nodes.where,
            exact.where,
            fix=f"{plan.launcher.field_names.nodes}={exact.value}",
        )
