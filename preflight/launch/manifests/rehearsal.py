"""How does a manifest of a job become one that rehearses: the same pods, with our program in the place of theirs?

Pods, resources, volumes, variables and accounts stay. What is new has names of its own, so that the job itself may be
there too: the job, its services, and the ConfigMaps and Secrets beside it; volumes that are claimed are the job's own.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from preflight.said import said
from preflight.said.errors import UsageError

JOBS = ("Job", "JobSet", "PyTorchJob", "Pod")
COPIED = {
    "ConfigMap": ("configMap", "configMapRef", "configMapKeyRef"),
    "Secret": ("secret", "secretRef", "secretKeyRef"),
}
PLACE = "/preflight-rehearsal"
VOLUME = "preflight-rehearsal"
LABEL = "preflight-rehearsal"
MARK = "preflight-rehearsal"
PULL_SECONDS = 300  # a deadline begins while images are still pulled
ENDING_SECONDS = 15
LATER_SECONDS = 3600  # until what has ended is removed, where nobody does
MOST_CHARACTERS = 45  # of a name, as the names of pods add to it
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")  # of the real program
# Runs the container's own command with the hook before every Python, prints what the ranks left, and ends in time.
WRAP = """\
place=PLACE
export PYTHONPATH="$place/hook${PYTHONPATH:+:$PYTHONPATH}" PREFLIGHT_REHEARSAL=1
begun=`date +%s`
"$@" &
main=$!
trap ': >"$place/ranks/over"; kill -TERM "$main" 2>/dev/null' TERM INT
(sleep SECONDS; kill -TERM $$; sleep 5; kill -KILL "$main") >/dev/null 2>&1 &
timer=$!
code=0
while kill -0 "$main" 2>/dev/null; do wait "$main"; code=$?; done
kill "$timer"
for file in "$place"/ranks/*; do
  [ -f "$file" ] || continue
  while IFS= read -r line; do printf 'MARK %s %s\\n' "${file##*/}" "$line"; done <"$file"
