"""Do the pods that are made from one template learn from their index which ranks they are?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Field, Unknown, value_of
from preflight.launch.manifests.group import Group
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.located import Located
from preflight.said import said

# $((JOB_COMPLETION_INDEX + 1)), $((${HOSTNAME##*-}+1)), $((1 + RANK)): a number of pods' that is moved up.
MOVED = re.compile(
    r"\$\(\(\s*(?:\$?\{?\w+[^{}+*/-]*(?:##?\*-)?\}?\s*\+\s*(\d+)|(\d+)\s*\+\s*\$?\{?\w+(?:##?\*-)?\}?)\s*\)\)"
)
OF_A_POD = re.compile(r"INDEX|HOSTNAME|POD|ORDINAL|RANK")
NAMED = re.compile(r"\$(?:(\w+)|\{(\w+)(?:##?\*-)?\}|\((\w+)\))")
# What each kind of controller, and Kubernetes itself, gives a pod without being asked.
GIVEN = re.compile(r"HOSTNAME|KUBERNETES_\w+|\w+_SERVICE_(HOST|PORT)|\w+_PORT(_\d+_TCP\w*)?|(TPU|MEGASCALE|JOBSET)_\w+")
BY_INDEX = {
    "JOB_COMPLETION_INDEX": "JOB_COMPLETION_INDEX",
    "LWS_WORKER_INDEX": r"LWS_\w+",
    "VC_TASK_INDEX": r"V[CK]_\w+",
}
# The annotations and labels that controllers give a pod; of their names no other holds an index.
KEY = re.compile(r"metadata\.(?:annotations|labels)\[['\"]([^'\"]+)['\"]\]")
CONTROLLERS = re.compile(r"(batch\.kubernetes|apps\.kubernetes|jobset\.sigs\.k8s|leaderworkerset\.sigs\.k8s)\.io/")
OF_ONE_JOB = "batch.kubernetes.io/job-completion-index"
OF_A_SET = "labels['apps.kubernetes.io/pod-index']"
FIELDS = {
    "JOB_COMPLETION_INDEX": f"annotations['{OF_ONE_JOB}']",
    "LWS_WORKER_INDEX": "labels['leaderworkerset.sigs.k8s.io/worker-index']",
}
INDICES = (
    OF_ONE_JOB,
    "apps.kubernetes.io/pod-index",
    "jobset.sigs.k8s.io/job-index",
    "jobset.sigs.k8s.io/job-global-index",
    "jobset.sigs.k8s.io/restart-attempt",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "leaderworkerset.sigs.k8s.io/group-index",
    "leaderworkerset.sigs.k8s.io/size",
)


def of_index(plan: Plan, group: Group, index: str, operator: tuple[str, ...]) -> Iterable[Finding]:
    """What is wrong in the number that a pod is given as its rank."""
    rank = _rank(plan)
    if not isinstance(rank, Unknown) or not plan.spans_nodes or plan.is_conditional:
        return
    yield from _moved(plan, rank, group)
    path, right = field_path(rank, group), _own_field(index)
    if path in ("metadata.name", "metadata.uid") or path.startswith("status."):
        message = said("{path} as the rank: it is not a number", path)
        yield fail("pods_know_their_rank", message, rank.where, fix=right)
    key = KEY.fullmatch(path)
    own = {name for part in ("annotations", "labels") for name, _ in _items(group.metadata, part)}
    if key is not None and CONTROLLERS.match(key[1]) and key[1] not in INDICES and key[1] not in own:
        message = said("{key} as the rank: no controller gives a pod that annotation or label, and it is empty", key[1])
        yield fail("pods_know_their_rank", message, rank.where, fix=right)
    host = group.pod.get("hostNetwork")
    if host is not None and host.value is True and re.search(r"HOSTNAME|\bhostname\b", rank.expression):
        message = said(
            "{expression} as the rank: on the hosts' network a pod has the name of its host, not its own",
            rank.expression,
        )
        yield fail("pods_know_their_rank", message, rank.where, fix=right)
    name = _never_set(rank, group, index, operator)
    if name:
        message = f"${name}, from which a pod takes its rank, is set by nothing in the manifest"
        fix = f"${index}" if index.isupper() else index
        yield warn("variables_are_set", message, rank.where, fix=fix)


def of_several_jobs(plan: Plan, group: Group, replicas: Field[int], parallel: Field[int]) -> Iterable[Finding]:
    """The index of a pod begins anew in each Job of a JobSet."""
    rank, jobs, each = _rank(plan), value_of(replicas), value_of(parallel)
    if not isinstance(rank, Unknown) or jobs is None or each is None or jobs < 2 or (value_of(plan.nodes) or 1) <= each:
        return
    name = NAMED.fullmatch(rank.expression)
    by_index = name is not None and "JOB_COMPLETION_INDEX" in name.groups()
    if by_index or OF_ONE_JOB in field_path(rank, group):
        message = said("the completion index begins at 0 in each of the {jobs} Jobs: {jobs} pods have rank 0", jobs)
        fix = "jobset.sigs.k8s.io/job-index" if each == 1 else said("job-index * {each} + completion index", each)
        yield fail("pods_know_their_rank", message, rank.where, fix=fix)


def _own_field(index: str) -> str:
    """What holds the number that the controller gives a pod, for the entry of the environment that is the rank."""
    if index.isupper() and index not in FIELDS:
        return f"${index}"
    return said("fieldPath: metadata.{get}", FIELDS.get(index, OF_A_SET))


def field_path(held: Unknown, group: Group) -> str:
    """The field of the pod that a variable is filled from, "" where it is not."""
    name = held.expression.removeprefix("valueFrom of ")
    for container in group.containers if name != held.expression else ():
        given = container.get("env")
        for entry in given.each() if given is not None else ():
            own, path = entry.get("name"), entry.get("valueFrom", "fieldRef", "fieldPath")
            if own is not None and own.value == name and path is not None:
                return path.text
    return ""


def _rank(plan: Plan) -> Field[int]:
    return plan.rank if plan.is_by_hand else plan.node_rank


def _moved(plan: Plan, rank: Unknown, group: Group) -> Iterable[Finding]:
    """Where one template makes all pods of a job, the one of index 0 is rank 0."""
    found = MOVED.fullmatch(rank.expression)
    by = (found[1] or found[2]) if found is not None else "0"
    whole = value_of(group.count) == value_of(plan.nodes)
    if int(by) > 0 and whole and OF_A_POD.search(rank.expression):
        message = said("{expression} as the rank: the pods' index begins at 0, so no pod is rank 0", rank.expression)
        yield fail("pods_know_their_rank", message, rank.where, fix="use the index as it is")


def _never_set(rank: Unknown, group: Group, index: str, operator: tuple[str, ...]) -> str:
    """The variable that a rank is, where neither the manifest nor a controller sets it."""
    found = NAMED.fullmatch(rank.expression)
    name = next(filter(None, found.groups()), "") if found is not None else ""
    if not name or name in operator or GIVEN.fullmatch(name) or re.fullmatch(BY_INDEX.get(index, r"(?!)"), name):
        return ""
    for container in group.containers:
        words = [word.text for part in ("command", "args") for word in (_each(container, part))]
        sources = any(re.search(r"(^|[;&|]|\s)(source|\.|eval|export|read|envsubst) ", word) for word in words)
        if container.get("envFrom") is not None or sources:
            return ""
    return name


def _each(held: Located, part: str) -> list[Located]:
    inner = held.get(part)
    return inner.each() if inner is not None else []


def _items(held: Located | None, part: str) -> list[tuple[str, Located]]:
    inner = held.get(part) if held is not None else None
    return list(inner.items()) if inner is not None else []
