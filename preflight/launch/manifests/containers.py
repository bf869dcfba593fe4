"""What is wrong in a pod and its containers: shared and locked memory, network, GPUs, variables?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Field, Sourced, firm, value_of
from preflight.launch.manifests import admission, grants
from preflight.launch.manifests.group import Group
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.located import Located
from preflight.said import joined, said


def pod_problems(group: Group, file: str, *, several: bool) -> list[Finding]:
    """What is wrong in a pod, whatever it starts."""
    problems = []
    gpus = group.gpus(file)
    if group.knows_volumes and (firm(gpus) or 0) > 1:
        problems.extend(_shared_memory(group, file, gpus))
    host, policy = group.pod.get("hostNetwork"), group.pod.get("dnsPolicy")
    if (
        several
        and host is not None
        and host.value is True
        and (policy is None or policy.value != "ClusterFirstWithHostNet")
    ):
        message = (
            "hostNetwork without dnsPolicy ClusterFirstWithHostNet: the pods cannot resolve the name of rank"
            " 0's service"
        )
        problems.append(
            fail(
                "host_network_resolves_names", message, Where(file, host.line), fix="dnsPolicy: ClusterFirstWithHostNet"
            )
        )
    problems.extend(_mesh_of_services(group, file, several=several))
    problems.extend(_locked_memory(group, file))
    for container in group.containers:
        problems.extend(variables_are_texts(container, file))
        problems.extend(admission.devices_are_limited(container, file))
    problems.extend(admission.mounts_exist(group, file))
    problems.extend(grants.granted(group, file))
    return problems


def operators_containers(groups: Iterable[Group], file: str) -> list[Finding]:
    """PyTorchJob's operator looks for a container that is called pytorch, and its ranks want one image."""
    problems: list[Finding] = []
    images: dict[str, tuple[str, Where]] = {}
    for group in groups:
        named = {str(name.value): held for held in group.containers if (name := held.get("name")) is not None}
        if len(named) == len(group.containers) > 0 and "pytorch" not in named:
            message = said("no container of {role} is called pytorch: the operator refuses the job", group.role)
            where = Where(file, group.containers[0].line)
            problems.append(fail("operator_finds_its_container", message, where, fix="name: pytorch"))
        image = named["pytorch"].get("image") if "pytorch" in named else None
        if image is not None:
            images.setdefault(image.text, (group.role, Where(file, image.line)))
    if len(images) > 1:
        listed = joined([said("{image} in {role}", image, role) for image, (role, _) in images.items()])
        places = [place for _, place in images.values()]
        problems.append(
            warn(
                "images_agree",
                said("the image differs: {listed}", listed),
                *places,
                fix="The same image on every node.",
            )
        )
    return problems


INJECT = "sidecar.istio.io/inject"


def _mesh_of_services(group: Group, file: str, *, several: bool) -> list[Finding]:
    """A sidecar of Istio takes every connection of its pod: those of the rendezvous and of NCCL too."""
    held = [group.metadata.get(part, INJECT) for part in ("annotations", "labels")] if group.metadata else []
    asked = next((found for found in held if found is not None and str(found.value).lower() == "true"), None)
    if asked is None or not several:
        return []
    message = said(
        "{INJECT}: true: the sidecar takes the connections of rendezvous and NCCL, and the pod never completes", INJECT
    )
    return [warn("no_proxy_between_the_pods", message, Where(file, asked.line), fix=f'{INJECT}: "false"')]


LIFTED = "coreweave"  # whose nodes limit no memory, and whose own manifests ask for no right to lock it


def _keys(pod: Located, metadata: Located | None) -> Iterable[str]:
    """The labels by which a pod chooses its nodes, and its own."""
    terms = pod.get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for term in terms.each() if terms is not None else ():
        held = term.get("matchExpressions")
        yield from (str(key.value) for one in (held.each() if held else ()) if (key := one.get("key")) is not None)
    for held in (pod.get("nodeSelector"), metadata.get("labels") if metadata is not None else None):
        yield from (name for name, _ in (held.items() if held is not None else ()))


def _locked_memory(group: Group, file: str) -> list[Finding]:
    """RDMA registers memory, for which a container needs IPC_LOCK."""
    if any(LIFTED in key for key in _keys(group.pod, group.metadata)):
        return []
    for container in group.containers:
        limits = container.get("resources", "limits")
        rdma = next((held for name, held in limits.items() if name.startswith("rdma/")), None) if limits else None
        rights = container.get("securityContext", "capabilities", "add")
        names = {str(held.value) for held in rights.each()} if rights else set()
        privileged = container.get("securityContext", "privileged")
        if rdma is None or names & {"IPC_LOCK", "ALL", "SYS_RESOURCE"} or (privileged and privileged.value is True):
            continue
        message = (
            "an RDMA device, and no IPC_LOCK: where the container runtime limits locked memory, ibv_reg_mr fails with"
            " Cannot allocate memory"
        )
        fix = "securityContext: {capabilities: {add: [IPC_LOCK]}}"
        return [warn("containers_lock_memory", message, Where(file, rdma.line), fix=fix)]
    return []


ENOUGH_MEBIBYTES = 1000  # people write 1G and 1Gi
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)(i?)")


def _mebibytes(text: str) -> float:
    """A quantity of Kubernetes, roughly; one that cannot be read is taken for enough."""
    found = SIZE.fullmatch(text.strip())
    scale = 1024 ** ("KMGTP".index(found[2]) - 1) if found is not None and found[2] else 1 / 1024**2
    return float(found[1]) * scale if found is not None else float(ENOUGH_MEBIBYTES)