done
told=$code
[ -f "$place/ranks/over" ] && told=late
printf 'MARK ended %s %s\\n' "$told" $((`date +%s` - begun))
exit "$code"
"""


@dataclass(frozen=True)
class Rehearsing:
    """A manifest that rehearses: its documents, the name behind LABEL, and the kinds and names that it leaves out."""

    documents: tuple[dict[str, Any], ...]
    name: str
    namespace: str
    left_out: tuple[str, ...]
    seconds: int


def rehearsing(documents: Sequence[Any], files: Mapping[str, str], *, seconds: float, name: str) -> Rehearsing:
    """The documents that rehearse those given; `files` is what the hook needs. UsageError where none can.

    `name` is that of the file, for what is said of it.
    """
    whole = [document for each in documents for document in _unwrapped(each)]
    jobs = [document for document in whole if document["kind"] in JOBS]
    if not jobs:
        kinds = ", ".join(dict.fromkeys(str(document["kind"]) for document in whole)) or "nothing"
        raise UsageError(said("rehearse k8s: {name} has {kinds}: wanted one of {wanted}", name, kinds, ", ".join(JOBS)))
    names = _Names(whole, jobs)
    first = _name(jobs[0])
    hook = f"{new(first)}-hook"
    made = [_hook(hook, jobs[0], files)]
    for document in whole:
        if document["kind"] in JOBS:
            made.append(_job(document, names, hook, first, seconds=int(seconds), file=name))
        elif document["kind"] in ("Service", *COPIED):
            made.append(_beside(document, names))
    kept = ("Service", *JOBS, *COPIED)
    left_out = tuple(f"{document['kind']} {_name(document)}" for document in whole if document["kind"] not in kept)
    namespace = str(jobs[0].get("metadata", {}).get("namespace", ""))
    return Rehearsing(tuple(made), first, namespace, left_out, int(seconds) + PULL_SECONDS)


def new(name: str) -> str:
    """The name of what rehearses."""
    return f"{name[:MOST_CHARACTERS].rstrip('-.')}-rehearsal"


def _unwrapped(document: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict) or "kind" not in document:
        return
    if str(document["kind"]).endswith("List"):
        for item in document.get("items") or ():
            yield from _unwrapped(item)
    elif document["kind"] == "CronJob":
        template = document.get("spec", {}).get("jobTemplate", {})
        metadata = {**template.get("metadata", {}), **document.get("metadata", {})}
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template.get("spec", {})}
    else:
        yield document


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata") or {}
    return str(metadata.get("name") or metadata.get("generateName", "job").rstrip("-"))


class _Names:
    """Which names, and which labels that services choose pods by, are others in what rehearses."""

    def __init__(self, documents: Sequence[dict[str, Any]], jobs: Sequence[dict[str, Any]]) -> None:
        self.jobs = {_name(job) for job in jobs}
        services = [document for document in documents if document["kind"] == "Service"]
        self.services = {_name(service) for service in services}
        self.copied = {kind: {_name(d) for d in documents if d["kind"] == kind} for kind in COPIED}
        labels = {
            (key, value)
            for job in jobs
            for holder in (job, *templates(job))
            for key, value in ((holder.get("metadata") or {}).get("labels") or {}).items()
        }
        chosen = {item for s in services for item in ((s.get("spec") or {}).get("selector") or {}).items()}
        self.labels = {(key, value): new(str(value)) for key, value in chosen & labels}
        self.labels |= {(key, value): new(value) for key, value in chosen if value in self.jobs}
        # A JobSet makes a service of its own name.
        domains = "|".join(map(re.escape, sorted({*self.services, *self.jobs}, key=len, reverse=True)))
        owners = "|".join(map(re.escape, sorted(self.jobs, key=len, reverse=True)))
        alone = "|".join(map(re.escape, sorted(self.services, key=len, reverse=True))) or r"(?!)"
        before, end = r"(?:(?<=//)|(?<![\w./-]))", r"(?![\w-])(?!\.[A-Za-z])"
        self.host = re.compile(
            rf"{before}({owners})((?:-[a-z0-9]+)*-(?:\d+|\$\(?\{{?\w+\}}?\)?))(?:\.({domains})\b|{end})"
        )
        self.service = re.compile(rf"{before}({alone})(?=\.svc\b|\.[\w-]+\.svc\b|:\d|[\s\"',;]|$)")

    def text(self, text: str) -> str:
        """A command, or the value of a variable, with the new names of hosts."""
        with_hosts = self.host.sub(lambda m: f"{new(m[1])}{m[2]}" + (f".{new(m[3])}" if m[3] else ""), text)
        return self.service.sub(lambda m: new(m[1]), with_hosts)

    def chosen(self, labels: Mapping[str, Any]) -> dict[str, Any]:
        """Labels, with the new values of those that services choose by."""
        return {key: self.labels.get((key, value), value) for key, value in labels.items()}


def templates(held: Any) -> Iterator[dict[str, Any]]:
    """Every dict that has a pod's spec: the pod itself, or a template."""
    if isinstance(held, dict):
        spec = held.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield held
            return
        for inner in held.values():
            yield from templates(inner)
    elif isinstance(held, list):
        for inner in held:
            yield from templates(inner)


def _hook(hook: str, job: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": hook, **{k: v for k, v in (job.get("metadata") or {}).items() if k == "namespace"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(files)}


def _beside(document: Mapping[str, Any], names: _Names) -> dict[str, Any]:
    """A service, a ConfigMap or a Secret under a name of its own."""
    made: dict[str, Any] = copy.deepcopy(dict(document))
    made["metadata"] = {**made.get("metadata", {}), "name": new(_name(document))}
    spec = made.get("spec")
    if made["kind"] == "Service" and isinstance(spec, dict):
        spec["selector"] = names.chosen(spec.get("selector") or {})
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)  # which is one in the whole cluster
        if spec.get("clusterIP") != "None":
            spec.pop("clusterIP", None)
    return made


def _job(
    document: Mapping[str, Any], names: _Names, hook: str, first: str, *, seconds: int, file: str
) -> dict[str, Any]:
    made: dict[str, Any] = copy.deepcopy(dict(document))
    kept = {k: v for k, v in made.get("metadata", {}).items() if k in ("namespace", "labels", "annotations")}
    made["metadata"] = {**kept, "name": new(_name(document))}
    made.pop("status", None)
    for template in templates(made):
        metadata = template.setdefault("metadata", {})
        metadata["labels"] = {**names.chosen(metadata.get("labels") or {}), LABEL: first}
        _pod(template["spec"], names, hook, seconds=seconds, file=file)
    _ends(made["spec"], str(made["kind"]), seconds)
    return made


