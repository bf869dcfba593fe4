"""Do lines of Ray and vLLM lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    (
        "ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead or unavailable. Node IP: 10.0.0.3. This can happen if the node was preempted, had a hardware failure, or its raylet crashed.",
        "ray-node-dead",
    ),
    ("main.cc:483: received SIGTERM. Existing local drain request = None", ""),
    (
        "(gcs_server) metric_exporter.cc:207: [1] Export metrics to agent failed: GrpcUnavailable: RPC Error message: failed to connect to all addresses",
        "",
    ),
    (
        "(gcs_server) gcs_placement_group_manager.cc:720: A new node: 7562cb registered, will try to reschedule all the infeasible placement groups.",
        "",
    ),
    ("ValueError: Current node has no GPU available. current_node_resource={'CPU': 9.0}", "ray-placement"),
    (
        "The node with node id: ada3 and address: 10.0.0.4 has been marked dead because the detector has missed too many heartbeats from it.",
        "ray-node-dead",
    ),
    ("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.", "ray-worker-died"),
    ("ConnectionError: Could not find any running Ray instance.", "ray-cannot-connect"),
    (
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (20000).",
        "vllm-context-too-long",
    ),
    (
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        "no-memory-for-kv-cache",
    ),
    ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "no-memory-for-kv-cache"),
    ("ValueError: Model architectures ['FooForCausalLM'] are not supported for now.", "unsupported-model"),
    ("ValueError: placement group bundle index 3 is invalid. Valid placement group indexes: 0-2", "ray-placement"),
    (
        "core_worker.cc:496: Failed to register worker to Raylet: IOError: [RayletClient] Unable to register worker with raylet.",
        "ray-worker-register",
    ),
    ("Exception: No node info found matching attributes", "ray-cannot-connect"),
    ("[state-dump] Infeasible queue length: 0", ""),
    ("(autoscaler +3s) Error: No available node types can fulfill resource request {'GPU': 8.0}.", "ray-placement"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
