"""Do lines of a node of Kubernetes lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from tests.diagnose.causes.lines import found

SILENT = '2112 kubelet.go:2327] "Skipping pod synchronization" err="PLEG is not healthy: pleg was last seen active 3m12s ago; threshold is 3m0s"'
LINES = (
    (SILENT, "container-runtime-silent"),
    (
        '2112 remote_runtime.go:222] "RunPodSandbox from runtime service failed" err="rpc error: code = DeadlineExceeded desc = context deadline exceeded"',
        "container-runtime-silent",
    ),
    (
        '2112 remote_runtime.go:432] "ContainerStatus from runtime service failed" err="rpc error: code = NotFound desc = an error occurred"',
        "",
    ),
    (
        'Warning  Failed  2m  kubelet  Error: failed to reserve container name "trainer_0": name "trainer_0" is reserved for "d0f4"',
        "container-runtime-silent",
    ),
    (
        'Warning  FailedKillPod  1m  kubelet  error killing pod: failed to "KillContainer" for "t" with KillContainerError: "rpc error: code = DeadlineExceeded desc = context deadline exceeded"',
        "container-runtime-silent",
    ),
    (
        'endpoint.go:106] "listAndWatch ended unexpectedly for device plugin" err="rpc error: code = Unavailable" resourceName="nvidia.com/gpu"',
        "",
    ),
    (
        "Warning  FailedPrepareDynamicResources  10s  kubelet  Failed to prepare dynamic resources: NodePrepareResources failed for claim team/gpu-claim",
        "device-claim",
    ),
    ('eviction_manager.go:366] "Eviction manager: must evict pod(s) to reclaim" resourceName="memory"', "pod-evicted"),
    ('eviction_manager.go:341] "Eviction manager: attempting to reclaim" resourceName="ephemeral-storage"', ""),
    (
        "  Ready   Unknown   Tue, 10 Feb 2026 10:00:00 +0000   NodeStatusUnknown   Kubelet stopped posting node status.",
        "node-fail",
    ),
    (
        'failed to pull and unpack image "reg.local/t:1": failed to resolve reference "reg.local/t:1": failed to do request: x509: certificate signed by unknown authority',
        "image-pull",
    ),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one node."""
    assert found(line) == cause


def test_a_runtime_that_answers_again_is_no_failure():
    """The kubelet says that containers start."""
    started = 'kubelet.go:1865] "SyncLoop (PLEG): event for pod" pod="t/a-0" event={"ID":"a","Type":"ContainerStarted"}'
    assert diagnose([SILENT]).has_failed
    assert not diagnose([SILENT, started]).has_failed
