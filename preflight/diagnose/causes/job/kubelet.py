"""Which words of a node of Kubernetes say that its container runtime, or what hands out its devices, does not answer?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

CAUSES = (
    Cause(
        "container-runtime-silent",
        "the container runtime of a node (containerd, CRI-O) did not answer in time, so its pods neither start nor end",
        (
            r"pleg is not healthy",
            r"container runtime is down",
            r"container runtime sanity check failed",
            r"(?:runpodsandbox|createcontainer|startcontainer|stopcontainer) from runtime service failed.*deadline ?exceeded",
            r"failed to reserve (?:container|sandbox) name",
            r"kill(?:container|podsandbox)error: .*deadline ?exceeded",
            r"error reserving (?:ctr|pod) name",
        ),
        "look at the load, the disk and the runtime of that node (`journalctl -u containerd`, `crictl ps`, `iostat -x 1`): many large"
        " images unpacked at once, or a file system that hangs, hold it up; restart containerd, or drain the node",
        "kubernetes/kubernetes, pkg/kubelet; containerd/containerd",
        Kind.SUSPICION,
        check="files.network_file_systems_answer",
        weight=6,
        passed=(
            r"kubelet\S*(?: \S+)?\s+started container",
            r"\bpleg\b.*containerstarted",
            r"status is now: nodeready",
        ),
    ),
    Cause(
        "device-plugin-lost",
        "the kubelet lost the plugin that hands out GPUs or RDMA devices: the plugin was restarted, or it ended",
        (
            r"listandwatch ended unexpectedly for device plugin",
            r"mark all resources unhealthy for resource",
        ),
        "look at the plugin's pod on that node and at its log (`kubectl get pods -A -o wide | grep plugin`); the node's"
        " Allocatable must be its Capacity again",
        "kubernetes/kubernetes, pkg/kubelet/cm/devicemanager",
        Kind.NOTE,
        check="gpu.count_is_the_same_on_every_node",
        weight=3,
    ),
    Cause(
        "device-claim",
        "the devices that a pod claims (dynamic resource allocation) could not be prepared on its node",
        (
            r"failed to prepare dynamic resources",
            r"cannot allocate all claims",
        ),
        "read the log of the driver that the claim names on that node (its kubelet plugin), and `kubectl describe resourceclaim`;"
        " the driver must be of a version that this Kubernetes supports",
        "kubernetes/kubernetes, dynamic resource allocation",
        weight=6,
        passed=(r"kubelet\S*(?: \S+)?\s+started container",),
    ),
)
