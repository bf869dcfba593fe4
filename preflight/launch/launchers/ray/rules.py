"""Do the nodes of a Ray cluster meet, and does a job reach them?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding
from preflight.launch.address import is_loopback
from preflight.launch.field import Sourced, firm, value_of, words
from preflight.launch.launchers.ray.start import DASHBOARD_PORT, GCS_PORT
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.said import said

AWAY = frozenset(words("-d -dt -td -itd -dit --detach -f -fn -nf tmux screen"))  # started, and not waited for

OF_A_WORKER = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX")


def start_is_accepted(plan: Plan) -> Iterable[Finding]:
    """`ray start` is either of a head or of a node that joins it by HOST:PORT."""
    if "submit" in plan.settings or plan.is_opaque:
        return
    is_head, address = "head" in plan.settings, plan.settings.get("address")
    if is_head and address is not None:
        message = "--head starts a cluster, and --address joins one: ray start refuses both together"
        yield fail("ray_start_is_accepted", message, address.where, fix="Leave --address out on the head.")
    elif not is_head and address is None and "RAY_ADDRESS" not in plan.environment:
        message = "neither --head nor --address: ray start does not know whether to start a cluster or to join one"
        yield fail("ray_start_is_accepted", message, plan.where, fix="ray start --address=<head's address>:6379")
    elif isinstance(address, Sourced) and address.value != "auto" and plan.master_port is None:
        message = said("--address {value} has no port: ray start wants HOST:PORT", address.value)
        yield fail("ray_start_is_accepted", message, address.where, fix=f"--address={address.value}:{GCS_PORT}")


def others_are_started(files: LaunchFiles) -> Iterable[Finding]:
    """With --block the command ends with its node: what comes after it in the script is never reached."""
    for script in files.scripts:
        plans = [plan for plan in script.plans if plan.launcher.name == "ray" and "block" in plan.settings]
        for plan in plans:
            following = [later for later in script.plans if later.where.line > plan.where.line]
            if plan.in_background or plan.is_conditional or AWAY.intersection(plan.wrapper) or plan.is_of_a_manifest:
                continue
            behind = next((later for later in following if not later.is_conditional), None)
            if behind is not None:
                message = "--block keeps the script here as long as Ray runs, and no & follows it"
                where = (plan.where, behind.where)
                yield fail(
                    "every_node_is_started", message, *where, fix="put & after the command, or leave out --block"
                )


def nodes_meet(files: LaunchFiles) -> Iterable[Finding]:
    """Every node that joins names the head's address and port."""
    plans = [plan for plan in files.plans if plan.launcher.name == "ray" and "submit" not in plan.settings]
    heads = [plan for plan in plans if "head" in plan.settings]
    joining = [plan for plan in plans if "head" not in plan.settings and "address" in plan.settings]
    for plan in joining:
        address, port = plan.master_address, plan.master_port
        apart = {"srun", "ssh"} & plan.wraps  # a step of its own, which Slurm or ssh starts on another node
        with_head = any(head.where.file == plan.where.file for head in heads) and not apart
        home = isinstance(address, Sourced) and is_loopback(address.value) and address.origin == "written"
        if isinstance(address, Sourced) and home and not with_head:
            message = said("--address {value}: the node looks for the head on itself", address.value)
            yield fail("ray_nodes_meet", message, address.where, fix="--address=<head's address>:6379")
        if len(heads) != 1 or not isinstance(port, Sourced) or port.origin == "environment":
            continue
        listens = heads[0].master_port
        if isinstance(listens, Sourced) and listens.origin != "environment" and listens.value != port.value:
            message = said("a node joins at port {value}, and the head listens on {value2}", port.value, listens.value)
            fix = f"--address={value_of(address) or '<head>'}:{listens.value}"
            yield fail("ray_nodes_meet", message, port.where, listens.where, fix=fix)
    for head in heads:
        own = head.master_address
        elsewhere = [
            plan for plan in joining if (held := firm(plan.master_address)) is not None and not is_loopback(held)
        ]
        if isinstance(own, Sourced) and is_loopback(own.value) and own.origin == "written" and elsewhere:
            message = said(
                "--node-ip-address {value}: the head is reached from its own machine only, and others join it",
                own.value,
            )
            places = [plan.where for plan in elsewhere]
            yield fail("ray_nodes_meet", message, own.where, *places, fix="--node-ip-address=<the head's address>")


def one_head_is_started(plan: Plan) -> Iterable[Finding]:
    """A step of srun runs its command on all of its nodes: each of them would be the head of a cluster of its own."""
    slurm = plan.slurm
    if "head" not in plan.settings or "srun" not in plan.wraps or slurm is None or plan.is_one_step:
        return
    nodes, tasks = firm(slurm.number("nodes")), slurm.number("ntasks")
    if (nodes or 1) > 1 and (tasks is None or (firm(tasks) or 1) > 1) and not (plan.is_conditional or plan.is_opaque):
        message = said("srun starts a head on each of {nodes} nodes: every one is a cluster of its own", nodes)
        fix = 'srun --nodes=1 --ntasks=1 -w "$head" ray start --head ...; on the others --address=$head:6379'
        yield fail("ray_nodes_meet", message, plan.where, fix=fix)


def workers_get_the_variables(files: LaunchFiles) -> Iterable[Finding]:
    """The processes of a Ray cluster have the variables of their `ray start`, not those of the job that uses them."""
    for script in files.scripts:
        starts = [plan for plan in script.plans if plan.launcher.name == "ray" and "submit" not in plan.settings]
        for plan in script.plans if starts else ():
            is_job = plan.launcher.name == "vllm" or "submit" in plan.settings
            left = {
                name: held
                for name in OF_A_WORKER
                if is_job
                and isinstance(held := plan.environment.get(name), Sourced)
                and not any(name in start.environment for start in starts)
            }
            if left and "--runtime-env" not in plan.command:
                message = said(
                    "{names} is set for {launcher} and not for `ray start`, whose processes open the connections",
                    ", ".join(left),
                    "the job" if plan.launcher.name == "ray" else plan.launcher.name,
                )
                where = (*(held.where for held in left.values()), *(start.where for start in starts))
                fix = "Export them above `ray start`, on every node."
                yield warn("variables_are_exported", message, *where, fix=fix)


def submits_to_the_dashboard(files: LaunchFiles) -> Iterable[Finding]:
    """`ray job submit` talks to the dashboard (8265), not to the port that nodes join at."""
    heads = [plan for plan in files.plans if plan.launcher.name == "ray" and "head" in plan.settings]
    for plan in files.plans:
        address = plan.settings.get("address")
        if plan.launcher.name != "ray" or "submit" not in plan.settings or not isinstance(address, Sourced):
            continue
        match = re.fullmatch(r"https?://.*:(\d{1,5})/?", str(address.value))
        joined = {value_of(head.master_port) for head in heads} or {GCS_PORT}
        if match and int(match[1]) in joined:
            message = said(
                "--address {value}: nodes join at port {match}, jobs are submitted to the dashboard's",
                address.value,
                match[1],
            )
            fix = str(address.value).replace(f":{match[1]}", f":{DASHBOARD_PORT}")
            yield fail("ray_jobs_reach_the_dashboard", message, address.where, fix=f"--address={fix}")
