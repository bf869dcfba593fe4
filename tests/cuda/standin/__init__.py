"""What do the GPUs of a host look like that has none? Runs inside the ranks, below torch.

Only the standard library and torch: it is loaded by the interpreter of a node, which has nothing of ours.
"""

import json
import os
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Description:
    """The GPUs of a host, from the JSON of STAND_IN_CUDA."""

    gpus: int = 8
    model: str = "NVIDIA H100 80GB HBM3"
    capability: tuple = (9, 0)
    memory_bytes: int = 80 << 30
    free_bytes: int = 79 << 30  # as CUDA tells it
    slices: tuple = ()  # of MIG: the GPU, "3g.40gb" and the bytes of each
    integrated: bool = False  # whether its memory is the host's, of which CUDA takes for used what files fill
    matmul_tflops: float = 720.0
    memory_gbytes_per_s: float = 2900.0
    host_gbytes_per_s: float = 55.0
    uplink: str = ""  # a folder that stands for the one way to the host which all GPUs share; "" where each has its own
    slow: dict = field(default_factory=dict)  # GPU -> share of these figures that it reaches
    late: dict = field(default_factory=dict)  # rank -> seconds for which a peer still sends when its kernel has ended
    failing: tuple = ()  # GPUs whose kernels fail, which shows where somebody waits for them
    wrong: tuple = ()  # GPUs whose products are wrong now and then
    crooked: tuple = ()  # GPUs whose products of a narrow matrix are wrong
    reasons: dict = field(default_factory=dict)  # GPU -> bits that NVML gives for a slow-down under load
    pcie: dict = field(default_factory=dict)  # GPU -> the generation of its PCIe link, where it is not 5
    nccl: tuple = (2, 27, 3)
    deaf: bool = False  # whether NCCL reads NCCL_ALGO for its first communicator alone
    network: str = "Socket"
    ports: tuple = ()  # as NCCL lists them: mlx5_0:1/IB
    gdr: bool = True
    nvls: object = (
        None  # what NCCL says of it: "", "not ", or "lost" where it cannot bind memory; None where it does not look
    )
    lost: tuple = ()  # what the plugin that should be there says before NCCL goes on without it
    seconds_scale: float = 1.0  # of what torch's watchdog sleeps
    wait_seconds: float = 0.0  # in place of the workload's own, so that a test need not wait so long


def described():
    """What STAND_IN_CUDA says."""
    return Description(**json.loads(os.environ["STAND_IN_CUDA"]))


def put_under(torch):
    """Give torch GPUs, NVML, and a NCCL that talks over Gloo."""
    from standin import functions, gpu, nccl, nvml

    description = described()
    memory = gpu.put_under(torch, description)
    nvml.put_under(description)
    nccl.put_under(torch, description, memory)
    for part in (functions, gpu, nccl):
        vars(part)["__name__"] = f"torch.{part.__name__}"  # a rank that waits stands within torch, as one does on a GPU
