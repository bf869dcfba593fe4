"""What does an MPIJob ask for?"""

from __future__ import annotations

from dataclasses import replace

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Field, Sourced, value_of
from preflight.launch.manifests import containers, grants, pods
from preflight.launch.manifests.group import Group, group_of, number
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.located import Located
from preflight.said import joined, said

# Volumes that the operator gives every pod: what starts here may mount them too.
OF_THE_OPERATOR = ("mpi-job-config", "ssh-auth")


def mpijob(document: Located, documents: list[Located], file: str) -> Answer:
    """One launcher pod that runs mpirun, and workers with `slotsPerWorker` slots each."""
    del documents
    roles = document.get("spec", "mpiReplicaSpecs")
    launcher, worker = (roles.get(role) if roles else None for role in ("Launcher", "Worker"))
    if launcher is None or worker is None:
        return [], []
    workers, slots = number(worker.get("replicas"), file, 1), number(document.get("spec", "slotsPerWorker"), file, 1)
    as_workers = _with_volumes(group_of(worker.get("template"), workers, "Worker"))
    as_launcher = _with_volumes(group_of(launcher.get("template"), None, "Launcher"))
    _, problems = pods.plans(as_workers, document, file, are_nodes=False)
    found, more = pods.plans(as_launcher, document, file, are_nodes=False)
    problems.extend(more)
    problems.extend(one for group in as_workers for one in containers.interfaces_are_there(group, found, file))
    problems.extend(one for group in as_workers for one in grants.sshd_may_chroot(group, file))
    placed = []
    gpus = as_workers[0].gpus(file) if as_workers else None
    for plan in found:
        if plan.launcher.name != "mpirun":
            placed.append(replace(plan, nodes=plan.nodes or workers))
            continue
        placed.append(replace(plan, nodes=workers, processes_per_node=slots))
        problems.extend(slots_are_filled(plan, workers, slots, gpus))
    if isinstance(gpus, Sourced) and isinstance(slots, Sourced) and slots.value > gpus.value > 0:
        message = said(
            "slotsPerWorker {value}, and a worker has {value2} GPU{s}: processes share a GPU",
            slots.value,
            gpus.value,
            "s" * (gpus.value != 1),
        )
        where = slots.where if slots.origin != "tool" else gpus.where
        fix, places = f"slotsPerWorker: {gpus.value}", [where, gpus.where]
        for plan in found:
            world = plan.world_size if plan.launcher.name == "mpirun" else None
            if isinstance(world, Sourced) and isinstance(workers, Sourced):
                fix = joined([fix, f"-np {gpus.value * workers.value}"], " and ")
                places.append(world.where)
        problems.append(fail("processes_match_devices", message, *places, fix=fix))
    elif isinstance(gpus, Sourced) and isinstance(slots, Sourced) and slots.value < gpus.value:
        message = said(
            "slotsPerWorker {value}, and a worker has {value2} GPUs; idle: {value3}",
            slots.value,
            gpus.value,
            gpus.value - slots.value,
        )
        where = slots.where if slots.origin != "tool" else gpus.where
        agents = any(plan.launcher.has_agent for plan in found)
        if not agents and any(plan.launcher.name == "mpirun" for plan in found):
            problems.append(
                warn("processes_match_devices", message, where, gpus.where, fix=f"slotsPerWorker: {gpus.value}")
            )
    return placed, problems


def _with_volumes(groups: list[Group]) -> list[Group]:
    return [replace(group, claims=OF_THE_OPERATOR) for group in groups]


def slots_are_filled(plan: Plan, workers: Field[int], slots: Field[int], gpus: Field[int] = None) -> list[Finding]:
    """mpirun starts no more processes than the workers have slots, and no fewer without leaving some out.

    A process for every GPU of the workers is what was meant: then it is the slots that are too few.
    """
    world = plan.world_size
    if not isinstance(world, Sourced) or not isinstance(workers, Sourced) or not isinstance(slots, Sourced):
        return []
    have = workers.value * slots.value
    places = [held.where for held in (world, workers, slots) if held.origin != "tool"]
    if world.value > have and "oversubscribe" not in plan.settings:
        message = said(
            "-np {value}, and {value2} worker{s} with {value3} slot{s2} have {have}: mpirun refuses it",
            world.value,
            workers.value,
            "s" * (workers.value != 1),
            slots.value,
            "s" * (slots.value != 1),
            have,
        )
        each = value_of(gpus) or 0
        is_meant = world.value == workers.value * each
        fix = f"slotsPerWorker: {each}" if is_meant else f"-np {have}"
        return [fail("mpi_slots_are_enough", message, *places, fix=fix)]
    if world.value < have:
        message = said(
            "-np {value}, and {value2} worker{s} with {value3} slot{s2} have {have}: some get no process",
            world.value,
            workers.value,
            "s" * (workers.value != 1),
            slots.value,
            "s" * (slots.value != 1),
            have,
        )
        return [warn("mpi_slots_are_enough", message, *places, fix=f"-np {have}")]
    return []