def _ends(spec: dict[str, Any], kind: str, seconds: int) -> None:
    """Nothing is tried again, and what has ended is removed."""
    if kind == "Job":
        spec |= {"backoffLimit": 0, "activeDeadlineSeconds": seconds + PULL_SECONDS}
        spec["ttlSecondsAfterFinished"] = LATER_SECONDS
        for key in ("podFailurePolicy", "backoffLimitPerIndex", "maxFailedIndexes", "podReplacementPolicy"):
            spec.pop(key, None)
    elif kind == "JobSet":
        spec |= {"failurePolicy": {"maxRestarts": 0}, "ttlSecondsAfterFinished": LATER_SECONDS}
        for job in spec.get("replicatedJobs") or ():
            inner = job["template"]["spec"]
            inner |= {"backoffLimit": 0, "activeDeadlineSeconds": seconds + PULL_SECONDS}
    elif kind == "PyTorchJob":
        policy = {"cleanPodPolicy": "None", "backoffLimit": 0, "activeDeadlineSeconds": seconds + PULL_SECONDS}
        spec["runPolicy"] = {**spec.get("runPolicy", {}), **policy, "ttlSecondsAfterFinished": LATER_SECONDS}
        for role in (spec.get("pytorchReplicaSpecs") or {}).values():
            role["restartPolicy"] = "Never"


def _pod(spec: dict[str, Any], names: _Names, hook: str, *, seconds: int, file: str) -> None:
    spec["restartPolicy"] = "Never"
    spec["activeDeadlineSeconds"] = seconds + PULL_SECONDS
    spec["terminationGracePeriodSeconds"] = ENDING_SECONDS
    if spec.get("subdomain") in {*names.services, *names.jobs}:
        spec["subdomain"] = new(spec["subdomain"])
    _rename(spec, names)
    wrapped = [container for container in spec["containers"] if container.get("command")]
    if not wrapped:
        first = spec["containers"][0]
        raise UsageError(
            said(
                "rehearse k8s: container {name} of {file} has no command, and what its image starts is not known "
                "here: write it there (`docker inspect --format '{{{{.Config.Entrypoint}}}}' {image}`)",
                first.get("name", ""),
                file,
                first.get("image", ""),
            )
        )
    for container in wrapped:
        program = WRAP.replace("PLACE", PLACE).replace("MARK", MARK).replace("SECONDS", str(seconds))
        container["command"] = ["/bin/sh", "-c", program, "sh", *container["command"]]
        for key in (*PROBES, "lifecycle"):
            container.pop(key, None)
        container["volumeMounts"] = [
            *(container.get("volumeMounts") or ()),
            {"name": f"{VOLUME}-hook", "mountPath": f"{PLACE}/hook", "readOnly": True},
            {"name": f"{VOLUME}-ranks", "mountPath": f"{PLACE}/ranks"},
        ]
    spec["volumes"] = [
        *(spec.get("volumes") or ()),
        {"name": f"{VOLUME}-hook", "configMap": {"name": hook}},
        {"name": f"{VOLUME}-ranks", "emptyDir": {}},
    ]


def _rename(held: Any, names: _Names, key: str = "") -> None:
    """Give what a pod refers to its new name: other pods by their hosts, ConfigMaps, Secrets, and pods by labels."""
    items = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
    for place, inner in list(items):
        within = place if isinstance(place, str) else key
        if isinstance(inner, str) and within in ("command", "args", "value"):
            held[place] = names.text(inner)
        elif within == "matchLabels" and isinstance(inner, dict):
            held[place] = names.chosen(inner)
        else:
            _rename(inner, names, within)
        for kind, references in COPIED.items():
            if within in references and isinstance(inner, dict):
                for field in ("name", "secretName"):
                    if inner.get(field) in names.copied[kind]:
                        inner[field] = new(inner[field])
