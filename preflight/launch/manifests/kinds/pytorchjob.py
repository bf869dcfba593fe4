"""What does a PyTorchJob of the training operator ask for?"""

from __future__ import annotations

import re
from dataclasses import replace

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Field, Sourced, Unknown, firm, value_of, words
from preflight.launch.manifests import containers, pods, roles
from preflight.launch.manifests.group import Group, number, total
from preflight.launch.manifests.kinds.trainjob import OPERATOR_TORCH
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import Plan, fail
from preflight.launch.text.located import Located
from preflight.said import said

OPERATOR_JOB = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", *OPERATOR_TORCH)


OPERATOR_ELASTIC = words(
    """
    PET_RDZV_BACKEND PET_RDZV_ENDPOINT PET_RDZV_ID PET_NNODES PET_NPROC_PER_NODE
    PET_MAX_RESTARTS PET_RDZV_CONF
    """
)


def pytorchjob(document: Located, documents: list[Located], file: str) -> Answer:
    """A master and workers, or elastic ones, whom the operator gives ranks and an address."""
    del documents
    problems: list[Finding] = []
    groups: list[Group] = []
    elastic = document.get("spec", "elasticPolicy")
    specs = document.get("spec", "pytorchReplicaSpecs")
    for role, spec in specs.items() if specs else ():
        count = number(spec.get("replicas"), file, 1)
        pod = spec.get("template", "spec")
        if role == "Master" and (firm(count) or 1) != 1:
            where = Where(file, spec.get("replicas").line if spec.get("replicas") else spec.line)  # type: ignore[union-attr]
            problems.append(
                fail(
                    "master_is_one_pod",
                    said("Master has {value_of} replicas; the operator wants 1", value_of(count)),
                    where,
                    fix="replicas: 1",
                )
            )
        if pod is not None:
            groups.append(Group(pod, count, role, metadata=spec.get("template", "metadata")))
    given = OPERATOR_ELASTIC if elastic is not None else OPERATOR_JOB
    if elastic is None and groups and all(group.role != "Master" for group in groups):
        given = ("PYTHONUNBUFFERED",)
        if (firm(total(groups)) or 1) > 1 and specs is not None:
            message = "no Master and no elasticPolicy: the operator gives the pods neither MASTER_ADDR nor a rank"
            where = Where(file, specs.line)
            problems.append(
                fail("pods_know_their_rank", message, where, fix="A Master with replicas: 1, or elasticPolicy.")
            )
    problems.extend(containers.operators_containers(groups, file))
    plans, more = pods.plans(groups, document, file, operator=tuple(given), index="RANK")
    problems.extend(roles.names_a_pod(plans, document.get("metadata", "name"), groups))
    all_pods = total(groups)
    least = document.get("spec", "runPolicy", "schedulingPolicy", "minAvailable")
    problems.extend([*more, *pods.gang(least, all_pods, file)])
    problems.extend(_elastic(elastic, total(groups), file) if elastic is not None else ())
    nproc = number(document.get("spec", "nprocPerNode"), file)
    if nproc is not None:
        plans = [replace(plan, processes_per_node=nproc) if _asks_operator(plan) else plan for plan in plans]
    return plans, [*problems, *pods.against_gpus([_alone(plan) for plan in plans], groups)]


STARTS_OTHERS = re.compile(r"(?i)n_?proc|gpu|device|world|spawn|trainer\.|workers_per_node|launcher")


def _alone(plan: Plan) -> Plan:
    """A plain python is the one process of its pod, unless an option tells it of more."""
    words = [value_of(argument) or "" for argument in plan.arguments]
    if not plan.is_by_hand or plan.processes_per_node is not None or any(map(STARTS_OTHERS.search, words)):
        return plan
    return replace(plan, processes_per_node=Sourced(1, plan.where.file, plan.where.line, "tool"))


def _elastic(policy: Located, replicas: Field[int], file: str) -> list[Finding]:
    """As many pods as may take part, and a store of the rendezvous that somebody runs."""
    least, most = (number(policy.get(key), file) for key in ("minReplicas", "maxReplicas"))
    backend, found = policy.get("rdzvBackend"), []
    if isinstance(least, Sourced) and isinstance(most, Sourced) and least.value > most.value:
        message = said("minReplicas {value} is more than maxReplicas {value2}", least.value, most.value)
        return [fail("gang_is_the_whole_job", message, least.where, most.where)]
    if isinstance(most, Sourced) and isinstance(replicas, Sourced) and replicas.value > most.value:
        message = said(
            "{value} replicas and maxReplicas {value2}: the rest are never let in", replicas.value, most.value
        )
        fix = f"maxReplicas: {replicas.value}"
        found.append(fail("gang_is_the_whole_job", message, replicas.where, most.where, fix=fix))
    if backend is not None and str(backend.value).startswith("etcd") and policy.get("rdzvHost") is None:
        message = said(
            "rdzvBackend: {value} without rdzvHost: the operator names the first worker, which runs no etcd",
            backend.value,
        )
        found.append(fail("rendezvous_is_reached", message, Where(file, backend.line), fix="rdzvBackend: c10d"))
    return found


def _asks_operator(plan: Plan) -> bool:
    """Whether the operator's variables say how many processes a pod has."""
    held = plan.processes_per_node
    return held is None or (isinstance(held, Unknown) and "PET_NPROC_PER_NODE" in held.expression)
