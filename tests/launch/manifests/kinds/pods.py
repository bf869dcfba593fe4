"""Pods for the manifests of tests, and the command that runs in them."""

from __future__ import annotations

AGENT = "torchrun, --nnodes={nodes}, --nproc_per_node=8, --node_rank={rank}, --master_addr={address}, t.py"


def pod(command: str, *, gpus: int = 8, more: str = "") -> str:
    """A pod of one container, as a flow mapping of one line."""
    container = f"name: a, command: {command}, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}"
    container += ", volumeMounts: [{name: shm, mountPath: /dev/shm}]"
    return f"{{containers: [{{{container}}}], volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}]{more}}}"
