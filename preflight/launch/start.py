"""How do a job's own files start another program in place of theirs, and why do some files start none?"""

from __future__ import annotations

from dataclasses import replace

from preflight.launch.address import address_of
from preflight.launch.field import Sourced, value_of, words
from preflight.launch.job import Start, Starting
from preflight.launch.launchers import LAUNCHERS, logs_in, row_of
from preflight.launch.plan import LaunchFiles, Plan
from preflight.launch.rules.groups import Group, groups
from preflight.said import said

# What the launcher or the shell tells each rank, and no layer of the environment may.
OF_A_RANK = words("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK MASTER_ADDR MASTER_PORT")


def starting_of(files: LaunchFiles) -> Starting:
    """The start that the files tell: of their first job, or of the one command that starts all nodes."""
    return replace(_starting_of(files), logs_in=any(map(logs_in, files.plans)))


def _starting_of(files: LaunchFiles) -> Starting:
    found = groups(files)
    if not found:
        others = [plan for plan in files.plans if plan.launcher.starts_all_nodes]
        return _by_one_command(others[0], files) if others else Starting()
    group = max(found, key=lambda group: (len(group.files), len(group.plans)))
    refusal = next(filter(None, map(_why_not, group.plans)), "")
    if refusal:
        return Starting(refusal=refusal)
    starts = _by_hand(group) if group.reads_rank else [_start(plan) for plan in sorted(group.plans, key=_node_rank)]
    return Starting(tuple(starts))


def _node_rank(plan: Plan) -> int:
    return value_of(plan.node_rank) or 0


def _at(plan: Plan) -> str:
    return f"{plan.where.file}:{plan.where.line}"


def _why_not(plan: Plan) -> str:
    """Why a plan is read and judged only; "" where it is started."""
    around = next((row for row in LAUNCHERS.values() if row.claims(plan)), plan.launcher)
    reason = around.refusal or (around.refusal_around if around is not plan.launcher else "")
    if not reason and value_of(plan.rendezvous) not in (None, "static", "c10d", "env"):
        reason = said("a rendezvous by {value_of} needs a server of its own", value_of(plan.rendezvous))
    reason = reason or row_of(plan).cannot_start(plan)
    return f"{_at(plan)}: {reason}" if reason else ""


def _by_one_command(plan: Plan, files: LaunchFiles) -> Starting:
    """A command that reaches the nodes by itself."""
    if plan.launcher.refusal:
        return Starting(refusal=f"{_at(plan)}: {plan.launcher.refusal}")
    return Starting(row_of(plan).starts_of(plan, _start(plan), files))


def _start(plan: Plan) -> Start:
    """The start of a node whose file gives one number to the whole node."""
    rank = plan.node_rank
    return Start(
        launcher=plan.launcher.started_as or plan.launcher.name,
        where=plan.where,
        processes=value_of(plan.processes_per_node) or 0,
        nodes=(value_of(plan.nodes) or 0) if plan.fewest_nodes in (None, plan.nodes) else 0,
        options=tuple(row_of(plan).kept_options(plan)),
        config=plan.config,
        address=address_of(plan),
        has_node_rank=isinstance(rank, Sourced) and rank.origin != "tool",
        rendezvous=value_of(plan.rendezvous) or "static",
        rendezvous_id=value_of(plan.rendezvous_id) or "preflight",
        environment=_environment(plan),
        needs_gpus=plan.setting("distributed_type") == "DEEPSPEED" or "use_deepspeed" in plan.settings,
    )


def _environment(plan: Plan) -> dict[str, str]:
    """What the file exports for every rank."""
    return {
        name: value.value
        for name, value in plan.environment.items()
        if isinstance(value, Sourced) and name not in OF_A_RANK and not name.startswith(("PET_", "PREFLIGHT_"))
    }


def _by_hand(group: Group) -> list[Start]:
    """The starts of files that number each process themselves; the file of the lowest rank is the first node's."""
    by_node: dict[tuple[str, int], list[Plan]] = {}
    for place, plan in enumerate(group.plans):
        # over ssh, or in a branch, each line is another node's
        is_alone = "ssh" in plan.wraps or plan.is_conditional
        by_node.setdefault((plan.where.file, place if is_alone else -1), []).append(plan)
    starts = []
    for plans in by_node.values():
        ranks = tuple(rank for plan in plans if (rank := value_of(plan.rank)) is not None)
        first = plans[0]
        starts.append(
            Start(
                first.launcher.name,
                first.where,
                processes=len(plans),
                nodes=1 if ranks else 0,
                address=address_of(first),
                ranks=ranks if len(ranks) == len(plans) else (),
                world_size=value_of(first.world_size) or 0,
                environment=_environment(first),
            )
        )
    return sorted(starts, key=lambda start: start.ranks)
