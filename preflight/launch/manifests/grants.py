"""Is a pod given what its programs need of its node, and nothing that keeps them from it?"""

from __future__ import annotations

from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.manifests.group import Group
from preflight.launch.plan import fail, warn
from preflight.launch.text.located import Located
from preflight.said import said

EFA = "vpc.amazonaws.com/efa"
TCPXO = "gpudirect-tcpxo/"


def granted(group: Group, file: str) -> list[Finding]:
    """What is wrong with the devices, rights and networks that a pod is given."""
    return [*_efa_beside_the_hosts(group, file), *_tcpxo_sees_the_node(group, file)]


def sshd_may_chroot(group: Group, file: str) -> list[Finding]:
    """sshd as root changes its root folder for every login: a pod whose rights were all dropped lets nobody in."""
    for container in group.containers:
        dropped, added = (_listed(container.get("securityContext", "capabilities", part)) for part in ("drop", "add"))
        user = container.get("securityContext", "runAsUser") or group.pod.get("securityContext", "runAsUser")
        is_root = user is None or user.value == 0
        if "ALL" in dropped and is_root and not {"SYS_CHROOT", "ALL"} & added.keys():
            message = "the rights of this pod are dropped, and sshd needs SYS_CHROOT: mpirun cannot log in to it"
            fix = "capabilities: {add: [SYS_CHROOT]}"
            return [fail("launcher_reaches_every_host", message, Where(file, dropped["ALL"]), fix=fix)]
    return []


def _efa_beside_the_hosts(group: Group, file: str) -> Iterable[Finding]:
    """A hostPath of /dev/infiniband shows a pod device files that it may not open: libfabric then finds no EFA."""
    asks = any(container.get("resources", "limits", EFA) is not None for container in group.containers)
    if not asks or any(_is_privileged(container) for container in group.containers):
        return
    held = group.pod.get("volumes")
    for volume in held.each() if held is not None else ():
        path = volume.get("hostPath", "path")
        if path is not None and str(path.value).rstrip("/") == "/dev/infiniband":
            message = said(
                "/dev/infiniband of the host beside {EFA}: where the host has other adapters too, the pod may not open "
                "theirs, libfabric finds no EFA device, and NCCL goes over TCP",
                EFA,
            )
            fix = "Leave out this volume and its volumeMount: the device plugin brings the devices."
            yield warn("devices_come_from_their_plugin", message, Where(file, path.line), fix=fix)


def _tcpxo_sees_the_node(group: Group, file: str) -> Iterable[Finding]:
    """The daemon of GPUDirect-TCPXO counts the node's GPUs and takes its interfaces: it needs the node's network."""
    host = group.pod.get("hostNetwork")
    held = group.metadata.get("annotations") if group.metadata is not None else None
    has_networks = any("networking.gke.io" in name for name, _ in (held.items() if held is not None else ()))
    if (host is not None and host.value is True) or has_networks:
        return
    for container in group.containers:
        image = container.get("image")
        if image is not None and TCPXO in image.text and "nccl-plugin" not in image.text:
            message = "the daemon of GPUDirect-TCPXO without hostNetwork, or networks of its own: it finds no adapters"
            yield fail(
                "containers_share_the_network",
                message,
                Where(file, image.line),
                fix="hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet",
            )


def _listed(held: Located | None) -> dict[str, int]:
    """The rights in a list, without CAP_, and their lines."""
    return {str(one.value).upper().removeprefix("CAP_"): one.line for one in (held.each() if held is not None else ())}


def _is_privileged(container: Located) -> bool:
    held = container.get("securityContext", "privileged")
    return held is not None and held.value is True
