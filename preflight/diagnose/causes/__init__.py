"""All known causes, subject by subject."""

from __future__ import annotations

from preflight.diagnose.causes.collectives import backends, nccl, nccl_paths, rendezvous, timeouts
from preflight.diagnose.causes.hardware import accelerators, cuda, gpu, kernel, memory
from preflight.diagnose.causes.job import (
    cloud,
    containers,
    files,
    kubelet,
    launch,
    mpi,
    pods,
    scheduler,
    serving,
    slurm,
    slurm_requests,
    software,
    training,
)
from preflight.diagnose.causes.network import connections, fabrics, names, rdma, slingshot, ucx

SUBJECTS = {
    "gpu": gpu.CAUSES,
    "cuda": cuda.CAUSES,
    "accelerators": accelerators.CAUSES,
    "memory": memory.CAUSES,
    "kernel": kernel.CAUSES,
    "names": names.CAUSES,
    "connections": connections.CAUSES,
    "rdma": rdma.CAUSES,
    "fabrics": fabrics.CAUSES,
    "slingshot": slingshot.CAUSES,
    "ucx": ucx.CAUSES,
    "nccl": nccl.CAUSES,
    "nccl_paths": nccl_paths.CAUSES,
    "timeouts": timeouts.CAUSES,
    "backends": backends.CAUSES,
    "rendezvous": rendezvous.CAUSES,
    "launch": launch.CAUSES,
    "mpi": mpi.CAUSES,
    "software": software.CAUSES,
    "files": files.CAUSES,
    "scheduler": scheduler.CAUSES,
    "slurm": slurm.CAUSES,
    "slurm_requests": slurm_requests.CAUSES,
    "containers": containers.CAUSES,
    "pods": pods.CAUSES,
    "kubelet": kubelet.CAUSES,
    "cloud": cloud.CAUSES,
    "serving": serving.CAUSES,
    "training": training.CAUSES,
}
CAUSES = tuple(cause for causes in SUBJECTS.values() for cause in causes)
