"""What do the job manifests of Kubernetes ask for: PyTorchJob, TrainJob, JobSet, Indexed Job and those of `sets`?"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from preflight.launch.field import Field, Sourced, Unknown, firm, value_of, words
from preflight.launch.launchers.kubernetes import KUBERNETES
from preflight.launch.manifests import admission, containers, indices, pods, policies, roles, services, sets
from preflight.launch.manifests.documents import unwrapped
from preflight.launch.manifests.group import Group, number, total
from preflight.launch.manifests.pods import Answer
from preflight.launch.manifests.programs import mounted
from preflight.launch.plan import Plan, Skip, fail
from preflight.launch.text.located import Located
from preflight.ledger.findings import Finding, Where

# Filled in by whoever starts the pods' programs; what a file says of them is no template.
RUN_BY_A_SHELL = frozenset({"command", "args", "env", "annotations", "labels", "description", "data", "stringData"})
UNFILLED = re.compile(r"\$\{?[A-Za-z_]\w*\}?")
OPERATOR_TORCH = tuple(
    f"PET_{name}" for name in ["NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"]
)
OPERATOR_JOB = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", *OPERATOR_TORCH)
OPERATOR_ELASTIC = words(
    """
    PET_RDZV_BACKEND PET_RDZV_ENDPOINT PET_RDZV_ID PET_NNODES PET_NPROC_PER_NODE
    PET_MAX_RESTARTS PET_RDZV_CONF
    """
)


# How the pods of a Job may be restarted.
OF_A_JOB = ("Never", "OnFailure")


def read(documents: list[Located], file: str) -> tuple[list[Plan], list[Skip], list[Finding]]:
    """The plans of a manifest, or one skip that says why it has none."""
    documents = unwrapped(documents)
    unfilled = next((found for document in documents for found in _unfilled(document)), None)
    if unfilled is not None:
        return [], [Skip(file, unfilled.line, f"an unrendered template: {unfilled.text[:60]} is not filled in")], []
    documents = mounted(documents)
    plans: list[Plan] = []
    problems: list[Finding] = []
    seen: list[str] = []
    for document in documents:
        kind = document.get("kind")
        name = str(kind.value) if kind is not None else "no kind"
        seen.append(name)
        if name in KINDS:
            found, more = KINDS[name](document, documents, file)
            plans.extend(found)
            problems.extend([*more, *admission.types_fit(document, file)])
            if any(plan.spans_nodes for plan in found):
                problems.extend(policies.between_pods(documents, document, file))
    if not any(name in KINDS for name in seen):
        wanted = ", ".join(KINDS)
        kinds = ", ".join(dict.fromkeys(seen))
        return [], [Skip(file, documents[0].line, f"kind {kinds}: not one of {wanted}")], []
    if not plans and not problems:
        kinds = ", ".join(dict.fromkeys(name for name in seen if name in KINDS))
        return [], [Skip(file, documents[0].line, f"kind {kinds}: no command of a known launcher")], []
    return plans, [], problems


def _unfilled(held: Located) -> list[Located]:
    """Values of a manifest's own fields that a template engine has yet to fill in."""
    if isinstance(held.value, dict):
        return [found for key, inner in held.items() if key not in RUN_BY_A_SHELL for found in _unfilled(inner)]
    if isinstance(held.value, list):
        return [found for inner in held.each() for found in _unfilled(inner)]
    return [held] if isinstance(held.value, str) and UNFILLED.fullmatch(held.value.strip()) else []


def _pytorchjob(document: Located, documents: list[Located], file: str) -> Answer:
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
                    f"Master has {value_of(count)} replicas; the operator wants 1",
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
    return plans, [*problems, *pods.against_gpus(plans, groups)]


def _elastic(policy: Located, replicas: Field[int], file: str) -> list[Finding]:
    """As many pods as may take part, and a store of the rendezvous that somebody runs."""
    least, most = (number(policy.get(key), file) for key in ("minReplicas", "maxReplicas"))
    backend, found = policy.get("rdzvBackend"), []
    if isinstance(least, Sourced) and isinstance(most, Sourced) and least.value > most.value:
        message = f"minReplicas {least.value} is more than maxReplicas {most.value}"
        return [fail("gang_is_the_whole_job", message, least.where, most.where)]
    if isinstance(most, Sourced) and isinstance(replicas, Sourced) and replicas.value > most.value:
        message = f"{replicas.value} replicas and maxReplicas {most.value}: the rest are never let in"
        fix = f"maxReplicas: {replicas.value}"
        found.append(fail("gang_is_the_whole_job", message, replicas.where, most.where, fix=fix))
    if backend is not None and str(backend.value).startswith("etcd") and policy.get("rdzvHost") is None:
        message = (
            f"rdzvBackend: {backend.value} without rdzvHost: the operator names the first worker, which runs no etcd"
        )
        found.append(fail("rendezvous_is_reached", message, Where(file, backend.line), fix="rdzvBackend: c10d"))
    return found


