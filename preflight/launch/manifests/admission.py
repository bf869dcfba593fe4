"""What in a manifest does the cluster refuse, before any pod is there?"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import words
from preflight.launch.manifests.group import Group
from preflight.launch.plan import fail
from preflight.launch.slips.holes import ANGLED, is_unfilled_name
from preflight.launch.text.located import Located
from preflight.said import said

# Their values are the user's own, or a program's.
FREE = frozenset(words("command args env data stringData matchLabels limits requests parameters runtimeEnvYAML"))
TEXTS = frozenset(words("annotations labels nodeSelector matchLabels"))
NUMBERS = frozenset(
    words(
        """
    replicas minReplicas maxReplicas parallelism completions backoffLimit slotsPerWorker numNodes minAvailable
    activeDeadlineSeconds ttlSecondsAfterFinished terminationGracePeriodSeconds containerPort hostPort
    """
    )
)
SWITCHES = frozenset(
    words("hostNetwork hostIPC hostPID privileged publishNotReadyAddresses enableDNSHostnames readOnly suspend")
)
# Fields whose values the cluster, or its registry, looks up by their names.
LOOKED_UP = frozenset(
    words("image claimName namespace storageClassName serviceAccountName priorityClassName secretName")
)
# The operator's field is a text, because it may also be auto, cpu or gpu.
TEXT_COUNTS = {"PyTorchJob": "nprocPerNode", "HyperPodPyTorchJob": "nprocPerNode"}


# The versions of each API that clusters of today serve: another of the same group was served once, or never.
SERVED = {
    "PyTorchJob": ("kubeflow.org/v1",),
    "MPIJob": ("kubeflow.org/v2beta1", "kubeflow.org/v1"),
    "TrainJob": ("trainer.kubeflow.org/v1alpha1",),
    "JobSet": ("jobset.x-k8s.io/v1alpha2",),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1",),
    "RayCluster": ("ray.io/v1", "ray.io/v1alpha1"),
    "RayJob": ("ray.io/v1", "ray.io/v1alpha1"),
    "StatefulSet": ("apps/v1",),
    "Job": ("batch/v1", "batch.volcano.sh/v1alpha1"),
}


# Where the specification of each describes its pods; a template of its own, as a Job has one, none of them has.
PODS_OF = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "JobSet": "replicatedJobs",
    "LeaderWorkerSet": "leaderWorkerTemplate",
    "RayCluster": "workerGroupSpecs",
    "RayJob": "rayClusterSpec",
}


def is_of_its_kind(document: Located, file: str) -> list[Finding]:
    """Whether an object of this kind looks as the API of its version has it."""
    return _version_is_served(document, file) or _pods_are_described(document, file)


def _pods_are_described(document: Located, file: str) -> list[Finding]:
    """A field that the kind does not have is refused: kubectl sends a manifest to be checked strictly."""
    kind, template = document.get("kind"), document.get("spec", "template")
    own = PODS_OF.get(str(kind.value), "") if kind is not None else ""
    if kind is None or template is None or not own or document.get("spec", own) is not None:
        return []
    message = said(
        "{kind} has no spec.template, its pods are those of spec.{own}: the cluster refuses it", kind.value, own
    )
    return [fail("manifest_is_accepted", message, Where(file, template.line))]


def _version_is_served(document: Located, file: str) -> list[Finding]:
    """An object of an API version that nothing serves is refused, whatever stands in it."""
    kind, given = document.get("kind"), document.get("apiVersion")
    served = SERVED.get(str(kind.value), ()) if kind is not None else ()
    if given is None or not served or given.value in served:
        return []
    same = [version for version in served if version.partition("/")[0] == str(given.value).partition("/")[0]]
    if not same:
        return []
    name = str(kind.value) if kind is not None else ""
    message = said("{kind} of {version} is served by no cluster of today: it is refused", name, given.value)
    return [fail("manifest_is_accepted", message, Where(file, given.line), fix=f"apiVersion: {same[0]}")]


def types_fit(document: Located, file: str) -> list[Finding]:
    """A field has the type that the API gives it: a number, a boolean or a text; a manifest with another is refused."""
    found = list(_misfits(document, file))
    kind = document.get("kind")
    name = TEXT_COUNTS.get(str(kind.value), "") if kind is not None else ""
    count = document.get("spec", name) if name else None
    return [*found, *(_no_text(name, count, file) if count is not None else ())]


def names_are_filled_in(held: Located, file: str) -> Iterable[Finding]:
    """An image or a claim that is still <a placeholder> is refused, or its pods never start."""
    for inner in held.each():
        yield from names_are_filled_in(inner, file)
    for key, inner in held.items():
        value = inner.value
        if key in FREE:
            continue
        if not isinstance(value, str):
            yield from names_are_filled_in(inner, file)
        elif (key in LOOKED_UP and is_unfilled_name(value)) or ANGLED.fullmatch(value):
            message = said("{key}: {value} was never filled in: no pod of it starts", key, value)
            fix = said("The value in the place of {value}.", value)
            yield fail("placeholders_are_filled_in", message, Where(file, inner.line), fix=fix)


def _misfits(held: Located, file: str) -> Iterable[Finding]:
    for inner in held.each():
        yield from _misfits(inner, file)
    for key, inner in held.items():
        value, where = inner.value, Where(file, inner.line)
        if key in TEXTS:
            for name, text in inner.items():
                yield from _no_text(name, text, file)
        elif key in NUMBERS and isinstance(value, str) and value.isascii() and value.isdigit():
            message = said(
                '{key}: "{value}" is a string, and the field must be a number: the cluster refuses it', key, value
            )
            yield fail("manifest_is_accepted", message, where, fix=said("{key}: {value}", key, value))
        elif key in SWITCHES and isinstance(value, str) and value.lower() in ("true", "false"):
            message = said(
                '{key}: "{value}" is a string, and the field must be true or false: the cluster refuses it', key, value
            )
            yield fail("manifest_is_accepted", message, where, fix=said("{key}: {lower}", key, value.lower()))
        elif key not in FREE:
            yield from _misfits(inner, file)


def _no_text(name: str, held: Located, file: str) -> Iterable[Finding]:
    if isinstance(held.value, (bool, int, float)):
        message = said(
            "{name}: {text} is not a string, and the field must be one: the cluster refuses it", name, held.text
        )
        yield fail(
            "manifest_is_accepted", message, Where(file, held.line), fix=said('{name}: "{text}"', name, held.text)
        )


def restarts(pod: Located, controller: str, allowed: Collection[str], default: str, file: str) -> list[Finding]:
    """A pod that ends is restarted as its controller allows: a Job never always, a StatefulSet always."""
    held = pod.get("restartPolicy")
    given = str(held.value) if held is not None and held.value is not None else default
    if given in allowed or is_patch(pod):
        return []
    listed = ", ".join(allowed)
    if held is None:
        message = said(
            "no restartPolicy means {given}, and the pods of a {controller} take {listed}: the cluster refuses it",
            given,
            controller,
            listed,
        )
    else:
        message = said(
            "restartPolicy: {given}, and the pods of a {controller} take {listed}: the cluster refuses it",
            given,
            controller,
            listed,
        )
    where = Where(file, held.line if held is not None else pod.line)
    return [fail("manifest_is_accepted", message, where, fix=f"restartPolicy: {next(iter(allowed))}")]


def is_patch(pod: Located) -> bool:
    """Whether a pod is a part of one, to be merged with another file by kustomize: its containers have no image."""
    held = pod.get("containers")
    return all(container.get("image") is None for container in (held.each() if held is not None else ()))


def mounts_exist(group: Group, file: str) -> list[Finding]:
    """What a container mounts is a volume of its pod."""
    if not group.knows_volumes or is_patch(group.pod):
        return []
    held = group.pod.get("volumes")
    known = {str(name.value) for volume in (held.each() if held else ()) if (name := volume.get("name"))}
    known |= set(group.claims)
    found = []
    inits = group.pod.get("initContainers")
    for container in (*(inits.each() if inits else ()), *group.containers):
        mounts = container.get("volumeMounts")
        for mount in mounts.each() if mounts else ():
            name = mount.get("name")
            if name is not None and name.value is not None and str(name.value) not in known:
                listed = ", ".join(sorted(known)) or "-"
                message = said(
                    "the volume {value} is mounted, but the pod has only {listed}: the cluster refuses it",
                    name.value,
                    listed,
                )
                found.append(fail("manifest_is_accepted", message, Where(file, name.line)))
    return found


def devices_are_limited(container: Located, file: str) -> list[Finding]:
    """A device is counted by its limit: GPUs and adapters cannot be shared out beyond it."""
    found = []
    requests, limits = container.get("resources", "requests"), container.get("resources", "limits")
    for name, request in requests.items() if requests is not None else ():
        if "/" not in name or "kubernetes.io/" in name or request.value is None:
            continue
        limit = limits.get(name) if limits is not None else None
        if limit is None:
            message = said("{name}: requests {value}, but no limit; Kubernetes wants them equal", name, request.value)
            fix = said("limits: {{{name}: {value}}}", name, request.value)
            found.append(fail("gpu_requests_equal_limits", message, Where(file, request.line), fix=fix))
        elif limit.value is not None and str(limit.value) != str(request.value):
            message = said(
                "{name}: requests {value}, limits {value2}; Kubernetes wants them equal",
                name,
                request.value,
                limit.value,
            )
            places = Where(file, request.line), Where(file, limit.line)
            found.append(fail("gpu_requests_equal_limits", message, *places))
    return found
