"""Does a real DistributedDataParallel training over these ranks compute what one process would? A small one shows it.

By hand, on CPU (gloo); every rank prints its records, one JSON object a line:

    torchrun --nproc-per-node=2 train.py
    torchrun --nnodes=2 --node-rank=N --nproc-per-node=1 --master-addr=HOST --master-port=29500 train.py
    RANK=N WORLD_SIZE=2 MASTER_ADDR=HOST MASTER_PORT=29500 python train.py

Settings are a JSON object: PREFLIGHT_SETTINGS='{"backend": "nccl", "strategy": "fsdp", "precision": "bf16"}'.

The file reads as the job runs: what is trained, a rank among the others, the training itself; then each claim that is
checked on it, what is reported of it, and the life of one rank.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import math
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    import torch
    from torch import nn

    Gradients = list[torch.Tensor]  # one for each parameter, in the model's order

# How far two computations of one gradient may be apart, relative to it. fp32 rounds at 2^-24 and ends at about 1e-6,
# also between kinds of processors; bf16 rounds at 2^-8, and a batch in other pieces is rounded elsewhere.
AGREEMENT = {"fp32": 1e-3, "bf16": 5e-2}
REPLAYED_STEPS = 3
ALONE_STEPS = 5  # the first of them sets up buckets and is not counted
PATIENCE_SECONDS = 5.0  # for a file that another rank wrote: shared file systems show it late
PROJECTIONS = 4  # on fixed pseudo-random vectors, for each parameter
GO_SECONDS = 150.0  # by then the controller has long stopped waiting
AFTER_SECONDS = 5.0  # torch's watchdog needs so long to write its file and to end the process
ERROR_CHARACTERS = 4000  # the last lines of NCCL's error hold the cause
SPOILT = 1e9  # stands for a distance that is no number: JSON has no NaN


# ---- what is trained -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """The size of a model and of what it is shown."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    length: int
    batch: int


SHAPES = {
    "tiny": Shape(layers=2, width=64, heads=4, vocabulary=128, length=64, batch=4),
    "small": Shape(layers=6, width=512, heads=8, vocabulary=1024, length=256, batch=8),
    "medium": Shape(layers=12, width=768, heads=12, vocabulary=8192, length=512, batch=8),
}


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
    reference_world: int = 16  # up to so many ranks each one also computes the whole batch by itself
    join_seconds: float = 30.0
    wait_seconds: float = 45.0  # for an operation of NCCL: InfiniBand sends again for 30 s, then names the peer
    checkpoint_dir: str = ""  # of a file system that all nodes share
    checkpoint_name: str = "preflight"
    # The failure drill: this rank kills itself before this step of its first life; a later life goes on from the
    # checkpoint, which then lies in every node's own TMPDIR.
    drill: bool = False
    dying_rank: int = -1
    dying_step: int = -1