INTERFACES = frozenset({"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"})
# What a host has for its pods: none of them is inside of one.
OF_THE_HOST = re.compile(r"(cali|veth|lxc|cni|flannel|docker|tunl|kube-|cilium_|nodelocal|br-)\S*")
OF_A_POD = re.compile(r"(e|et|eth\d*|net\d*|lo)")


def given_to(group: Group, plans: Iterable[Plan]) -> list[tuple[str, str, int]]:
    """The variables of a group's containers, and those that its commands export: name, value, line."""
    entries = [entry for container in group.containers if (held := container.get("env")) for entry in held.each()]
    pairs = [(entry.get("name"), entry.get("value")) for entry in entries]
    given = [(name.text, value.text.strip(), value.line) for name, value in pairs if name is not None and value]
    exported = [
        (name, str(held.value).strip(), held.line)
        for plan in plans
        for name, held in plan.environment.items()
        if isinstance(held, Sourced) and held.origin == "written" and name not in {known for known, *_ in given}
    ]
    return list(dict.fromkeys([*given, *exported]))


def interfaces_are_there(group: Group, plans: Iterable[Plan], file: str) -> list[Finding]:
    """A pod has eth0, and those that annotations or claims of devices give it; the host's are not there."""
    host = group.pod.get("hostNetwork")
    if host is not None and host.value is True:
        return []
    given = group.metadata.get("annotations") if group.metadata is not None else None
    has_more = any("network" in name for name, _ in (given.items() if given is not None else ()))
    has_more = has_more or group.pod.get("resourceClaims") is not None
    found = []
    for name, text, line in given_to(group, plans):
        if name in INTERFACES and "$" not in text:
            names = [] if text.startswith("^") else [one.strip() for one in text.lstrip("=").split(",")]
            where = Where(file, line)
            if names and all(OF_THE_HOST.fullmatch(one) for one in names):
                message = said(
                    "{name}={text} is what the host calls an interface of its pods: inside a pod it is not there",
                    name,
                    text,
                )
                found.append(fail("interfaces_are_the_pods", message, where, fix=f"{name}: eth0"))
            elif names and not has_more and not any(OF_A_POD.fullmatch(one) for one in names):
                message = said(
                    "{name}={text}: a pod without hostNetwork has only eth0, unless it is given more", name, text
                )
                fix = said("{name}: eth0, or hostNetwork: true", name)
                found.append(warn("interfaces_are_the_pods", message, where, fix=fix))
    return found


def _shared_memory(group: Group, file: str, gpus: Field[int]) -> list[Finding]:
    """NCCL passes data between the GPUs of a pod through /dev/shm, of which a container has 64 MiB."""
    ipc = group.pod.get("hostIPC")
    if ipc is not None and ipc.value is True:
        return []
    held = group.pod.get("volumes")
    volumes = {str(name.value): volume for volume in (held.each() if held else []) if (name := volume.get("name"))}
    where = gpus.where if isinstance(gpus, Sourced) else Where(file, group.pod.line)
    fix = (
        "volumes: [{name: shm, emptyDir: {medium: Memory}}] in the pod,"
        " and volumeMounts: [{name: shm, mountPath: /dev/shm}] in the container"
    )
    for container in group.containers:
        mounts = container.get("volumeMounts")
        for mount in mounts.each() if mounts else []:
            path, name = mount.get("mountPath"), mount.get("name")
            if path is not None and str(path.value).rstrip("/") == "/dev/shm" and name is not None:
                volume = volumes.get(str(name.value))
                if (
                    volume is not None
                    and volume.get("emptyDir") is not None
                    and volume.get("emptyDir", "medium") is None
                ):
                    message = said(
                        "the volume {value} at /dev/shm lies on the node's disk: medium: Memory is missing", name.value
                    )
                    return [warn("pods_have_shared_memory", message, Where(file, volume.line), fix=fix)]
                limit = volume.get("emptyDir", "sizeLimit") if volume is not None else None
                if limit is not None and _mebibytes(limit.text) < ENOUGH_MEBIBYTES:
                    message = said(
                        "{text} at /dev/shm for {value_of} GPUs: NCCL and data loaders need more",
                        limit.text,
                        value_of(gpus),
                    )
                    return [warn("pods_have_shared_memory", message, Where(file, limit.line), fix="sizeLimit: 16Gi")]
                return []
    message = said(
        "{value_of} GPUs in a pod and no volume at /dev/shm: a container has 64 MiB there, NCCL and "
        "data loaders need more",
        value_of(gpus),
    )
    return [warn("pods_have_shared_memory", message, where, fix=fix)]


def variables_are_texts(container: Located, file: str) -> list[Finding]:
    """The value of a variable is a text: the cluster refuses a bare number or true."""
    held = container.get("env")
    found = []
    for entry in held.each() if held is not None else ():
        value, name = entry.get("value"), entry.get("name")
        if value is not None and name is not None and isinstance(value.value, (int, float)):
            kind = "a boolean" if isinstance(value.value, bool) else "a number"
            message = said(
                "{value}: {text} is {kind}, and the value of a variable is a text: the cluster refuses it",
                name.value,
                value.text,
                kind,
            )
            found.append(
                fail("variables_are_texts", message, Where(file, value.line), fix=said('value: "{text}"', value.text))
            )
    return found
