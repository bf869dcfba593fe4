"""Which pods did the API server list: in which order do they train, in which container, and do they run?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from preflight.said import said

NAME = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
LABEL_VALUE = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
# The rank of a pod within its job, as the controllers write it: Indexed Job, JobSet, StatefulSet, LeaderWorkerSet and
# the operators of Kubeflow. The first two of the order are those of the whole job.
INDEXES = (
    "jobset.sigs.k8s.io/job-global-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "training.kubeflow.org/replica-index",
)
INDEX = "[0-9]{1,9}"
ROLES = ("training.kubeflow.org/replica-type", "volcano.sh/task-spec")
FIRST_ROLES = ("master", "launcher", "leader", "head", "chief")
# Containers that a mesh of services, a queue or a log collector puts beside the job's own.
BESIDE = re.compile(r"(?:istio|linkerd|envoy|vault|fluent|dapr|cloud-sql|gke-gcsfuse|tcpx|tcpxo)[-\w]*")
GPU = re.compile(r"(?:nvidia\.com|amd\.com|habana\.ai|gpu\.intel\.com)/.+")
ENDED = ("Succeeded", "Failed")
MAKES_ANEW = ("ReplicaSet", "StatefulSet", "DaemonSet")  # a pod that ended is made again under whatever name
# Words of kubelet and of the scheduler -> what to do about them, in place of looking closer.
FIXES = (
    (r"OOMKilled", "raise its memory limit, or let the job need less"),
    (r"ErrImage|ImagePull|InvalidImageName", "check the image's name and tag, its registry and imagePullSecrets"),
    (r"init container \S+ has not finished", "wait for it, or read its log: `kubectl logs POD --container=NAME`"),
    (r"CrashLoopBackOff|it ended with [1-9]", "`kubectl logs --previous POD` shows why"),
    (r"Insufficient \S+", "free what other pods hold, or ask for less: `kubectl describe nodes` shows both"),
)


@dataclass(frozen=True)
class Pod:
    """One pod as the API server describes it."""

    name: str
    node: str
    phase: str
    is_leaving: bool
    labels: Mapping[str, str]
    owner: tuple[str, str]  # kind and uid of what made it
    training_container: str
    states: Mapping[str, Mapping[str, Any]]  # of its containers by name
    reason: str  # why it is not scheduled, or has failed

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or is about to."""
        return self.phase in ENDED or self.is_leaving

    @property
    def place(self) -> tuple[str, str, str]:
        """What another pod has in common with it that is there in its stead."""
        index = next((f"{key}={self.labels[key]}" for key in INDEXES if key in self.labels), "")
        return (*self.owner, index)

    @property
    def has_heirs(self) -> bool:
        """Whether a pod that ended is made again, for the same place of the job."""
        return bool(self.place[2]) or self.owner[0] in MAKES_ANEW

    def trouble(self, container: str, namespace: str) -> str:
        """Why nothing can run in this container now, and what to do; "" where it runs. Many pods alike say the same."""
        state = self.states.get(container)
        waiting = (state or {}).get("waiting")
        reason = self.reason or (waiting if self.phase == "Failed" else "")
        detail = f": {reason}" if reason else ""
        found = (fix for sign, fix in FIXES if re.search(sign, f"{reason} {waiting}"))
        described = next(found, said("`kubectl describe pod POD --namespace={namespace}` shows why", namespace))
        if self.phase in ENDED:
            if "OOMKilled" in detail:
                return said("the pod has ended ({phase}{detail}); {described}", self.phase, detail, described)
            return said(
                "the pod has ended ({phase}{detail}); select pods that run, or start the job again", self.phase, detail
            )
        if self.is_leaving:
            return said(
                "the pod is being deleted; select pods that run: `kubectl get pods --namespace={namespace}`", namespace
            )
        if state is None and self.states:
            return said(
                "the pod has no container {container}; name one of {states}: SELECTOR:CONTAINER",
                container,
                ", ".join(self.states),
            )
        if waiting:
            return said("its container {container} does not run: {waiting}; {described}", container, waiting, described)
        if self.phase != "Running":
            return said("the pod is {phase}{detail}; {described}", self.phase or "in no phase", detail, described)
        return ""


def read_pods(document: Any) -> tuple[Pod, ...]:
    """The pods of a PodList. Raises ValueError where it is none."""
    items = _at(document, "items", list)
    return tuple(_pod(item) for item in items)


