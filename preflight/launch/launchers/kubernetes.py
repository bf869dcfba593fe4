"""How do the pods of a job start without anybody logging in to them, and what is a group whose command is not known?"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from preflight.launch.launcher import Launcher
from preflight.launch.layout import Layout, shared_launch
from preflight.reach.transport.pods import training_container
from preflight.said import said
from preflight.said.errors import FactMissing, UsageError

if TYPE_CHECKING:
    from preflight.facts.node import NodeFacts
    from preflight.launch.text.located import Located

REPORT = "/tmp/preflight"
HIGHEST_PORT = 65_535
IN_SET = "workers"  # of the one Job in a JobSet
IMAGE = "IMAGE"  # no image can be called so: one that was not filled in is refused by the cluster
FROM_METADATA = ("namespace", "labels")  # a queue of Kueue is a label
FROM_POD = (
    "nodeSelector",
    "tolerations",
    "imagePullSecrets",
    "serviceAccountName",
    "schedulerName",
    "runtimeClassName",
)
FROM_CONTAINER = ("image", "imagePullPolicy", "workingDir", "envFrom", "securityContext")
JOIN_SECONDS = 900  # from the first pod's start to the last one's: nodes that are scaled up pull an image of many GB
HEAD = """\
# {count} of one Job, numbered by Kubernetes; rank 0 is where {first} leads, by the headless Service.
# Before they train the pods meet, and judge their nodes and the network between them: where something is wrong all stay
# in Init:Error, and the Job fails with the reason in `kubectl logs POD -c preflight` of pod 0. A pod that has not come
# after {minutes} minutes is named there. No pod talks to the API server, and nobody needs to log in to one.
"""
TO_FILL_IN = "# Fill in IMAGE: one with preflight, torch and your program, in both containers.\n"
RDMA = "# The RDMA devices of your cluster's plugin (rdma/...) belong into the limits of both containers.\n"


def write(layout: Layout) -> dict[str, str]:
    """An Indexed Job with its headless Service, or a JobSet where `like`, which lends volumes and place, is one."""
    import yaml

    class Plain(yaml.SafeDumper):
        """Writes what two containers share twice, for people to read, not as an anchor and its alias."""

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the base class passes it
            return True

    like = _like(layout.like)
    names = Names.of(_name(layout.program), is_set=like["is_set"])
    count = f"{len(layout.nodes)} pod{'s' * (len(layout.nodes) != 1)}"
    head = HEAD.format(count=count, first=names.first, minutes=JOIN_SECONDS // 60)
    head += "" if like["container"].get("image") else TO_FILL_IN
    head += RDMA if _has_rdma(layout.nodes) and not _asks_for_rdma(like) else ""
    documents = (
        (_job_set(names, layout, like),) if like["is_set"] else (_service(names, like), _job(names, layout, like))
    )
    dumped = [yaml.dump(each, Dumper=Plain, sort_keys=False, width=110, allow_unicode=True) for each in documents]
    return {f"{names.own}.yaml": head + "---\n".join(dumped)}


class Names(NamedTuple):
    """What the controllers will call the job, its first pod for its peers, and all its pods."""

    own: str
    first: str
    label: dict[str, str]

    @classmethod
    def of(cls, name: str, *, is_set: bool) -> Names:
        """Those of a Job, or of the one Job of a JobSet."""
        if is_set:
            return cls(name, f"{name}-{IN_SET}-0-0.{name}", {"jobset.sigs.k8s.io/jobset-name": name})
        return cls(name, f"{name}-0.{name}", {"job-name": name})


def _service(names: Names, like: Mapping[str, Any]) -> dict[str, Any]:
    """What gives the pods names; also before they are ready, which they are not while their init containers run."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": names.label}
    metadata = {"name": names.own, **{key: value for key, value in like["metadata"].items() if key == "namespace"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _job(names: Names, layout: Layout, like: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": names.own, **like["metadata"]}
    spec = {**_indexed(layout), "template": _template(names, layout, like)}
    spec["template"]["spec"] = {"subdomain": names.own, **spec["template"]["spec"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _job_set(names: Names, layout: Layout, like: Mapping[str, Any]) -> dict[str, Any]:
    """Its controller makes the headless service, and gives the pods their subdomain."""
    job = {"spec": {**_indexed(layout), "template": _template(names, layout, like)}}
    spec = {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "replicatedJobs": [{"name": IN_SET, "replicas": 1, "template": job}],
    }
    metadata = {"name": names.own, **like["metadata"]}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def _indexed(layout: Layout) -> dict[str, Any]:
    spec: dict[str, Any] = {"completionMode": "Indexed", "completions": len(layout.nodes)}
    # A rank that restarts alone is not let in by the others: the whole job fails, and is started again.
    return spec | {"parallelism": len(layout.nodes), "backoffLimit": 0}


def _template(names: Names, layout: Layout, like: Mapping[str, Any]) -> dict[str, Any]:
    annotations = {"kubectl.kubernetes.io/default-container": "train", "sidecar.istio.io/inject": "false"}
    return {"metadata": {"annotations": annotations}, "spec": _pod(names, layout, like)}


def _pod(names: Names, layout: Layout, like: Mapping[str, Any]) -> dict[str, Any]:
    apart = {"labelSelector": {"matchLabels": names.label}, "topologyKey": "kubernetes.io/hostname"}
    shared = {"name": "shm", "emptyDir": {"medium": "Memory"}}
    volumes = [volume for volume in like["volumes"] if volume.get("name") != "shm"]
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        **like["pod"],
        "initContainers": [_with_secret(_container("preflight", _looking(names, layout), layout, like), layout)],
        "containers": [_container("train", _training(names, layout), layout, like)],
        "volumes": [shared, *volumes],
    }


def _container(name: str, command: list[str], layout: Layout, like: Mapping[str, Any]) -> dict[str, Any]:
    rights: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if _has_rdma(layout.nodes) or _asks_for_rdma(like):
        rights["capabilities"]["add"] = ["IPC_LOCK"]  # to register memory with the adapter
    mounts = [mount for mount in like["mounts"] if mount.get("mountPath", "").rstrip("/") != "/dev/shm"]
    limits = {**like["limits"], **({_gpu(layout.nodes): layout.processes[0]} if layout.has_gpus else {})}
    variables = [{"name": each, "value": value} for each, value in _variables(layout).items()]
    own = [each for each in like["env"] if each.get("name") not in _variables(layout)]
    return {
        "name": name,
        "image": IMAGE,
        "securityContext": rights,
        **like["container"],
        "command": command,
        **({"env": [*own, *variables]} if own or variables else {}),
        **({"resources": {"limits": limits}} if limits else {}),
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}, *mounts],
    }


def _with_secret(container: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """What the pods prove to each other when they meet: the uid of their Job, random and new for each.

    Who may read the Job knows it; whoever else reaches the pods over the network does not.
    """
    if len(layout.nodes) == 1:
        return container
    uid = {"name": "PREFLIGHT_SECRET", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['controller-uid']"}}}
    own = [each for each in container.get("env", ()) if each.get("name") != "PREFLIGHT_SECRET"]
    return {**container, "env": [*own, uid]}


def _looking(names: Names, layout: Layout) -> list[str]:
    """What each pod runs before it trains: preflight as a rank of a job of its own, for which it needs no permissions.

    The index is no variable of ours: Kubernetes adds its own behind them, and expands only what stands before.
    """
    words = [*layout.command("preflight", "preflight"), "run", "--profile=quick", f"--report-dir={REPORT}"]
    if len(layout.nodes) == 1:
        return [*words, "--hosts=local"]
    # Not the training's port: a connection of the one that is still closing would keep the other from listening.
    port = layout.port + 1 if layout.port < HIGHEST_PORT else layout.port - 1
    rank = {"RANK": "$(JOB_COMPLETION_INDEX)", "WORLD_SIZE": len(layout.nodes)}
    rank |= {"MASTER_ADDR": names.first, "MASTER_PORT": port, "PREFLIGHT_JOIN_SECONDS": JOIN_SECONDS}
    return ["env", *(f"{name}={value}" for name, value in rank.items()), *words, "--hosts=torchrun"]


def _training(names: Names, layout: Layout) -> list[str]:
    words = [f"--nnodes={len(layout.nodes)}", f"--nproc-per-node={layout.processes[0]}"]
    words += ["--node-rank=$(JOB_COMPLETION_INDEX)", f"--master-addr={names.first}", f"--master-port={layout.port}"]
    # Kubernetes takes $(NAME) for a variable; written $$(NAME) it is left as it is.
    program = [word.replace("$(", "$$(") for word in layout.program]
    return [*layout.command("torchrun", "torch.distributed.run"), *words, *program]


def _variables(layout: Layout) -> dict[str, str]:
    """Those that hold in every pod: the names of interfaces and adapters only as pods see them."""
    in_pods = all(node.identity.context == "container" for node in layout.nodes)
    return shared_launch(layout) if in_pods else {}


def _name(program: tuple[str, ...]) -> str:
    """A name that a Service may have, after the program."""
    stem = os.path.splitext(os.path.basename(program[0]))[0].lower()
    name = re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:40].strip("-")
    return name if re.match("[a-z]", name) else f"train-{name}".strip("-")


def _gpu(nodes: tuple[NodeFacts, ...]) -> str:
    from preflight.facts.value import present

    names = [device.name for node in nodes for device in present(node.gpu.devices, "GPUs")]
    return "amd.com/gpu" if names and all(name.startswith("AMD") for name in names) else "nvidia.com/gpu"


def _has_rdma(nodes: tuple[NodeFacts, ...]) -> bool:
    from preflight.facts import fabric  # decodes facts: not for --help, which lists the launchers

    try:
        return any(hca.is_active for node in nodes for hca in fabric.hcas(node.rdma))
    except FactMissing:
        return False


def _asks_for_rdma(like: Mapping[str, Any]) -> bool:
    return any(str(name).startswith("rdma/") for name in like["limits"])


def _like(text: str) -> dict[str, Any]:
    """What a manifest of the user's says of its pods and their training container, as far as ours do not say it."""
    document, pod = _manifest(text)
    containers = pod.get("containers") or [{}]
    if not isinstance(containers, list) or not all(isinstance(each, dict) for each in (pod, *containers)):
        raise UsageError("--like: its pods have no list of containers")
    names = [str(each.get("name", "")) for each in containers]
    first = containers[names.index(training_container(containers, ""))] if text else {}
    metadata = _object(document, "metadata")
    return {
        "is_set": document.get("kind") == "JobSet",
        "metadata": {key: metadata[key] for key in FROM_METADATA if key in metadata},
        "pod": {key: pod[key] for key in FROM_POD if key in pod},
        "container": {key: first[key] for key in FROM_CONTAINER if key in first},
        "env": _objects(first, "env"),
        "limits": _object(_object(first, "resources"), "limits"),
        "mounts": _objects(first, "volumeMounts"),
        "volumes": _objects(pod, "volumes"),
    }


def _object(held: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = held.get(key) or {}
    if not isinstance(found, dict):
        raise UsageError(said("--like: {key} is not an object", key))
    return found


def _objects(held: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = held.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UsageError(said("--like: {key} is not a list of objects", key))
    return found


def _manifest(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first document that has pods, and the first pod of it, however deep it lies; both empty without a text."""
    if not text:
        return {}, {}
    from preflight.launch.text.located import load

    for document in load(text, "--like"):
        found = _pod_in(document)
        if found is not None:
            return document.plain(), found.plain()
    raise UsageError("--like: no manifest with pods, which have a list of containers")


def _pod_in(held: Located) -> Located | None:
    if isinstance(held.value, dict):
        if held.get("containers") is not None:
            return held
        return next((found for _, inner in held.items() if (found := _pod_in(inner)) is not None), None)
    if isinstance(held.value, list):
        return next((found for inner in held.each() if (found := _pod_in(inner)) is not None), None)
    return None


KUBERNETES = Launcher(
    name="kubernetes",
    starts_all_nodes=True,
    nodes_are_hosts=False,
    refusal="a Kubernetes manifest is started by the cluster's controller",
)
K8S = Launcher(
    name="k8s",
    description="an Indexed Job whose pods run preflight before they train",
    starts_all_nodes=True,
    equal_ranks=True,
    write=write,
    takes_like=True,
    begins_with="kubectl apply --filename",
)
