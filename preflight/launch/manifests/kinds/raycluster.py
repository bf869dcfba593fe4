"""What do KubeRay's RayCluster and RayJob ask for?"""

from __future__ import annotations

import re
from dataclasses import replace

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced
from preflight.launch.manifests import pods
from preflight.launch.manifests.group import Group, group_of, number
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import fail
from preflight.launch.resources.promises import number as sizes_of
from preflight.launch.resources.promises import sized
from preflight.launch.text import grammar
from preflight.launch.text.located import Located
from preflight.said import said


def ray_cluster(document: Located, documents: list[Located], file: str) -> Answer:
    """The head and the groups of workers of KubeRay; the operator starts Ray in them."""
    del documents
    spec = document.get("spec", "rayClusterSpec") or document.get("spec", "rayClusterConfig") or document.get("spec")
    if spec is None:
        return [], []
    head = spec.get("headGroupSpec")
    groups = group_of(head.get("template") if head else None, Sourced(1, file, document.line, "tool"), "head")
    workers = spec.get("workerGroupSpecs")
    for worker in workers.each() if workers else []:
        groups += group_of(worker.get("template"), number(worker.get("replicas"), file, 1), "workers")
    problems = [*_versions(groups, file), *_gpus_of_entrypoint(document, spec, groups, file)]
    problems += _commands_of_entrypoint(document, file)
    for part in (head, *(workers.each() if workers else ())):
        given = part.get("rayStartParams") if part is not None else None
        problems.extend(_gpus_of_ray(part, file) if part is not None else ())
        for name, held in given.items() if given is not None else ():
            if isinstance(held.value, (int, float)):
                message = said(
                    "{name}: {text} is a bare value, and rayStartParams holds texts: the cluster refuses it",
                    name,
                    held.text,
                )
                problems.append(
                    fail(
                        "variables_are_texts",
                        message,
                        Where(file, held.line),
                        fix=said('{name}: "{text}"', name, held.text),
                    )
                )
    mounted = [replace(group, knows_volumes=False) for group in groups]  # KubeRay adds a volume at /dev/shm
    found, more = pods.plans(mounted, document, file)
    return found, [*problems, *more]


def _gpus_of_ray(part: Located, file: str) -> list[Finding]:
    """Ray starts as many workers as it was told that a pod has GPUs, so it must be told what the pod has."""
    told = number(part.get("rayStartParams", "num-gpus"), file)
    groups = group_of(part.get("template"), Sourced(1, file, part.line, "tool"), "pod")
    have = groups[0].gpus(file) if groups else None
    if not isinstance(told, Sourced) or not isinstance(have, Sourced) or told.value <= have.value:
        return []
    message = said(
        "num-gpus {value}, and a pod has {value2}: Ray hands out GPUs that are not there", told.value, have.value
    )
    return [fail("processes_match_devices", message, told.where, have.where, fix=f'num-gpus: "{have.value}"')]


def _gpus_of_entrypoint(document: Located, spec: Located, groups: list[Group], file: str) -> list[Finding]:
    """The program of a RayJob waits for GPUs that no pod of its cluster has until it times out."""
    entry, grows = document.get("spec", "entrypoint"), spec.get("enableInTreeAutoscaling")
    counts = [group.count for group in groups]
    each = [group.gpus(file) for group in groups]
    is_known = all(isinstance(count, Sourced) for count in counts) and any(isinstance(held, Sourced) for held in each)
    if entry is None or not is_known or (grows is not None and grows.value is True):
        return []
    pairs = [(count, held) for count, held in zip(counts, each, strict=True) if isinstance(held, Sourced)]
    have = sum(count.value * held.value for count, held in pairs if isinstance(count, Sourced))
    words = str(entry.value).split()
    problems = []
    for program in sized(words):
        nodes, gpus = (sizes_of(words, key) or default for key, default in (program.nodes, program.gpus))
        if nodes * gpus > have:
            by = f"{program.nodes[0]} x {program.gpus[0]}"
            message = said(
                "{by} counts on {count} GPUs, and the pods of the cluster have {have}", by, nodes * gpus, have
            )
            problems.append(fail("resources_are_enough", message, Where(file, entry.line), pairs[-1][1].where))
    return problems


def _commands_of_entrypoint(document: Located, file: str) -> list[Finding]:
    """The entrypoint of a RayJob is one command: what stands behind it runs in the pod that submits the job.

    KubeRay puts the entrypoint behind `ray job submit --` in a line of bash; with `submissionMode: HTTPMode` Ray gets
    it as it is.
    """
    entry, mode = document.get("spec", "entrypoint"), document.get("spec", "submissionMode")
    if entry is None or not isinstance(entry.value, str) or (mode is not None and mode.value == "HTTPMode"):
        return []
    behind = grammar.behind_the_first(entry.value)
    if not behind:
        return []
    message = said(
        "entrypoint: {behind} runs in the pod that submits the job, not in the cluster: it ends `ray job submit`",
        behind,
    )
    fix = said("Put all of it into one program, or into one word: bash -c '...'.")
    return [fail("entrypoint_runs_in_the_cluster", message, Where(file, entry.line), fix=fix)]


OF_RAY = re.compile(r"(?:.*/)?ray(?:-ml|-llm)?:(\d+\.\d+\.\d+)\b.*")


def _versions(groups: list[Group], file: str) -> list[Finding]:
    """Ray's head refuses a worker of another version."""
    found: dict[str, Where] = {}
    for group in groups:
        for container in group.containers:
            image = container.get("image")
            version = OF_RAY.fullmatch(str(image.value)) if image is not None else None
            if image is not None and version is not None:
                found.setdefault(version[1], Where(file, image.line))
    if len(found) < 2:
        return []
    message = said("Ray {found} in one cluster: the head refuses a worker of another version", " and ".join(found))
    return [fail("versions_are_the_same", message, *found.values(), fix="One image for head and workers.")]