def in_order(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """By rank where a controller has numbered them, else by name; without those that another has replaced."""
    found = tuple(pods)
    living = {pod.place for pod in found if not pod.is_over}
    kept = (pod for pod in found if not (pod.is_over and pod.has_heirs and pod.place in living))
    return tuple(sorted(kept, key=_order))


def _order(pod: Pod) -> tuple[Any, ...]:
    role = next((pod.labels[key].lower() for key in ROLES if key in pod.labels), "")
    labels = (pod.labels.get(key, "") for key in INDEXES)
    indexes = tuple(int(text) if re.fullmatch(INDEX, text) else -1 for text in labels)
    name = tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", pod.name))
    return (role not in FIRST_ROLES, role, indexes, name)


def _pod(item: Any) -> Pod:
    metadata, spec, status = (_at(item, key, dict) for key in ("metadata", "spec", "status"))
    name, node = _text(metadata, "name"), _text(spec, "nodeName")
    containers = [container for container in _at(spec, "containers", list) if isinstance(container, dict)]
    if (
        not re.fullmatch(NAME, name)
        or not containers
        or not all(re.fullmatch(NAME, _text(c, "name")) for c in containers)
    ):
        raise ValueError("a pod without a name or a container")
    owners = [owner for owner in _at(metadata, "ownerReferences", list) if isinstance(owner, dict)] or [{}]
    labels, annotations = (_words(_at(metadata, key, dict)) for key in ("labels", "annotations"))
    return Pod(
        name=name,
        node=node if re.fullmatch(NAME, node) else "",
        phase=_text(status, "phase"),
        is_leaving="deletionTimestamp" in metadata,
        labels=labels,
        owner=(_text(owners[0], "kind"), _text(owners[0], "uid")),
        training_container=training_container(containers, annotations.get(DEFAULT_CONTAINER, "")),
        states=_states(status, _held_by(spec, status)),
        reason=_reason(status),
    )


def training_container(containers: list[dict[str, Any]], default: str) -> str:
    """As kubectl has it where the pod says so; else the one with the GPUs, or the first that is no helper."""
    names = [_text(container, "name") for container in containers]
    if default in names:
        return default
    gpus = (c for c in containers if any(map(GPU.fullmatch, _at(_at(c, "resources", dict), "limits", dict))))
    own = (name for name in names if not BESIDE.fullmatch(name))
    return next((_text(container, "name") for container in gpus), None) or next(own, names[0])


def _states(status: dict[str, Any], before: str) -> dict[str, dict[str, str]]:
    """What each container waits for, or how it ended, in words; `before` is what the first ones wait for."""
    found = {}
    for each in _at(status, "containerStatuses", list):
        if not isinstance(each, dict):
            continue
        state, last = _at(each, "state", dict), _at(each, "lastState", dict)
        words = ""
        if isinstance(ended := state.get("terminated"), dict):
            words = _ended(ended)
        elif isinstance(waiting := state.get("waiting"), dict):
            earlier = last.get("terminated")
            words = _text(waiting, "reason") or "it waits"
            words += said(", {ended} before", _ended(earlier)) if isinstance(earlier, dict) else ""
            # The message of a back-off names the pod; without it, many pods that crash for one reason are one finding.
            is_crash = isinstance(earlier, dict) or words == "CrashLoopBackOff"
            words += f": {message}" if (message := _line(_text(waiting, "message"))) and not is_crash else ""
            words += before if words == "PodInitializing" else ""
        found[_text(each, "name")] = {"waiting": words}
    return found


def _held_by(spec: dict[str, Any], status: dict[str, Any]) -> str:
    """Which init container holds the others up, and why; "" where none does. One that always restarts is a sidecar."""
    begins = [one for one in _at(spec, "initContainers", list) if isinstance(one, dict)]
    beside = {_text(one, "name") for one in begins if _text(one, "restartPolicy") == "Always"}
    for each in _at(status, "initContainerStatuses", list):
        state = _at(each, "state", dict) if isinstance(each, dict) else {}
        waiting = _at(state, "waiting", dict)
        reason, message = _text(waiting, "reason"), _line(_text(waiting, "message"))
        if reason not in ("", "PodInitializing"):
            detail = f": {message}" if message and reason != "CrashLoopBackOff" else ""
            return said(
                ", its init container {text} does not run: {reason}{detail}", _text(each, "name"), reason, detail
            )
        if "running" in state and _text(each, "name") not in beside:
            return said(", its init container {text} has not finished", _text(each, "name"))
    return ""


def _ended(state: dict[str, Any]) -> str:
    return said("it ended with {get} ({text})", state.get("exitCode", "?"), _text(state, "reason") or "no reason given")


def _reason(status: dict[str, Any]) -> str:
    words = [_text(status, "reason"), _line(_text(status, "message"))]
    for condition in _at(status, "conditions", list):
        if not isinstance(condition, dict):
            continue
        is_disrupted = condition.get("type") == "DisruptionTarget" and condition.get("status") == "True"
        is_unplaced = condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        if is_unplaced or (is_disrupted and not any(words)):
            words = [_text(condition, "reason"), _line(_text(condition, "message"))]
    return ", ".join(word for word in words if word)


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


def _at(held: Any, key: str, kind: type[Any]) -> Any:
    """A member of an object: empty where it is absent or null, which is the same to the API server."""
    value = held.get(key) if isinstance(held, dict) else None
    if value is not None and not isinstance(value, kind):
        raise ValueError(said("{key} is not {name}", key, kind.__name__))
    return kind() if value is None else value


def _text(held: Mapping[str, Any], key: str) -> str:
    value = held.get(key)
    return value if isinstance(value, str) else ""


def _words(held: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key, value in held.items() if isinstance(value, str)}