def _asks_operator(plan: Plan) -> bool:
    """Whether the operator's variables say how many processes a pod has."""
    held = plan.processes_per_node
    return held is None or (isinstance(held, Unknown) and "PET_NPROC_PER_NODE" in held.expression)


def _trainjob(document: Located, documents: list[Located], file: str) -> Answer:
    trainer = document.get("spec", "trainer")
    if trainer is None:
        return [], []
    count = number(trainer.get("numNodes"), file, None)
    own = {**trainer.mapping(), "resources": trainer.mapping().get("resourcesPerNode", Located({}, trainer.line))}
    runtime = _runtime(document, documents)
    pod = _pod_of_runtime(runtime)
    known = next(iter(pod.mapping()["containers"].each()), None) if pod is not None else None
    container = Located({**(known.mapping() if known is not None else {}), **own}, trainer.line)
    held = {**(pod.mapping() if pod is not None else {}), "containers": Located([container], trainer.line)}
    # a runtime that is not in the file brings volumes of its own
    group = Group(Located(held, trainer.line), count, "trainer", knows_volumes=pod is not None)
    plans, problems = pods.plans([group], document, file, operator=OPERATOR_TORCH)
    nproc = number(trainer.get("numProcPerNode"), file)
    if nproc is not None:
        plans = [replace(plan, processes_per_node=nproc) for plan in plans]
    return plans, [*problems, *_given_by_torch(trainer, file), *pods.against_gpus(plans, [group])]


def _runtime(document: Located, documents: list[Located]) -> Located | None:
    """The runtime in the same file that a TrainJob refers to."""
    wanted = document.get("spec", "runtimeRef", "name")
    for held in documents:
        kind, name = held.get("kind"), held.get("metadata", "name")
        is_one = kind is not None and str(kind.value).endswith("TrainingRuntime")
        if is_one and wanted is not None and name is not None and name.text == wanted.text:
            return held
    return None


def _pod_of_runtime(runtime: Located | None) -> Located | None:
    """The pod of a runtime that has one job, the training's."""
    jobs = runtime.get("spec", "template", "spec", "replicatedJobs") if runtime is not None else None
    held = jobs.each() if jobs is not None else []
    pod = held[0].get("template", "spec", "template", "spec") if len(held) == 1 else None
    return pod if pod is not None and pod.get("containers", 0) is not None else None


def _given_by_torch(trainer: Located, file: str) -> list[Finding]:
    """The variables by which the controller tells torchrun of the nodes are not the user's to set."""
    env = trainer.get("env")
    names = [name for entry in (env.each() if env is not None else ()) if (name := entry.get("name")) is not None]
    return [
        fail(
            "manifest_is_accepted",
            f"{name.text} is set by the controller: the cluster refuses a TrainJob that sets it",
            Where(file, name.line),
            fix="numNodes and numProcPerNode of the trainer",
        )
        for name in names
        if name.value in OPERATOR_TORCH
    ]


def _jobset(document: Located, documents: list[Located], file: str) -> Answer:
    del documents
    problems: list[Finding] = []
    groups: list[Group] = []
    jobs = document.get("spec", "replicatedJobs")
    names: list[str] = []
    shapes: list[tuple[Group, Field[int], Field[int]]] = []
    for job in jobs.each() if jobs else []:
        inner = job.get("template", "spec")
        pod = job.get("template", "spec", "template", "spec")
        replicas, parallel = (
            number(job.get("replicas"), file, 1),
            number(inner.get("parallelism") if inner else None, file, 1),
        )
        name = job.get("name")
        names.append(str(name.value) if name else "")
        if inner is not None:
            problems.extend(_completions(inner, file))
        if pod is not None:  # the controller writes OnFailure where none is given
            problems.extend(admission.restarts(pod, "JobSet", OF_A_JOB, "OnFailure", file))
        if pod is not None and isinstance(replicas, Sourced) and isinstance(parallel, Sourced):
            place = parallel if parallel.origin == "written" else replicas
            count = Sourced(replicas.value * parallel.value, file, place.line)
            metadata = job.get("template", "spec", "template", "metadata")
            groups.append(Group(pod, count, names[-1], metadata=metadata, claims=_claims(document)))
            shapes.append((groups[-1], replicas, parallel))
    plans, more = pods.plans(groups, document, file)
    for group, replicas, parallel in shapes:
        for plan in pods.of_its_template(plans, group, groups):
            problems.extend(indices.of_several_jobs(plan, group, replicas, parallel))
    problems.extend([*more, *_jobset_names(document, plans, names), *pods.against_gpus(plans, groups)])
    return plans, problems


