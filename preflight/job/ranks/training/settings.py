"""What can be asked of the training?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """What to train, and how."""

    backend: str = "gloo"
    steps: int = 12
    seed: int = 1234
    model: str = "tiny"
    strategy: str = "ddp"  # or "fsdp": FSDP2, all in shards; or "zero2": DeepSpeed's ZeRO stage 2
    precision: str = "fp32"  # or "bf16": the forward pass under autocast, parameters and optimizer in fp32
    accumulate: int = 1  # parts of a batch whose gradients are summed before they are exchanged
    checkpoint_activations: bool = False  # compute them again in the backward pass instead of keeping them
    learning_rate: float = 1e-2
    # AdamW's first step is lr * g / (|g| + eps). With the usual 1e-8 it is the sign of g: rounding noise turns whole
    # steps round where g is nearly 0, and a gradient 1.5 times too large changes nothing. At 1e-3, the size of this
    # model's gradients, noise stays noise and a wrong scale shows.
    epsilon: float = 1e-3
    weight_decay: float = 0.01
    reference_world: int = 16  # up to this many ranks, each also computes the whole batch alone
    join_seconds: float = 30.0
    wait_seconds: float = 45.0  # for an operation of NCCL: InfiniBand sends again for 30 s, then names the peer
    checkpoint_dir: str = ""  # of a file system that all nodes share
    checkpoint_name: str = "preflight"
    # The failure drill: this rank kills itself before this step of its first life; a later life goes on from the
    # checkpoint, which then lies in every node's own TMPDIR.
    drill: bool = False
    dying_rank: int = -1
    dying_step: int = -1
