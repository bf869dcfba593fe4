"""How is a model trained over ranks? Whole, in shards, or by DeepSpeed, a step at a time with its clock."""

from __future__ import annotations

import math
import os
import time
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from preflight.job.ranks.training.model import SHAPES, loss_of
from preflight.job.ranks.training.wire import Wire

if TYPE_CHECKING:
    import torch
    from torch import nn

    from preflight.job.ranks.training.place import Place
    from preflight.job.ranks.training.settings import Settings


@dataclass(frozen=True)
class Step:
    """One step, as this rank saw it."""

    loss: float
    seconds: float
    communication_seconds: float
    finite: bool


class Trainee:
    """A copy of a model in training: wrapped as the strategy says, with its optimizer."""

    def __init__(self, start: nn.Module, *, settings: Settings, place: Place, group: Any = None) -> None:
        import torch

        self.settings, self.place = settings, place
        self.model = deepcopy(start)
        self.model.keeps_activations = not settings.checkpoint_activations  # type: ignore[assignment]
        self.engine: Any = WRAPPERS[settings.strategy](self.model, place, group)
        self.wire = Wire(place=place, group=group)
        if settings.strategy == "ddp":
            # A lambda: DDP rejects annotations as text.
            self.engine.register_comm_hook(None, lambda _state, bucket: self.wire.hook(bucket))
        self.optimizer: Any = torch.optim.AdamW(
            self.engine.parameters(),
            lr=settings.learning_rate,
            eps=settings.epsilon,
            weight_decay=settings.weight_decay,
        )
        if settings.strategy == "zero2":
            self.engine, self.optimizer = with_deepspeed(self.model, self.optimizer, settings)

    def timed_step(self, tokens: torch.Tensor) -> Step:
        """One optimizer step on a batch, with its clock."""
        import torch

        started = time.perf_counter()
        loss = float(self.step(tokens))
        if self.place.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        communication_seconds, finite = self.wire.read_step()
        return Step(loss, seconds, communication_seconds, finite and math.isfinite(loss))

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """One optimizer step on a batch; gives this rank's loss."""
        parts = tokens.chunk(self.settings.accumulate)
        if self.settings.strategy == "zero2":
            loss = self._step_of_deepspeed(parts)
        else:
            self.optimizer.zero_grad()
            loss = self.backward(*parts)
            self.optimizer.step()
        self.place.moved()
        return loss

    def backward(self, *parts: torch.Tensor) -> torch.Tensor:
        """The gradients of a batch given in equal parts, exchanged with the other ranks at the last of them."""
        losses = []
        for number, tokens in enumerate(parts, start=1):
            with self._quiet() if number < len(parts) else nullcontext():
                loss: Any = loss_of(self.engine, tokens, self.settings.precision) / len(parts)
                loss.backward()
            losses.append(loss.detach())
            self.place.moved()
        total: torch.Tensor = sum(losses[1:], losses[0])
        return total

    def _quiet(self) -> Any:
        """Accumulate gradients, and say nothing to the other ranks."""
        return self.engine.no_sync() if self.settings.strategy == "ddp" else FsdpQuiet(self.engine)

    def _step_of_deepspeed(self, parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """DeepSpeed counts the parts itself, and steps at the last."""
        losses = []
        for tokens in parts:
            loss = loss_of(self.engine, tokens, self.settings.precision)
            self.engine.backward(loss)
            self.engine.step()
            losses.append(loss.detach())
        total: torch.Tensor = sum(losses[1:], losses[0])
        return total / len(parts)

    def optimizer_state(self) -> list[torch.Tensor]:
        """The moments of every parameter, in the model's order."""
        states = [self.optimizer.state[parameter] for parameter in self.model.parameters()]
        return [state[name] for state in states for name in ("exp_avg", "exp_avg_sq")]


class FsdpQuiet:
    """FSDP2's no_sync."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __enter__(self) -> None:
        self.engine.set_requires_gradient_sync(False)

    def __exit__(self, *_: object) -> None:
        self.engine.set_requires_gradient_sync(True)


def with_ddp(model: nn.Module, place: Place, group: Any) -> Any:
    """Whole parameters on every rank, gradients summed over all."""
    from torch.nn.parallel import DistributedDataParallel

    devices = [place.device.index] if place.device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=devices, process_group=group)


def with_fsdp(model: nn.Module, place: Place, _group: Any) -> Any:
    """Parameters, gradients and optimizer in shards; each block gathers what it needs."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    ranks = init_device_mesh(place.device.type, (place.ranks,))
    blocks: Any = model.blocks
    for block in blocks:
        fully_shard(block, mesh=ranks)
    fully_shard(model, mesh=ranks)
    return model


def with_deepspeed(model: nn.Module, optimizer: Any, settings: Settings) -> tuple[Any, Any]:
    """ZeRO stage 2: whole parameters, gradients and optimizer in shards."""
    # What DeepSpeed compiles at its first use goes where the job's other scratch goes.
    if "TMPDIR" in os.environ:
        os.environ.setdefault("TORCH_EXTENSIONS_DIR", os.environ["TMPDIR"])
    import deepspeed

    if settings.backend == "gloo":
        # DeepSpeed would first compile its own all-reduce for the ranks of a node, for more than a minute.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    configuration = {
        "train_micro_batch_size_per_gpu": SHAPES[settings.model].batch // settings.accumulate,
        "gradient_accumulation_steps": settings.accumulate,
        "zero_optimization": {"stage": 2},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    engine, wrapped, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=configuration)
    return engine, wrapped


WRAPPERS: dict[str, Callable[[nn.Module, Place, Any], Any]] = {
    "ddp": with_ddp,
    "fsdp": with_fsdp,
    "zero2": lambda model, _place, _group: model,
}
