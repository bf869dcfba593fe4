"""What does a JobSet ask for?"""

from __future__ import annotations

import re

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Field, Sourced
from preflight.launch.manifests import admission, indices, pods
from preflight.launch.manifests.group import Group, number
from preflight.launch.manifests.kinds.job import OF_A_JOB, completions
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import Plan, fail
from preflight.launch.text.located import Located
from preflight.said import said


def jobset(document: Located, documents: list[Located], file: str) -> Answer:
    """Several jobs whose pods have names by one headless service."""
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
            problems.extend(completions(inner, file))
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


def _is_of_a_jobset(address: str, own: str, names: list[str]) -> bool:
    """Whether an address is a pod's name as JobSets give it: of this one, or of one with jobs of the same names."""
    jobs = "|".join(map(re.escape, filter(None, names)))
    is_named_so = bool(jobs) and re.match(rf"[a-z0-9-]+-(?:{jobs})-\d+-\d+(?:\.|$)", address) is not None
    return address.startswith(f"{own}-") or is_named_so


def _jobset_names(document: Located, plans: list[Plan], names: list[str]) -> list[Finding]:
    """MASTER_ADDR is a name that the JobSet's headless service gives to a pod."""
    own = document.get("metadata", "name")
    given = document.get("spec", "network", "subdomain")
    on = document.get("spec", "network", "enableDNSHostnames")
    problems = []
    for plan in plans:
        address = plan.master_address
        if own is None or not isinstance(address, Sourced) or not _is_of_a_jobset(address.value, str(own.value), names):
            continue
        subdomain = str(given.value) if given else str(own.value)
        wanted = [f"{own.value}-{name}-0-0.{subdomain}" for name in names]
        if on is not None and on.value is False:
            message = "enableDNSHostnames is false: no pod of the JobSet has a name that MASTER_ADDR could lead to"
            problems.append(fail("headless_service_is_there", message, address.where, fix="enableDNSHostnames: true"))
        elif ".".join(address.value.split(".")[:2]) not in wanted:
            message = said(
                "MASTER_ADDR {value} is not a pod of this JobSet; the first ones are {wanted}",
                address.value,
                ", ".join(wanted),
            )
            problems.append(fail("headless_service_is_there", message, address.where, fix=f"MASTER_ADDR: {wanted[0]}"))
    return problems
