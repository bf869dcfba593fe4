"""What do tests/data/said/ranked.txt list of a trainee: how a model is wrapped, stepped and timed?"""

from __future__ import annotations

import math
import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import device_mesh, fsdp
from torch.nn import parallel

from preflight.job.ranks.training import trainee, wire
from preflight.job.ranks.training.settings import Settings
from tests.instead import entries, instead, instead_of
from tests.job.ranks.meeting_cast import Moments
from tests.job.ranks.stepped import Small, place_of

GPU: Any = types.SimpleNamespace(type="cuda", index=3)


class Engine:
    """What trains, wrapped: it says what it is asked."""

    def __init__(self, said: list[str], model: Small) -> None:
        self.said, self.model = said, model

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        self.said.append(f"looks at {tokens.tolist()}")
        return self.model(tokens)

    def parameters(self) -> Any:
        """Those of the model."""
        return self.model.parameters()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """As DDP has it."""
        self.said.append("quiet")
        yield
        self.said.append("loud")

    def set_requires_gradient_sync(self, wanted: bool) -> None:
        """As FSDP has it."""
        self.said.append(f"exchanges {wanted}")

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """As DDP has it."""
        self.said.append(f"hooked {state} {hook(None, 'a bucket')}")

    def backward(self, loss: torch.Tensor) -> None:
        """As DeepSpeed has it."""
        self.said.append(f"back from {loss.item():.4f}")

    def step(self) -> None:
        """As DeepSpeed has it."""
        self.said.append("steps")


class Optimizer:
    """Says what it is asked."""

    def __init__(self, said: list[str], parameters: Any, **named: float) -> None:
        self.said = said
        said.append(f"optimizes {len(list(parameters))} {named}")

    def zero_grad(self) -> None:
        """Forget."""
        self.said.append("forgets")

    def step(self) -> None:
        """Move."""
        self.said.append("moves")


def of_trainees() -> Iterator[str]:
    """What a step asks of what is wrapped, part by part, and how long and how good it is said to be."""
    batch = torch.tensor([[1, 2], [3, 1], [0, 2], [2, 2]])
    for strategy, parts, on_gpu in product(("ddp", "fsdp", "zero2"), (1, 2, 4), (False, True)):
        said: list[str] = []
        moves: list[int] = []
        clock = Moments()
        clock.perf_counter = lambda clock=clock: clock.sleep(0.5) or clock.passed  # type: ignore[attr-defined]

        def wraps(model: Any, place: Any, group: Any, said: list[str] = said) -> Engine:
            said.append(f"wrapped at {place.rank} in {group}")
            return Engine(said, model)

        def deeply(model: Any, optimizer: Any, _settings: Settings, said: list[str] = said) -> tuple[Engine, Any]:
            said.append(f"DeepSpeed of {type(optimizer).__name__}")
            return Engine(said, model), optimizer

        place = place_of(1, 2, moved=lambda: moves.append(1))  # noqa: B023
        given = Settings(strategy=strategy, accumulate=parts, learning_rate=0.125, epsilon=0.25, weight_decay=0.5)
        with (
            instead_of(trainee, WRAPPERS={strategy: wraps}, time=clock, with_deepspeed=deeply),
            instead(torch.optim, "AdamW", partial(Optimizer, said)),
            instead(trainee.Wire, "hook", lambda _wire, bucket: f"with {bucket}"),
            instead(trainee.Wire, "read_step", gives=(0.25, True)),
            instead(torch.cuda, "synchronize", partial(said.append, "waits for the GPU")),
        ):
            start = Small()
            one = trainee.Trainee(start, settings=given, place=place, group="group")
            if on_gpu:
                one.place = types.SimpleNamespace(device=GPU, moved=place.moved)  # type: ignore[assignment]
            found = one.timed_step(batch)
        gradients = [f"{float(held.grad.sum()):.4e}" for held in one.model.parameters() if held.grad is not None]
        figures = f"{found.loss:.4e} {found.seconds} {found.communication_seconds} {len(moves)} moves"
        yield f"{strategy} {parts} {on_gpu}: {figures} {one.model is start} {gradients}"
        yield f"  {said}"
    for keeps, finite, loss in product((True, False), (True, False), (1.0, math.nan)):
        place = place_of(0, 1)
        with (
            instead_of(trainee, WRAPPERS={"fsdp": lambda model, _place, _group: Engine([], model)}),
            instead(torch.optim, "AdamW", partial(Optimizer, [])),
        ):
            one = trainee.Trainee(
                Small(), settings=Settings(strategy="fsdp", checkpoint_activations=keeps), place=place
            )
        one.step = lambda _tokens, loss=loss: torch.tensor(loss)  # type: ignore[method-assign]
        one.wire.read_step = lambda finite=finite: (0.0, finite)  # type: ignore[method-assign]
        yield f"{keeps} {finite} {loss}: {one.model.keeps_activations} {one.timed_step(batch).finite}"
    one.optimizer = types.SimpleNamespace(
        state={held: {"exp_avg": 1, "exp_avg_sq": 2} for held in one.model.parameters()}
    )
    yield f"{one.optimizer_state()}"
    yield from of_wrappers()
    yield from of_wires()