def _claims(document: Located) -> tuple[str, ...]:
    """The volumes that a JobSet claims for its pods."""
    policies = document.get("spec", "volumeClaimPolicies")
    templates = [held for policy in (policies.each() if policies else ()) if (held := policy.get("templates"))]
    named = [template.get("metadata", "name") for held in templates for template in held.each()]
    return tuple(str(name.value) for name in named if name is not None)


def _jobset_names(document: Located, plans: list[Plan], names: list[str]) -> list[Finding]:
    """MASTER_ADDR is a name that the JobSet's headless service gives to a pod."""
    own = document.get("metadata", "name")
    given = document.get("spec", "network", "subdomain")
    on = document.get("spec", "network", "enableDNSHostnames")
    problems = []
    for plan in plans:
        address = plan.master_address
        if own is None or not isinstance(address, Sourced) or not address.value.startswith(f"{own.value}-"):
            continue
        subdomain = str(given.value) if given else str(own.value)
        wanted = [f"{own.value}-{name}-0-0.{subdomain}" for name in names]
        if on is not None and on.value is False:
            message = "enableDNSHostnames is false: no pod of the JobSet has a name that MASTER_ADDR could lead to"
            problems.append(fail("headless_service_is_there", message, address.where, fix="enableDNSHostnames: true"))
        elif ".".join(address.value.split(".")[:2]) not in wanted:
            message = f"MASTER_ADDR {address.value} is not a pod of this JobSet; the first ones are {', '.join(wanted)}"
            problems.append(fail("headless_service_is_there", message, address.where, fix=f"MASTER_ADDR: {wanted[0]}"))
    return problems


def _completions(job: Located, file: str) -> list[Finding]:
    """All pods of a job run at once."""
    wanted, parallel = number(job.get("completions"), file), number(job.get("parallelism"), file, 1)
    if isinstance(wanted, Sourced) and isinstance(parallel, Sourced) and wanted.value > parallel.value:
        message = f"parallelism {parallel.value} of {wanted.value} completions: the ranks of the last pods never start"
        return [fail("gang_is_the_whole_job", message, wanted.where, fix=f"parallelism: {wanted.value}")]
    return []


def _pods_of(spec: Located, file: str) -> Field[int]:
    """How many pods of a Job run at once: no more than it has completions."""
    parallel, wanted = number(spec.get("parallelism"), file, 1), number(spec.get("completions"), file)
    is_fewer = isinstance(wanted, Sourced) and isinstance(parallel, Sourced) and wanted.value < parallel.value
    return wanted if is_fewer else parallel


def _job(document: Located, documents: list[Located], file: str) -> Answer:
    spec = document.get("spec")
    pod = document.get("spec", "template", "spec")
    if spec is None or pod is None:
        return (
            sets.volcano(document, documents, file) if spec is not None and spec.get("tasks") is not None else ([], [])
        )
    count = _pods_of(spec, file)
    groups = [Group(pod, count, "job", metadata=document.get("spec", "template", "metadata"))]
    plans, problems = pods.plans(groups, document, file)
    problems.extend(admission.restarts(pod, "Job", OF_A_JOB, "Always", file))
    is_job = any(plan.launcher is not KUBERNETES for plan in plans)  # else each pod may do work of its own
    if is_job:
        problems.extend(_completions(spec, file))
    mode = spec.get("completionMode")
    if is_job and (firm(count) or 1) > 1 and (mode is None or mode.value != "Indexed"):
        message = f"{value_of(count)} pods without completionMode: Indexed: none of them learns its rank"
        problems.append(fail("pods_know_their_rank", message, Where(file, spec.line), fix="completionMode: Indexed"))
    is_indexed = mode is not None and mode.value == "Indexed" and not admission.is_patch(pod)
    if mode is not None and is_indexed and spec.get("completions") is None:
        message = "completionMode: Indexed without completions: the cluster refuses it"
        fix = f"completions: {value_of(count)}"
        problems.append(fail("manifest_is_accepted", message, Where(file, mode.line), fix=fix))
    labels = document.get("spec", "template", "metadata", "labels")
    problems.extend(found for plan in plans for found in services.ordinals(plan, document, count))
    problems.extend(
        services.headless(
            pod.get("subdomain"),
            plans,
            documents,
            file,
            labels=labels,
            owner=document.get("metadata", "name"),
            count=count,
            namespace=document.get("metadata", "namespace"),
            pod=pod,
        )
    )
    return plans, [*problems, *pods.against_gpus(plans, groups)]


KINDS: dict[str, Callable[[Located, list[Located], str], Answer]] = {
    "PyTorchJob": _pytorchjob,
    "TrainJob": _trainjob,
    "JobSet": _jobset,
    "Job": _job,
    **sets.KINDS,
}
