"""Which jobs stand in a file of Kubernetes, and what does each ask for?"""

from __future__ import annotations

import re
from collections.abc import Callable

from preflight.judge.ledger.findings import Finding
from preflight.launch.manifests import admission, policies
from preflight.launch.manifests.documents import unwrapped
from preflight.launch.manifests.kinds.hyperpod import hyperpod
from preflight.launch.manifests.kinds.job import job
from preflight.launch.manifests.kinds.jobset import jobset
from preflight.launch.manifests.kinds.mpijob import mpijob
from preflight.launch.manifests.kinds.pods import pod
from preflight.launch.manifests.kinds.pytorchjob import pytorchjob
from preflight.launch.manifests.kinds.raycluster import ray_cluster
from preflight.launch.manifests.kinds.sets import leaderworkerset, statefulset
from preflight.launch.manifests.kinds.trainjob import trainjob
from preflight.launch.manifests.pods import Answer
from preflight.launch.manifests.programs import mounted
from preflight.launch.plan import Plan, Skip
from preflight.launch.text.located import Located
from preflight.said import said

# Filled in by whoever starts the pods' programs; what a file says of them is no template.
RUN_BY_A_SHELL = frozenset({"command", "args", "env", "annotations", "labels", "description", "data", "stringData"})


UNFILLED = re.compile(r"\$\{?[A-Za-z_]\w*\}?")


def read(documents: list[Located], file: str) -> tuple[list[Plan], list[Skip], list[Finding]]:
    """The plans of a manifest, or one skip that says why it has none."""
    documents = unwrapped(documents)
    unfilled = next((found for document in documents for found in _unfilled(document)), None)
    if unfilled is not None:
        return (
            [],
            [Skip(file, unfilled.line, said("an unrendered template: {text} is not filled in", unfilled.text[:60]))],
            [],
        )
    documents = mounted(documents)
    plans: list[Plan] = []
    problems = [found for document in documents for found in admission.names_are_filled_in(document, file)]
    seen: list[str] = []
    for document in documents:
        kind = document.get("kind")
        name = str(kind.value) if kind is not None else "no kind"
        seen.append(name)
        if name in KINDS:
            found, more = KINDS[name](document, documents, file)
            plans.extend(found)
            problems.extend([*more, *admission.is_of_its_kind(document, file), *admission.types_fit(document, file)])
            if any(plan.spans_nodes for plan in found):
                problems.extend(policies.between_pods(documents, document, file))
    if not any(name in KINDS for name in seen):
        wanted = ", ".join(KINDS)
        kinds = ", ".join(dict.fromkeys(seen))
        return [], [Skip(file, documents[0].line, said("kind {kinds}: not one of {wanted}", kinds, wanted))], []
    if not plans and not problems:
        kinds = ", ".join(dict.fromkeys(name for name in seen if name in KINDS))
        return [], [Skip(file, documents[0].line, said("kind {kinds}: no command of a known launcher", kinds))], []
    return plans, [], problems


def _unfilled(held: Located) -> list[Located]:
    """Values of a manifest's own fields that a template engine has yet to fill in."""
    if isinstance(held.value, dict):
        return [found for key, inner in held.items() if key not in RUN_BY_A_SHELL for found in _unfilled(inner)]
    if isinstance(held.value, list):
        return [found for inner in held.each() for found in _unfilled(inner)]
    return [held] if isinstance(held.value, str) and UNFILLED.fullmatch(held.value.strip()) else []


KINDS: dict[str, Callable[[Located, list[Located], str], Answer]] = {
    "PyTorchJob": pytorchjob,
    "TrainJob": trainjob,
    "JobSet": jobset,
    "Job": job,
    "MPIJob": mpijob,
    "LeaderWorkerSet": leaderworkerset,
    "StatefulSet": statefulset,
    "RayCluster": ray_cluster,
    "RayJob": ray_cluster,
    "HyperPodPyTorchJob": hyperpod,
    "Pod": pod,
}
