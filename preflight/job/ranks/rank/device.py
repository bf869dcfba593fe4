"""Which device does a rank compute on, and what is its name?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def own_gpu(seen: int) -> int:
    """The number of this rank's GPU among those it sees: where Slurm shows each task its own alone, that is 0."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    return 0 if "PREFLIGHT_OWN_GPUS" in os.environ and local >= seen > 0 else local


def own_device(backend: str) -> torch.device:
    """What this rank computes on; all that says no device goes to its GPU too."""
    import torch

    if backend != "nccl":
        return torch.device("cpu")
    device = torch.device("cuda", own_gpu(torch.cuda.device_count()))
    torch.cuda.set_device(device)
    return device


def name_of(device: torch.device) -> str:
    """A device as its node counts it: the GPU that a task of Slurm sees alone has the number of the task there."""
    is_own = device.type == "cuda" and "PREFLIGHT_OWN_GPUS" in os.environ
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if is_own else str(device)


def bound(device: torch.device) -> dict[str, Any]:
    """Arguments that tie a process group to its GPU, where torch knows them: its communicator is then made at once."""
    import inspect

    import torch.distributed as dist

    return {"device_id": device} if "device_id" in inspect.signature(dist.init_process_group).parameters else {}