def of_wrappers() -> Iterator[str]:
    """What torch and DeepSpeed are asked for."""
    said: list[str] = []
    model: Any = types.SimpleNamespace(
        blocks=["first", "second"],
        parameters=lambda: [types.SimpleNamespace(data="a"), types.SimpleNamespace(data="b")],
    )
    with (
        instead(parallel, "DistributedDataParallel", lambda _model, **named: named),
        instead(dist, "broadcast", lambda held, *, src: said.append(f"{held} from {src}")),
        instead(device_mesh, "init_device_mesh", lambda *words: said.append(f"mesh {words}") or "mesh"),
        instead(
            fsdp, "fully_shard", lambda held, *, mesh: said.append(f"shards {held if held != model else 'all'} {mesh}")
        ),
    ):
        yield f"{sorted(trainee.WRAPPERS)} {trainee.WRAPPERS['zero2'](model, None, None) is model}"  # type: ignore[arg-type]
        for device in (place_of(0, 1).device, GPU):
            place: Any = types.SimpleNamespace(device=device, ranks=4)
            yield f"{trainee.WRAPPERS['ddp'](model, place, 'group')}"
            yield f"{trainee.WRAPPERS['fsdp'](model, place, 'group') is model} {said}"
            said.clear()
    for given, environ in product(
        ({"accumulate": 2}, {"backend": "nccl", "model": "small"}),
        ({}, {"TMPDIR": "/t"}, {"TMPDIR": "/t", "TORCH_EXTENSIONS_DIR": "/own"}),
    ):
        theirs: Any = types.SimpleNamespace(
            ops=types.SimpleNamespace(__compatible_ops__={"deepspeed_shm_comm": "usual"}),
            initialize=lambda **named: (f"engine of {named}", "wrapped", None, None),
        )
        with entries("sys.modules", {"deepspeed": theirs}), entries("os.environ", environ, clear=True):
            told = trainee.with_deepspeed("model", "optimizer", Settings(**given))  # type: ignore[arg-type]
            where = os.environ.get("TORCH_EXTENSIONS_DIR")
        yield f"{given} {environ}: {told} {where} {theirs.ops.__compatible_ops__} {'deepspeed' in sys.modules}"


class Moment:
    """One of a GPU."""

    made = 0

    def __init__(self, *, enable_timing: bool) -> None:
        self.is_timed, self.at = enable_timing, math.nan

    def record(self) -> None:
        """A second after the one before."""
        Moment.made += 1
        self.at = Moment.made * 1000.0

    def elapsed_time(self, other: Moment) -> float:
        """Milliseconds."""
        return other.at - self.at if self.is_timed and other.is_timed else math.nan


def of_wires() -> Iterator[str]:
    """What goes into the exchange, and how long a step waits for it."""
    for device, values, keeps in product(
        (place_of(0, 1).device, GPU), ([1.0, 4.0], [1.0, math.inf], [math.nan, 1.0]), (True, False)
    ):
        asked: list[str] = []
        later: list[Any] = []

        def reduced(held: torch.Tensor, *, group: Any, async_op: bool, asked: Any = asked, later: Any = later) -> Any:
            asked.append(f"{held.tolist()} in {group} {async_op}")
            future: Any = types.SimpleNamespace(then=later.append)
            return types.SimpleNamespace(get_future=lambda: future)

        clock = Moments()
        clock.perf_counter = lambda clock=clock: clock.sleep(1.0) or clock.passed  # type: ignore[attr-defined]
        place: Any = types.SimpleNamespace(device=device)
        one = wire.Wire(place=place, group="group")
        one.keeps_what_is_sent = keeps
        buckets = []
        for number in range(2):
            held = torch.tensor(values) * (number + 1)
            parameters = [torch.zeros(1), torch.zeros(1)]
            buckets.append(parameters)
            bucket = types.SimpleNamespace(
                buffer=lambda held=held: held,
                parameters=lambda parameters=parameters: parameters,
                gradients=lambda held=held: list(held.split(1)),
            )
            with (
                instead(dist, "all_reduce", reduced),
                instead(dist, "get_world_size", does={"group": 2}.get),
                instead(wire, "time", clock),
                instead(torch.cuda, "Event", Moment),
            ):
                asked.append(str(one.hook(bucket)))
        with instead(wire, "time", clock), instead(torch.cuda, "Event", Moment):
            asked += [str(work(types.SimpleNamespace(value=lambda: ["the sum"]))) for work in later]
            sent = [[one.sent[id(each)].tolist() for each in some if id(each) in one.sent] for some in buckets]
            yield f"{device.type} {values} {keeps}: {asked} {sent} {one.read_step()} {one.read_step()}"
    one = wire.Wire(place=place_of(0, 1), group=None)
    one.begun, one.ended = [5.0], [3.0]
    yield f"{one.read_step()}"
