"""What do a LeaderWorkerSet and a StatefulSet ask for?"""

from __future__ import annotations

from dataclasses import replace

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced, firm
from preflight.launch.manifests import admission, pods, services
from preflight.launch.manifests.group import Group, group_of, number
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.located import Located
from preflight.said import said


def _claims(held: Located | None) -> tuple[str, ...]:
    """The names of the volumes that a set claims for each of its pods."""
    templates = held.get("volumeClaimTemplates") if held is not None else None
    named = (template.get("metadata", "name") for template in (templates.each() if templates else ()))
    return tuple(str(name.value) for name in named if name is not None)


def _in_a_set(
    groups: list[Group], held: Located | None, controller: str, file: str
) -> tuple[list[Group], list[Finding]]:
    """The groups with the volumes that their set claims for them, and what the cluster refuses of their pods."""
    wrong = [one for group in groups for one in admission.restarts(group.pod, controller, ("Always",), "Always", file)]
    return [replace(group, claims=_claims(held)) for group in groups], wrong


def leaderworkerset(document: Located, documents: list[Located], file: str) -> Answer:
    """Groups of one leader and `size` - 1 workers; every group is a job of its own."""
    del documents
    template = document.get("spec", "leaderWorkerTemplate")
    if template is None:
        return [], []
    size = number(template.get("size"), file, 1)
    worker, leader = template.get("workerTemplate"), template.get("leaderTemplate")
    if not isinstance(size, Sourced) or (leader is None and worker is None):
        return [], []
    rest = Sourced(max(size.value - 1, 0), file, size.line, size.origin)
    one = Sourced(1, file, size.line, "tool")
    groups = group_of(leader, one, "leader") + group_of(worker, rest if leader is not None else size, "worker")
    groups, refused = _in_a_set(groups, template, "LeaderWorkerSet", file)
    found, problems = pods.plans(groups, document, file, index="LWS_WORKER_INDEX", pods_of_a_job=size)
    problems.extend(one for plan in found for one in services.leaders_name(plan, document))
    return found, [*refused, *problems, *_server_fits(found, groups, size, file), *pods.against_gpus(found, groups)]


def _server_fits(found: list[Plan], groups: list[Group], size: Sourced[int], file: str) -> list[Finding]:
    """tensor x pipeline parallel processes on the GPUs of a group of pods."""
    gpus = [(firm(group.gpus(file)), firm(group.count)) for group in groups]
    have = sum((each or 0) * (count or 0) for each, count in gpus)
    problems: list[Finding] = []
    for plan in found:
        world = plan.world_size
        if (
            plan.launcher.name not in ("vllm", "sglang")
            or not isinstance(world, Sourced)
            or any(None in pair for pair in gpus)
        ):
            continue
        spelled = said(
            "{value} processes (tensor x pipeline parallel), and {value2} pods have {have} GPUs",
            world.value,
            size.value,
            have,
        )
        if world.value > have:
            problems.append(fail("processes_match_devices", spelled, world.where, size.where))
        elif world.value < have and "data parallel" not in plan.settings:
            message = said("{spelled}: {have} stay idle", spelled, have - world.value)
            problems.append(warn("processes_match_devices", message, world.where, size.where))
    return problems


def statefulset(document: Located, documents: list[Located], file: str) -> Answer:
    """Pods with ordinals in their names, which a headless service makes resolvable."""
    count = number(document.get("spec", "replicas"), file, 1)
    groups = group_of(document.get("spec", "template"), count, "pods")
    groups, refused = _in_a_set(groups, document.get("spec"), "StatefulSet", file)
    found, problems = pods.plans(groups, document, file, index="the ordinal in the pod's name", are_nodes=False)
    problems.extend(refused)
    service = document.get("spec", "serviceName")
    several = [plan for plan in found if plan.spans_nodes]
    if several:
        labels = document.get("spec", "template", "metadata", "labels")
        problems.extend(
            services.headless(
                service,
                several,
                documents,
                file,
                labels=labels,
                owner=document.get("metadata", "name"),
                count=count,
                namespace=document.get("metadata", "namespace"),
                pod=document.get("spec", "template", "spec"),
            )
        )
        problems.extend(found for plan in several for found in services.ordinals(plan, document, count))
        problems.extend(_one_by_one(document, file))
        problems.extend(pods.against_gpus(several, groups))
    return found, problems


def _one_by_one(document: Located, file: str) -> list[Finding]:
    """A StatefulSet starts its next pod when the one before is ready, unless it starts all at once."""
    policy, pod = document.get("spec", "podManagementPolicy"), document.get("spec", "template", "spec")
    held = pod.get("containers") if pod is not None else None
    probes = [probe for one in (held.each() if held else ()) if (probe := one.get("readinessProbe")) is not None]
    if not probes or (policy is not None and policy.value == "Parallel"):
        return []
    message = (
        "pods start one by one, each when the one before is ready: a probe that waits for all of them never passes"
    )
    fix = "podManagementPolicy: Parallel"
    return [warn("gang_is_the_whole_job", message, Where(file, probes[0].line), fix=fix)]
