"""All known causes, subject by subject."""

from __future__ import annotations

from preflight.diagnose.causes import (
    collectives,
    files,
    gpu,
    kernel,
    launch,
    memory,
    names,
    nccl,
    network,
    rdma,
    rendezvous,
    scheduler,
    serving,
    software,
    training,
)

SUBJECTS = {
    "gpu": gpu.CAUSES,
    "memory": memory.CAUSES,
    "kernel": kernel.CAUSES,
    "names": names.CAUSES,
    "network": network.CAUSES,
    "rdma": rdma.CAUSES,
    "nccl": nccl.CAUSES,
    "collectives": collectives.CAUSES,
    "rendezvous": rendezvous.CAUSES,
    "launch": launch.CAUSES,
    "software": software.CAUSES,
    "files": files.CAUSES,
    "scheduler": scheduler.CAUSES,
    "serving": serving.CAUSES,
    "training": training.CAUSES,
}
CAUSES = tuple(cause for causes in SUBJECTS.values() for cause in causes)
