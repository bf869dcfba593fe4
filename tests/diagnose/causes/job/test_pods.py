"""Do such lines lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("Warning  Evicted  12m  kubelet  The node was low on resource: memory.", "pod-evicted"),
    ("Warning  FailedScheduling  0/8 nodes are available: 8 Insufficient nvidia.com/gpu.", "pod-unschedulable"),
    (
        "Warning  FailedCreatePodSandBox  101s  kubelet  Failed to create pod sandbox: rpc error: code = Unknown",
        "pod-network",
    ),
    ('MountVolume.SetUp failed for volume "data" : mount failed: exit status 32', "pod-volume"),
    ('Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node', "pod-volume"),
    ('Warning  Failed  5s  kubelet  Error: secret "hf-token" not found', "pod-config"),
    (
        'Error creating: pods "job-0" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)',
        "pod-forbidden",
    ),
    (
        "Warning  TopologyAffinityError  5s  kubelet  Resources cannot be allocated with Topology locality",
        "pod-refused",
    ),
    (
        "Warning  OutOfcpu  5s  kubelet  Node didn't have enough resource: cpu, requested: 96000, used: 3000",
        "pod-refused",
    ),
    ("Startup probe failed: dial tcp 10.0.0.1:8080: connect: connection refused", "pod-replaced"),
    (
        "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed",
        "pod-unschedulable",
    ),
    ("[INFO] Flattening param group 7 on CPU (insufficient memory)", ""),
    ("Normal  NodeHasSufficientMemory  5s  kubelet  Node n1 status is now: NodeHasSufficientMemory", ""),
    ("    message: 1/8 workers are evicted", "pod-evicted"),
    (
        'error: unable to recognize "job.yaml": no matches for kind "PyTorchJob" in version "kubeflow.org/v1"',
        "kind-unknown",
    ),
    (
        'level=warning msg="unable to create PodGroup: the server could not find the requested resource (post podgroups.scheduling.volcano.sh)"',
        "kind-unknown",
    ),
    ("[state-dump] Number of spilled unschedulable leases: 0", ""),
    (
        'containerd[7]: level=error msg="failed to load cni during init, please check CRI plugin status" error="cni plugin not initialized: failed to load cni config"',
        "",
    ),
    ("Unschedulable:      false", ""),
    ("Taints:             node.kubernetes.io/unschedulable:NoSchedule", ""),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
