"""What does a Job ask for?"""

from __future__ import annotations

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Field, Sourced, firm, value_of
from preflight.launch.launchers.kubernetes import KUBERNETES
from preflight.launch.manifests import admission, pods, services
from preflight.launch.manifests.group import Group, number
from preflight.launch.manifests.kinds.volcano import volcano
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import fail
from preflight.launch.text.located import Located
from preflight.said import said

# How the pods of a Job may be restarted.
OF_A_JOB = ("Never", "OnFailure")


def completions(job: Located, file: str) -> list[Finding]:
    """All pods of a job run at once."""
    wanted, parallel = number(job.get("completions"), file), number(job.get("parallelism"), file, 1)
    if isinstance(wanted, Sourced) and isinstance(parallel, Sourced) and wanted.value > parallel.value:
        message = said(
            "parallelism {value} of {value2} completions: the ranks of the last pods never start",
            parallel.value,
            wanted.value,
        )
        places = [held.where for held in (wanted, parallel) if held.origin != "tool"]
        return [fail("gang_is_the_whole_job", message, *places, fix=said("parallelism: {value}", wanted.value))]
    return []


def _pods_of(spec: Located, file: str) -> Field[int]:
    """How many pods of a Job run at once: no more than it has completions."""
    parallel, wanted = number(spec.get("parallelism"), file, 1), number(spec.get("completions"), file)
    is_fewer = isinstance(wanted, Sourced) and isinstance(parallel, Sourced) and wanted.value < parallel.value
    return wanted if is_fewer else parallel


def job(document: Located, documents: list[Located], file: str) -> Answer:
    """Pods that count themselves, or the tasks of a Job of Volcano."""
    spec = document.get("spec")
    pod = document.get("spec", "template", "spec")
    if spec is None or pod is None:
        return volcano(document, documents, file) if spec is not None and spec.get("tasks") is not None else ([], [])
    count = _pods_of(spec, file)
    groups = [Group(pod, count, "job", metadata=document.get("spec", "template", "metadata"))]
    plans, problems = pods.plans(groups, document, file)
    problems.extend(admission.restarts(pod, "Job", OF_A_JOB, "Always", file))
    is_job = any(plan.launcher is not KUBERNETES for plan in plans)  # else each pod may do work of its own
    if is_job:
        problems.extend(completions(spec, file))
    mode = spec.get("completionMode")
    if is_job and (firm(count) or 1) > 1 and (mode is None or mode.value != "Indexed"):
        message = said("{value_of} pods without completionMode: Indexed: none of them learns its rank", value_of(count))
        problems.append(fail("pods_know_their_rank", message, Where(file, spec.line), fix="completionMode: Indexed"))
    is_indexed = mode is not None and mode.value == "Indexed" and not admission.is_patch(pod)
    if mode is not None and is_indexed and spec.get("completions") is None:
        message = "completionMode: Indexed without completions: the cluster refuses it"
        fix = said("completions: {value_of}", value_of(count))
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