def build_model(shape: Shape) -> nn.Module:
    """A small GPT: causal attention and a feed-forward layer, with pre-normalisation, `layers` times."""
    from torch import nn
    from torch.nn import functional
    from torch.utils.checkpoint import checkpoint

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before_attention = nn.LayerNorm(shape.width)
            self.queries_keys_values = nn.Linear(shape.width, 3 * shape.width, bias=False)
            self.attended = nn.Linear(shape.width, shape.width, bias=False)
            self.before_feed_forward = nn.LayerNorm(shape.width)
            self.up = nn.Linear(shape.width, 4 * shape.width, bias=False)
            self.down = nn.Linear(4 * shape.width, shape.width, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            count, length, width = x.shape
            heads = self.queries_keys_values(self.before_attention(x)).view(count, length, 3, shape.heads, -1)
            queries, keys, values = heads.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
            x = x + self.attended(mixed.transpose(1, 2).reshape(count, length, width))
            grown: torch.Tensor = self.down(functional.gelu(self.up(self.before_feed_forward(x))))
            return x + grown

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.keeps_activations = True
            self.token = nn.Embedding(shape.vocabulary, shape.width)
            self.position = nn.Embedding(shape.length, shape.width)
            self.blocks = nn.ModuleList(Block() for _ in range(shape.layers))
            self.head = nn.Sequential(nn.LayerNorm(shape.width), nn.Linear(shape.width, shape.vocabulary, bias=False))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            """The mean loss of predicting each token from those before it."""
            given, wanted = tokens[:, :-1], tokens[:, 1:]
            x = self.token(given) + self.position.weight[: given.shape[1]]
            for block in self.blocks:
                x = block(x) if self.keeps_activations else checkpoint(block, x, use_reentrant=False)
            return functional.cross_entropy(self.head(x).float().flatten(0, 1), wanted.flatten())

    return Model()


def loss_of(model: Any, tokens: torch.Tensor, precision: str) -> torch.Tensor:
    """The loss of a model, wrapped or not, on a batch, in the precision that is trained in."""
    import torch

    with torch.autocast(tokens.device.type, dtype=torch.bfloat16, enabled=precision == "bf16"):
        loss: torch.Tensor = model(tokens)
    return loss


def sample(index: int, shape: Shape) -> list[int]:
    """Sample `index`: a line through the vocabulary of slope 1, 2 or 3: each token follows from those before."""
    start, slope = index * 7919, 1 + index % 3
    return [(start + slope * place) % shape.vocabulary for place in range(shape.length + 1)]


class Data:
    """Every rank's samples, dealt by torch's DistributedSampler: one epoch, each sample once."""

    def __init__(self, *, settings: Settings, place: Place) -> None:
        self.shape, self.settings, self.place = SHAPES[settings.model], settings, place

    def indices(self, rank: int) -> list[int]:
        """All samples of a rank, in the order in which it uses them."""
        from torch.utils.data import DistributedSampler

        everything = range(self.settings.steps * self.shape.batch * self.place.ranks)
        sampler: Any = DistributedSampler
        return list(sampler(everything, num_replicas=self.place.ranks, rank=rank, seed=self.settings.seed))

    def batch(self, rank: int, step: int) -> torch.Tensor:
        """What a rank is shown at a step."""
        import torch

        chosen = self.indices(rank)[step * self.shape.batch : (step + 1) * self.shape.batch]
        return torch.tensor([sample(index, self.shape) for index in chosen], device=self.place.device)

    def load(self) -> tuple[list[torch.Tensor], float]:
        """Every batch of this rank, and the median seconds that making one took."""
        batches, seconds = [], []
        for step in range(self.settings.steps):
            started = time.perf_counter()
            batches.append(self.batch(self.place.rank, step))
            seconds.append(time.perf_counter() - started)
        return batches, statistics.median(seconds)


# ---- a rank among the others -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Who this rank is."""

    rank: int
    ranks: int
    device: torch.device
    import_seconds: float
    first_here: int  # the lowest rank on this node
    life: int  # how often torchrun has started the ranks again
    store: Any = None  # where all ranks met


def keep_what_is_written(rank: int) -> None:
    """Let NCCL's log and torch's flight recorder go to files of ours, which the node keeps if the job fails.

    Else the recorder's file lies in the user's cache, over that of the user's own job; and before it ends a process the
    watchdog sleeps four times the milliseconds below, so that every rank can write its own.
    """
    folder = os.environ.get("TMPDIR", "/tmp")
    trace = os.path.join(folder, "preflight-trace-rank")  # torch appends the number
    os.environ |= {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET",
        "NCCL_DEBUG_FILE": os.path.join(folder, f"preflight-nccl-rank{rank}"),
        "TORCH_FR_DUMP_TEMP_FILE": trace,
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": trace,
        "TORCH_FR_BUFFER_SIZE": "200",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "200",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "500",
    }


def watch(records: Records, *, seconds: float, ranks: int) -> None:
    """End this rank, with its reason, once it has stood still for so long: a call into NCCL or CUDA never gives up.

    torch's own watchdog comes first where there is one: none looks at the making of a communicator.
    """
    import threading

    def look() -> None:
        while time.monotonic() - records.moved < seconds or records.at in {"checkpoint", "done"}:
            time.sleep(0.5)
        why = f"TimeoutError: Timed out waiting {seconds:.0f} s at stage {records.at}: another rank does not answer"
        if ranks == 1:
            why = (
                f"TimeoutError: nothing moved for {seconds:.0f} s at stage {records.at}: a call into CUDA or NCCL hangs"
            )
        records.send({"record": "failed", "stage": records.at, "error": why})
        dump_trace(records.rank)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def dump_trace(rank: int) -> None:
    """Write what torch's flight recorder holds, as its watchdog would; older ones have none."""
    import torch

    c10d: Any = getattr(torch._C, "_distributed_c10d", None)  # noqa: SLF001 - torch gives it no public name
    dump = getattr(c10d, "_dump_nccl_trace", None)
    prefix = os.environ.get("TORCH_FR_DUMP_TEMP_FILE", "")
    if dump is None or not prefix or os.path.exists(f"{prefix}{rank}"):
        return
    with open(f"{prefix}{rank}", "wb") as file:
        file.write(dump())


def own_gpu(seen: int) -> int:
    """The number of this rank's GPU among those it sees: where Slurm shows each task its own alone, that is 0."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    return 0 if "PREFLIGHT_OWN_GPUS" in os.environ and local >= seen > 0 else local


def own_device(settings: Settings) -> torch.device:
    """What this rank computes on; all that says no device goes to its GPU too."""
    import torch

    if settings.backend != "nccl":
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


def join(*, settings: Settings, records: Records) -> Place:
    """Import torch, meet the other ranks, and exchange a first word with them."""
    from datetime import timedelta

    records.stage("import")
    started = time.perf_counter()
    import torch
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    import_seconds = time.perf_counter() - started
    load_the_rest()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # as torchrun does: ranks on one host must not fight for its cores
    cuda = settings.backend == "nccl"
    device = own_device(settings)

    records.stage("rendezvous")
    records.await_go()
    started = time.perf_counter()
    patience = timedelta(seconds=settings.join_seconds)
    store, rank, ranks = next(rendezvous("env://", timeout=patience))
    records.stage("communicator")
    if cuda:
        patience = timedelta(seconds=settings.wait_seconds)
        watch(records, seconds=settings.wait_seconds + AFTER_SECONDS, ranks=ranks)
    dist.init_process_group(
        settings.backend,
        store=store,
        rank=rank,
        world_size=ranks,
        timeout=patience,
        **(bound(device) if cuda else {}),
    )
    place = Place(
        rank=rank,
        ranks=ranks,
        device=device,
        import_seconds=import_seconds,
        first_here=rank - int(os.environ.get("LOCAL_RANK", "0")),
        life=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        store=store,
    )
    if "ACCELERATE_MIXED_PRECISION" in os.environ:
        look_through_accelerate(place)
    nccl: Any = torch.cuda.nccl
    from_every_rank([0.0], place=place)  # NCCL connects at the first operation only
    records.send(
        {
            "record": "joined",
            "rank": rank,
            "hostname": socket.gethostname(),
            "device": name_of(device),
            "import_seconds": import_seconds,
            "init_seconds": time.perf_counter() - started,
            "nccl": ".".join(str(part) for part in nccl.version()) if cuda else "",
        }
    )
    return place


def load_the_rest() -> None:
    """Import what the first optimizer would: a thousand files.

    On a busy file system they take longer than ranks wait for each other in a step; for an import all have time.
    """
    import torch

    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])


def look_through_accelerate(place: Place) -> None:
    """Whether accelerate, which started this rank, takes it for what it is: its worlds of one train in silence."""
    from accelerate import PartialState

    seen = PartialState(cpu=place.device.type == "cpu")
    if (seen.num_processes, seen.process_index) != (place.ranks, place.rank):
        world = f"accelerate sees a world of {seen.num_processes} and rank {seen.process_index}"
        raise RuntimeError(f"{world}; wanted {place.ranks} and {place.rank}")


def leave_together(place: Place, *, seconds: float) -> None:
    """Wait until every rank is through: NCCL may still send. Rank 0 keeps the store, and leaves last."""
    from datetime import timedelta

    for step in ("done", "heard"):
        key = f"preflight/{place.life}/{step}"
        if place.store.add(key, 1) == place.ranks:
            place.store.set(f"{key}/all", "")
        if step == "done" or place.rank == 0:
            place.store.wait([f"{key}/all"], timedelta(seconds=seconds))


def from_every_rank(values: list[float], *, place: Place) -> list[list[float]]:
    """These values of all ranks, in rank order."""
    import torch
    import torch.distributed as dist

    mine = torch.tensor(values, dtype=torch.float64, device=place.device)
    everyone = [torch.empty_like(mine) for _ in range(place.ranks)]
    dist.all_gather(everyone, mine)
    return [one.tolist() for one in everyone]


# ---- the training ----------------------------------------------------------------------------------------------------


def train(*, settings: Settings, place: Place, records: Records) -> None:
    """Train, check every claim on what was trained, and report."""
    import torch

    torch.manual_seed(settings.seed)
    data = Data(settings=settings, place=place)
    start = build_model(data.shape).to(place.device)
    trainee = Trainee(start, settings=settings, place=place)
    # Of the very model that is trained, before its first step; what is hung on that later is not on this one.
    start.load_state_dict({name: whole(value) for name, value in trainee.model.state_dict().items()})
    batches, data_seconds = data.load()
    checkpoint = Checkpoint(settings=settings, place=place)

    found: dict[str, Any] = {"data_seconds_median": data_seconds}
    begin = checkpoint.read_into(trainee) if settings.drill and place.life else 0
    steps = []
    for number in range(begin, settings.steps):
        if (number, place.rank, place.life) == (settings.dying_step, settings.dying_rank, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        trainee.wire.keeps_what_is_sent = number == 0
        steps.append(trainee.timed_step(batches[number]))
        records.moved = time.monotonic()
        if number == 0:
            gc.freeze()  # what torch has imported until now stays to the end: no step is to wait for a look through it
            gc.enable()
            found |= check_first_step(trainee, start, data=data)
            records.stage("running")
        if number + 1 == checkpoint.step and checkpoint.path:
            records.stage("checkpoint")
            checkpoint.write(trainee)
            records.stage("running")
    if settings.drill:
        tell_of_all(steps, begin=begin, data=data, records=records, figures={})
        return

    records.stage("checking")
    found["parameters_digest"] = digest(list(trainee.model.parameters()))
    found["optimizer_digest"] = digest(trainee.optimizer_state()) if settings.strategy == "ddp" else ""
    found |= check_samples(data) | check_again(start, batches, steps, data=data)
    found["alone_step_seconds_median"] = time_alone(start, batches, data=data)
    if checkpoint.path:
        records.stage("checkpoint")
        found |= check_resuming(start, checkpoint, batches, steps, data=data)
    size = sum(parameter.numel() * parameter.element_size() for parameter in start.parameters())
    figures = {"gradient_bytes": size, "samples_missing": found.pop("samples_missing")}
    tell_of_this_rank(steps, found, data=data, records=records)
    tell_of_all(steps, begin=begin, data=data, records=records, figures=figures)


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
            return self._step_of_deepspeed(parts)
        self.optimizer.zero_grad()
        loss = self.backward(*parts)
        self.optimizer.step()
        return loss

    def backward(self, *parts: torch.Tensor) -> torch.Tensor:
        """The gradients of a batch given in equal parts, exchanged with the other ranks at the last of them."""
        losses = []
        for number, tokens in enumerate(parts, start=1):
            with self._quiet() if number < len(parts) else nullcontext():
                loss: Any = loss_of(self.engine, tokens, self.settings.precision) / len(parts)
                loss.backward()
            losses.append(loss.detach())
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
        # An all-reduce of its own for the ranks of one node, which it would first compile: for more than a minute.
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


class Wire:
    """Stands where DDP hands a bucket of gradients to the all-reduce: sees what goes in, times what comes out."""

    def __init__(self, *, place: Place, group: Any) -> None:
        self.place, self.group = place, group
        self.keeps_what_is_sent = False
        self.sent: dict[int, torch.Tensor] = {}  # by id of the parameter
        self.extremes: list[torch.Tensor] = []  # NaN where a gradient is
        self.begun: list[Any] = []  # moments; one for each bucket of the step
        self.ended: list[Any] = []

    def hook(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        """The mean over ranks, as DDP's own hook computes it."""
        import torch.distributed as dist

        buffer = bucket.buffer()
        if self.keeps_what_is_sent:
            self.sent.update(
                (id(parameter), gradient.detach().clone())
                for parameter, gradient in zip(bucket.parameters(), bucket.gradients())
            )
        self.extremes += buffer.aminmax()  # isfinite() would cost a hundred times as much
        self.begun.append(self._now())
        work = dist.all_reduce(buffer.div_(dist.get_world_size(self.group)), group=self.group, async_op=True)

        def reduced(future: torch.futures.Future[Any]) -> torch.Tensor:
            self.ended.append(self._now())
            total: torch.Tensor = future.value()[0]
            return total

        mean: torch.futures.Future[torch.Tensor] = work.get_future().then(reduced)
        return mean

    def _now(self) -> Any:
        """A moment: on a GPU one of the stream that runs the work, since the host is far ahead of it."""
        if self.place.device.type == "cpu":
            return time.perf_counter()
        import torch

        event: Any = torch.cuda.Event
        event = event(enable_timing=True)
        event.record()
        return event

    def read_step(self) -> tuple[float, bool]:
        """Seconds that the step waited for the exchange, and whether all that went into it was finite.

        Buckets leave while the backward pass goes on; it is over with the last of them, and what follows is waiting.
        """
        seconds = 0.0
        if self.begun and self.place.device.type == "cpu":
            seconds = max(self.ended) - self.begun[-1]
        elif self.begun:
            seconds = max(self.begun[-1].elapsed_time(ended) for ended in self.ended) / 1e3
        finite = all(math.isfinite(one) for one in self.extremes)
        self.begun, self.ended, self.extremes = [], [], []
        return max(seconds, 0.0), finite


# ---- claim: on the first step every rank's gradient, and the step itself, are what one process computes --------------


def check_first_step(trainee: Trainee, copy: nn.Module, *, data: Data) -> dict[str, Any]:
    """How far this rank's gradient is from its peers' for the same samples, and its parameters from one process'.

    The gradient is caught on its way into the first all-reduce, after whatever this site hung on the model, and
    compared with what ranks r-1 and r-2 compute for r's samples on a plain copy of the model. Once gradients are
    summed every rank holds the same, also when one rank spoilt them: equal parameters prove nothing about that.
    """
    import torch

    place, settings, seed = data.place, data.settings, data.settings.seed
    parameters, sent = list(trainee.model.parameters()), trainee.wire.sent

    # Rank r computes for r, r+1 and r+2, so r's own gradient is known to r, r-1 and r-2.
    reach = min(3, place.ranks)
    said: list[float] = []
    if sent:
        said += fingerprint([sent[id(parameter)] for parameter in parameters], seed=seed)
    for ahead in range(reach):
        tokens = data.batch((place.rank + ahead) % place.ranks, 0)
        said += fingerprint(gradients_of(copy, tokens, settings.precision), seed=seed)
    length = len(parameters) * PROJECTIONS
    if not sent:  # in shards it cannot be seen what a single rank put in
        said = said[:length] + said
    everyone = from_every_rank(said, place=place)

    def computed_by(behind: int) -> list[float]:
        """What the rank that far before this one computed, on its plain copy, for this one's samples."""
        return everyone[(place.rank - behind) % place.ranks][(1 + behind) * length : (2 + behind) * length]

    peers = [computed_by(behind) for behind in range(1, reach)]
    reference, agreed = consensus(computed_by(0), peers, within=AGREEMENT[settings.precision])

    starts = [parameter.detach() for parameter in copy.parameters()]
    moved = fingerprint([whole(now) - start for now, start in zip(parameters, starts)], seed=seed)
    if place.ranks <= settings.reference_world:
        together = torch.cat([data.batch(rank, 0) for rank in range(place.ranks)])
        gradients = gradients_of(copy, together, settings.precision)
        ends = [first_adamw_step(*pair, settings) for pair in zip(starts, gradients)]
        wanted = fingerprint([end - start for end, start in zip(ends, starts)], seed=seed)
    else:  # too many samples for one process: the movement that most ranks made, which are equal to the last bit
        moves = Counter(tuple(one) for one in from_every_rank(moved, place=place))
        wanted = list(moves.most_common(1)[0][0])
    return {
        "gradient_error": distance(said[:length], reference),
        "reference_agreed": agreed,
        # Measured on the step, not on the parameters: they are so much larger that a wrong step would hardly show.
        "parameters_error": distance(moved, wanted),
    }


def gradients_of(model: nn.Module, tokens: torch.Tensor, precision: str) -> Gradients:
    """The gradients of one batch, on a model that no one else holds."""
    import torch

    loss = loss_of(model, tokens, precision)
    return [gradient.detach() for gradient in torch.autograd.grad(loss, list(model.parameters()))]


def first_adamw_step(parameter: torch.Tensor, gradient: torch.Tensor, settings: Settings) -> torch.Tensor:
    """AdamW's first step from its formula, without torch.optim: nothing hung on the optimizer acts here.

    After one step the bias-corrected moments are g and g * g.
    """
    decayed = parameter * (1 - settings.learning_rate * settings.weight_decay)
    return decayed - settings.learning_rate * gradient / (gradient.abs() + settings.epsilon)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself; of one that is in shards, all of it (every rank must ask)."""
    sharded: Any = tensor.detach()
    found: torch.Tensor = sharded.full_tensor() if hasattr(sharded, "full_tensor") else sharded
    return found


def fingerprint(tensors: list[torch.Tensor], *, seed: int) -> list[float]:
    """PROJECTIONS numbers for each tensor that distinguish it from any other, the same on every kind of device."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    found: list[float] = []
    for tensor in tensors:
        total = torch.zeros(PROJECTIONS, dtype=torch.float64)
        values = whole(tensor).flatten().cpu().double()
        for start in range(0, len(values), 1 << 20):
            chunk = values[start : start + (1 << 20)]
            vectors = torch.rand(PROJECTIONS, len(chunk), generator=generator, dtype=torch.float64) - 0.5
            total += vectors @ chunk
        found += total.tolist()
    return found


def distance(ours: list[float], reference: list[float]) -> float:
    """How far `ours` is from the reference, relative to it, at the parameter where that is worst.

    A parameter whose gradient is under 1 % of the whole is measured against that 1 %: its own noise is no error.
    """
    all_of_it = math.hypot(*reference)
    worst = 0.0
    for start in range(0, len(reference), PROJECTIONS):
        part, wanted = ours[start : start + PROJECTIONS], reference[start : start + PROJECTIONS]
        relative = math.dist(part, wanted) / max(math.hypot(*wanted), all_of_it / 100, sys.float_info.min)
        if not relative < SPOILT:
            return SPOILT
        worst = max(worst, relative)
    return worst


def consensus(own: list[float], peers: list[list[float]], *, within: float) -> tuple[list[float], bool]:
    """The gradient of a rank's samples as others computed it, and whether all who computed it agree.

    Peers that agree are believed, whatever the rank itself computes. Where they do not, its own plain copy has the
    casting vote: the computation nearest to all the others, together, is taken.
    """
    everyone = [*peers, own]
    agreed = all(distance(left, right) < within for left in everyone for right in everyone)
    if peers and all(distance(peer, peers[0]) < within for peer in peers):
        return peers[0], agreed
    return min(everyone, key=lambda one: statistics.median(distance(other, one) for other in everyone)), agreed


# ---- claim: after the last step every rank holds the same to the last bit --------------------------------------------


def digest(tensors: list[torch.Tensor]) -> str:
    """Equal only if every bit of every tensor is."""
    bits = hashlib.sha256()
    for tensor in tensors:
        values = whole(tensor).cpu().contiguous()
        bits.update(ctypes.string_at(values.data_ptr(), values.numel() * values.element_size()))  # without numpy
    return bits.hexdigest()[:16]


# ---- claim: each sample is used by one rank, the one it is dealt to --------------------------------------------------


def check_samples(data: Data) -> dict[str, Any]:
    """Whether this rank's samples are those that it should have, how many others use too, and how many no rank uses.

    What it should have comes from the formula, without DistributedSampler, with the seed that most ranks have.
    """
    import torch

    place, settings = data.place, data.settings
    count = settings.steps * data.shape.batch
    mine = [*data.indices(place.rank), *[-1] * count][:count]
    everyones = from_every_rank([settings.seed, *mine], place=place)
    seed = Counter(int(one[0]) for one in everyones).most_common(1)[0][0]
    dealt = torch.randperm(count * place.ranks, generator=torch.Generator().manual_seed(seed)).tolist()
    others = {index for rank, one in enumerate(everyones) if rank != place.rank for index in one[1:]}
    return {
        "samples_digest": hashlib.sha256(",".join(map(str, mine)).encode()).hexdigest()[:16],
        "samples_right": mine == dealt[place.rank :: place.ranks],
        "samples_shared": sum(index in others for index in mine),
        "samples_missing": count * place.ranks - len(others.union(mine) - {-1}),
    }


# ---- claims: the same seed gives the same losses again; parts of a batch add up to the whole -------------------------


def check_again(start: nn.Module, batches: list[torch.Tensor], steps: list[Step], *, data: Data) -> dict[str, Any]:
    """Train the first steps once more, and take one batch in two halves: both must give what was there before."""
    settings, seed = data.settings, data.settings.seed
    again = Trainee(start, settings=settings, place=data.place)
    found = {"replay_error": distance_of_losses(again, batches[:REPLAYED_STEPS], steps)}
    if settings.strategy != "zero2":
        again.optimizer.zero_grad()
        again.backward(batches[0])
        large = fingerprint(held_gradients(again.model), seed=seed)
        again.optimizer.zero_grad()
        again.backward(*batches[0].chunk(2))
        found["accumulation_error"] = distance(fingerprint(held_gradients(again.model), seed=seed), large)
    return found


def distance_of_losses(trainee: Trainee, batches: list[torch.Tensor], steps: list[Step]) -> float:
    """Train on these batches: how far the losses are from those of `steps`, where that is worst."""
    return max(difference(float(trainee.step(tokens)), then.loss) for tokens, then in zip(batches, steps))


def difference(ours: float, wanted: float) -> float:
    """How far a loss is from another, relative to it; what is no number is no different from no number."""
    if math.isfinite(ours) and math.isfinite(wanted):
        return abs(ours - wanted) / max(abs(wanted), sys.float_info.min)
    return 0.0 if math.isfinite(ours) == math.isfinite(wanted) else SPOILT


def held_gradients(model: nn.Module) -> Gradients:
    """The gradients that a model holds now."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


# ---- claim: a checkpoint written once is read by all, and training goes on from it to the same losses ----------------


class Checkpoint:
    """One file, written after half of the steps."""

    def __init__(self, *, settings: Settings, place: Place) -> None:
        self.place = place
        self.step = settings.steps // 2
        self.is_shared = bool(settings.checkpoint_dir)
        folder = settings.checkpoint_dir or (os.environ.get("TMPDIR", "") if settings.drill else "")
        self.path = os.path.join(folder, f"{settings.checkpoint_name}.pt") if folder else ""
        self.error = ""
        self.bits = 0.0  # of the file's digest, as many as a float holds
        self.remover: subprocess.Popen[bytes] | None = None

    def write(self, trainee: Trainee) -> None:
        """Write the state of model and optimizer: rank 0 for all, or one rank a node where the folder is its own."""
        import torch
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

        # Offloaded, the whole state comes together on rank 0 only.
        options = StateDictOptions(full_state_dict=True, cpu_offload=self.is_shared)
        model, optimizer = get_state_dict(trainee.engine, trainee.optimizer, options=options)
        if self.place.rank != (0 if self.is_shared else self.place.first_here):
            return
        if self.is_shared:
            # Removes the file once this rank closes the pipe, or is gone, however it went.
            words = 'trap "" TERM; cat; rm -f -- "$1" "$1.part"'
            self.remover = subprocess.Popen(["sh", "-c", words, "sh", self.path], stdin=subprocess.PIPE)
        try:
            with open(self.path + ".part", "wb") as file:
                torch.save({"model": model, "optimizer": optimizer, "step": self.step}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self.path + ".part", self.path)
            self.bits = self._digest()
        except (OSError, RuntimeError) as error:
            self.error = f"{type(error).__name__}: {error}"[:300]

    def read_into(self, trainee: Trainee) -> int:
        """Put the file's state into a model and its optimizer; gives the number of the step to go on with."""
        import torch
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

        found = torch.load(self.path, map_location="cpu", weights_only=True)
        set_state_dict(
            trainee.engine,
            trainee.optimizer,
            model_state_dict=found["model"],
            optim_state_dict=found["optimizer"],
            options=StateDictOptions(full_state_dict=True),
        )
        return int(found["step"])

    def find(self) -> str:
        """Why this rank cannot read what rank 0 wrote, or nothing."""
        wanted = from_every_rank([self.bits], place=self.place)[0][0]
        if not wanted:
            return self.error  # of rank 0 alone: the others have nothing to read
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if self._digest() == wanted:
                    return ""
                why = f"{self.path} is not the file that rank 0 wrote"
            except OSError as error:
                why = f"{self.path}: {error.strerror}"
            if time.monotonic() > end:
                return why
            time.sleep(0.2)

    def remove(self) -> None:
        """Leave nothing in the user's folder, once every rank is done with it."""
        from_every_rank([0.0], place=self.place)
        if self.remover:
            self.remover.communicate()

    def _digest(self) -> float:
        with open(self.path, "rb") as file:
            return float(int.from_bytes(hashlib.sha256(file.read()).digest()[:6], "big") + 1)


def check_resuming(
    start: nn.Module, checkpoint: Checkpoint, batches: list[torch.Tensor], steps: list[Step], *, data: Data
) -> dict[str, Any]:
    """Read the checkpoint on every rank and train its second half again: the losses must be the same."""
    error = checkpoint.find()
    found: dict[str, Any] = {"checkpoint_error": error}
    errors = from_every_rank([float(bool(error))], place=data.place)
    if not any(one[0] for one in errors):
        resumed = Trainee(start, settings=data.settings, place=data.place)
        begin = checkpoint.read_into(resumed)
        found["resume_error"] = distance_of_losses(resumed, batches[begin:], steps[begin:])
    checkpoint.remove()
    return found


# ---- speed -----------------------------------------------------------------------------------------------------------


def time_alone(start: nn.Module, batches: list[torch.Tensor], *, data: Data) -> float | None:
    """Median seconds of a step when each node trains by itself, at the same time; None where there is one node."""
    import torch.distributed as dist

    place = data.place
    first_ranks = [int(one[0]) for one in from_every_rank([place.first_here], place=place)]
    if len(set(first_ranks)) == 1 or data.settings.strategy != "ddp":
        return None
    here = [rank for rank, first in enumerate(first_ranks) if first == place.first_here]
    group: Any = dist.new_group(here, use_local_synchronization=True)
    alone = Trainee(start, settings=data.settings, place=place, group=group)
    from_every_rank([0.0], place=place)  # all begin together
    seconds = [alone.timed_step(tokens).seconds for tokens in batches[:ALONE_STEPS]]
    return statistics.median(seconds[1:] or seconds)


def memory_peak_bytes(device: torch.device) -> int:
    """The most that this rank held: of its GPU, or of the host."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


# ---- what is reported ------------------------------------------------------------------------------------------------


class Records:
    """JSON lines to the local socket that PREFLIGHT_RECORDS names, or to stdout when started by hand."""

    def __init__(self, *, rank: int) -> None:
        self.rank = rank
        self.at = "import"
        self.moved = time.monotonic()
        self.socket = None
        if "PREFLIGHT_RECORDS" in os.environ:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect("\0" + os.environ["PREFLIGHT_RECORDS"])
            self.socket.sendall(json.dumps({"rank": rank}).encode() + b"\n")

    def send(self, record: dict[str, Any]) -> None:
        """One record; a line is written whole, so that ranks sharing a terminal do not mix theirs."""
        if self.socket:
            self.socket.sendall(json.dumps(record, allow_nan=False).encode() + b"\n")
        else:
            os.write(1, json.dumps({"rank": self.rank, **record}).encode() + b"\n")

    def await_go(self) -> None:
        """Wait until every rank has imported torch: none is to time out because another's file system is slow."""
        if self.socket:
            self.socket.settimeout(GO_SECONDS)
            with suppress(socket.timeout):  # then the time-outs of c10d hold
                self.socket.recv(16)
            self.socket.settimeout(None)

    def stage(self, name: str) -> None:
        """Where this rank is now: a rank that hangs is found by the last stage it sent."""
        self.at = name
        self.moved = time.monotonic()
        self.send({"record": "stage", "stage": name})


def tell_of_this_rank(steps: list[Step], found: dict[str, Any], *, data: Data, records: Records) -> None:
    """Send what this rank found."""
    place, count = data.place, len(steps)
    steady = steps[1:] or steps  # the first one sets up connections and buckets

    # Of a node with a CPU quota many steps are as fast as elsewhere and some stand still: a median would not see it.
    own = sorted(step.seconds - step.communication_seconds for step in steady)
    own = own[: math.ceil(0.9 * len(own))]  # without the slowest tenth, which may be anybody's

    # Gathered at the end, not at each step: nothing of ours disturbs the steps.
    spoilt_at = next((number for number, step in enumerate(steps) if not step.finite), count)
    everyones = from_every_rank([spoilt_at], place=place)
    records.send(
        {
            "record": "trained",
            "rank": place.rank,
            "hostname": socket.gethostname(),
            "device": name_of(place.device),
            "step_seconds_median": statistics.median(step.seconds for step in steady),
            "step_seconds_p95": sorted(step.seconds for step in steady)[math.ceil(0.95 * len(steady)) - 1],
            "communication_seconds_median": statistics.median(step.communication_seconds for step in steady),
            "compute_seconds_mean": statistics.fmean(own),
            **found,
            "import_seconds": place.import_seconds,
            # After one rank's infinity all ranks have it in the next step: it counts only where it came first.
            "finite": spoilt_at == count or spoilt_at > min(one[0] for one in everyones),
            "memory_peak_bytes": memory_peak_bytes(place.device),
        }
    )


def tell_of_all(steps: list[Step], *, begin: int, data: Data, records: Records, figures: dict[str, Any]) -> None:
    """Rank 0 sends what is of all ranks together."""
    place, count, steady = data.place, len(steps), steps[1:] or steps
    everyones = from_every_rank([*(s.loss for s in steps), *(s.seconds for s in steady)], place=place)
    if place.rank:
        return
    losses = [statistics.fmean(of_all) for of_all in zip(*(one[:count] for one in everyones))]
    until = next((number for number, loss in enumerate(losses) if not math.isfinite(loss)), count)
    slowest = [max(of_all) for of_all in zip(*(one[count:] for one in everyones))]
    rate = place.ranks * data.shape.batch * data.shape.length / statistics.median(slowest)
    records.send({"record": "losses", "losses": losses[:until], "tokens_per_s": rate, "begin": begin, **figures})


# ---- the life of one rank --------------------------------------------------------------------------------------------


def main() -> int:
    """Join, train, report; the result is in the records."""
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        sys.exit(f"{', '.join(missing)} not set: start it with one of the lines at the top of this file")
    records = Records(rank=int(os.environ["RANK"]))
    gc.disable()  # importing torch and DDP makes no garbage, and looking for it takes a fifth of that time
    try:
        settings = Settings(**json.loads(os.environ.get("PREFLIGHT_SETTINGS", "{}")))
        if settings.backend == "nccl" and records.socket:
            keep_what_is_written(records.rank)
        place = join(settings=settings, records=records)
        records.stage("first_step")
        train(settings=settings, place=place, records=records)
        if settings.backend == "nccl":
            leave_together(place, seconds=settings.wait_seconds)
        records.stage("done")
        records.send({"record": "done"})
    except Exception as error:  # whatever the error is, the controller must learn where this rank stopped
        why = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
        records.send({"record": "failed", "stage": records.at, "error": why})
        return 1
    return 0


if __name__ == "__main__":
    # No teardown: gloo + DDP can abort in it after all work is done, and the records are what counts.
    os._exit(main())
