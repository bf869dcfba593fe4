"""Does a real DistributedDataParallel training over these ranks compute what one process would? A small one tells.

By hand, on CPU (gloo); every rank prints its records, one JSON object a line:

    torchrun --nproc-per-node=2 train.py
    torchrun --nnodes=2 --node-rank=N --nproc-per-node=1 --master-addr=HOST --master-port=29500 train.py
    RANK=N WORLD_SIZE=2 MASTER_ADDR=HOST MASTER_PORT=29500 python train.py

Settings are a JSON object: PREFLIGHT_SETTINGS='{"backend": "nccl", "steps": 12}'.

Rank r's gradient is caught on its way into the first all-reduce, after whatever this site hung on the model, and
compared with the gradient for r's samples that ranks r-1 and r-2 compute on a plain copy of the model. Once gradients
are summed every rank holds the same, also when one rank spoilt them: equal parameters prove nothing about that.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import socket
import statistics
import sys
import time
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn

    Gradients = list[torch.Tensor]  # one for each parameter, in the model's order

AGREEMENT = 1e-3  # two computations of one gradient differ by rounding, about 1e-6, also between kinds of processors
PROJECTIONS = 4  # on fixed pseudo-random vectors, for each parameter
SPOILT = 1e9  # stands for a distance that is no number: JSON has no NaN


# ---- settings and records --------------------------------------------------------------------------------------------


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
}


@dataclass(frozen=True)
class Settings:
    """What to train."""

    backend: str = "gloo"
    steps: int = 12
    seed: int = 1234
    model: str = "tiny"
    learning_rate: float = 1e-2
    # AdamW's first step is lr * g / (|g| + eps). With the usual 1e-8 it is the sign of g: rounding noise turns whole
    # steps round where g is nearly 0, and a gradient 1.5 times too large changes nothing. At 1e-3, the size of this
    # model's gradients, noise stays noise and a wrong scale shows.
    epsilon: float = 1e-3
    weight_decay: float = 0.01
    reference_world: int = 16  # up to so many ranks each one also computes the whole batch by itself
    join_seconds: float = 30.0


class Records:
    """JSON lines to the local socket that PREFLIGHT_RECORDS names, or to stdout when started by hand."""

    def __init__(self, *, rank: int) -> None:
        self.rank = rank
        self.at = "import"
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

    def stage(self, name: str, **what: Any) -> None:
        """Where this rank is now: a rank that hangs is found by the last stage it sent."""
        self.at = name
        self.send({"record": "stage", "stage": name, **what})


# ---- judging fingerprints: plain arithmetic, no torch ----------------------------------------------------------------


def distance(ours: list[float], reference: list[float]) -> float:
    """How far `ours` is from the reference, relative to it, at the parameter where that is worst.

    A parameter whose gradient is under 1 % of the whole is measured against that 1 %: its own noise is no error.
    """
    whole = math.hypot(*reference)
    worst = 0.0
    for start in range(0, len(reference), PROJECTIONS):
        part, wanted = ours[start : start + PROJECTIONS], reference[start : start + PROJECTIONS]
        relative = math.dist(part, wanted) / max(math.hypot(*wanted), whole / 100, sys.float_info.min)
        if not relative < SPOILT:
            return SPOILT
        worst = max(worst, relative)
    return worst


def consensus(own: list[float], peers: list[list[float]]) -> tuple[list[float], bool]:
    """The gradient of a rank's samples as others computed it, and whether all who computed it agree.

    Peers that agree are believed, whatever the rank itself computes. Where they do not, its own plain copy has the
    casting vote: the computation nearest to all the others, together, is taken.
    """
    everyone = [*peers, own]
    agreed = all(distance(left, right) < AGREEMENT for left in everyone for right in everyone)
    if peers and all(distance(peer, peers[0]) < AGREEMENT for peer in peers):
        return peers[0], agreed
    return min(everyone, key=lambda one: statistics.median(distance(other, one) for other in everyone)), agreed


# ---- model and data --------------------------------------------------------------------------------------------------


def build_model(shape: Shape) -> nn.Module:
    """A small GPT: causal attention and a feed-forward layer, with pre-normalisation, `layers` times."""
    from torch import nn
    from torch.nn import functional

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
            self.token = nn.Embedding(shape.vocabulary, shape.width)
            self.position = nn.Embedding(shape.length, shape.width)
            self.blocks = nn.Sequential(*[Block() for _ in range(shape.layers)])
            self.head = nn.Sequential(nn.LayerNorm(shape.width), nn.Linear(shape.width, shape.vocabulary, bias=False))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            """The mean loss of predicting each token from those before it."""
            told, wanted = tokens[:, :-1], tokens[:, 1:]
            x = self.token(told) + self.position.weight[: told.shape[1]]
            return functional.cross_entropy(self.head(self.blocks(x)).flatten(0, 1), wanted.flatten())

    return Model()


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


# ---- the reference: what a single process computes -------------------------------------------------------------------


def gradients_of(model: nn.Module, tokens: torch.Tensor) -> Gradients:
    """The gradients of one batch, on a model that no one else holds."""
    import torch

    return [gradient.detach() for gradient in torch.autograd.grad(model(tokens), list(model.parameters()))]


def first_adamw_step(parameter: torch.Tensor, gradient: torch.Tensor, settings: Settings) -> torch.Tensor:
    """AdamW's first step from its formula, without torch.optim: nothing hung on the optimizer acts here.

    After one step the bias-corrected moments are g and g * g.
    """
    decayed = parameter * (1 - settings.learning_rate * settings.weight_decay)
    return decayed - settings.learning_rate * gradient / (gradient.abs() + settings.epsilon)


def fingerprint(tensors: list[torch.Tensor], *, seed: int) -> list[float]:
    """PROJECTIONS numbers for each tensor that tell it from any other, the same on every kind of device."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    found: list[float] = []
    for tensor in tensors:
        total = torch.zeros(PROJECTIONS, dtype=torch.float64)
        values = tensor.detach().flatten().cpu().double()
        for start in range(0, len(values), 1 << 20):
            chunk = values[start : start + (1 << 20)]
            vectors = torch.rand(PROJECTIONS, len(chunk), generator=generator, dtype=torch.float64) - 0.5
            total += vectors @ chunk
        found += total.tolist()
    return found


def digest(parameters: list[torch.Tensor]) -> str:
    """Equal only if every bit of every parameter is."""
    whole = hashlib.sha256()
    for parameter in parameters:
        values = parameter.detach().cpu().contiguous()
        whole.update(ctypes.string_at(values.data_ptr(), values.numel() * values.element_size()))  # without numpy
    return whole.hexdigest()[:16]


def from_every_rank(values: list[float], *, place: Place) -> list[list[float]]:
    """These values of all ranks, in rank order."""
    import torch
    import torch.distributed as dist

    mine = torch.tensor(values, dtype=torch.float64, device=place.device)
    everyone = [torch.empty_like(mine) for _ in range(place.ranks)]
    dist.all_gather(everyone, mine)
    return [one.tolist() for one in everyone]


# ---- the training ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Who this rank is."""

    rank: int
    ranks: int
    device: torch.device
    import_seconds: float


class Wire:
    """Stands where DDP hands a bucket of gradients to the all-reduce: sees what goes in, times what comes out."""

    def __init__(self, *, place: Place) -> None:
        self.place = place
        self.sent: dict[int, torch.Tensor] = {}  # by id of the parameter; of the first step only
        self.watching = True
        self.finite: list[torch.Tensor] = []
        self.marks: list[tuple[Any, Any]] = []

    def hook(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        """The mean over ranks, as DDP's own hook computes it."""
        import torch.distributed as dist

        buffer = bucket.buffer()
        if self.watching:
            self.sent.update(
                (id(parameter), gradient.detach().clone())
                for parameter, gradient in zip(bucket.parameters(), bucket.gradients())
            )
        self.finite.append(buffer.isfinite().all())
        started = self._mark()
        work = dist.all_reduce(buffer.div_(self.place.ranks), async_op=True)

        def reduced(future: torch.futures.Future[Any]) -> torch.Tensor:
            self.marks.append((started, self._mark()))
            total: torch.Tensor = future.value()[0]
            return total

        mean: torch.futures.Future[torch.Tensor] = work.get_future().then(reduced)
        return mean

    def _mark(self) -> Any:
        """A moment: on a GPU one of the stream that runs the work, since the host is far ahead of it."""
        if self.place.device.type == "cpu":
            return time.perf_counter()
        import torch

        event: Any = torch.cuda.Event
        event = event(enable_timing=True)
        event.record()
        return event

    def read_step(self) -> tuple[float, bool]:
        """Seconds of all-reduce in the step that ended, and whether all that went in was finite."""
        if self.place.device.type == "cpu":
            seconds = sum(ended - started for started, ended in self.marks)
        else:
            seconds = sum(started.elapsed_time(ended) for started, ended in self.marks) / 1e3
        finite = all(bool(one) for one in self.finite)
        self.marks, self.finite = [], []
        return seconds, finite


@dataclass(frozen=True)
class Step:
    """One step, as this rank saw it."""

    loss: float
    seconds: float
    communication_seconds: float
    finite: bool


def train(*, settings: Settings, place: Place, records: Records) -> None:
    """Train, compare the first step with the reference, and report."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(settings.seed)
    data = Data(settings=settings, place=place)
    model = build_model(data.shape).to(place.device)
    copy = deepcopy(model)  # before DDP sees the model: what is hung on DDP or on the model later is not on the copy
    wire = Wire(place=place)
    ddp = DistributedDataParallel(model, device_ids=[place.device.index] if place.device.type == "cuda" else None)
    ddp.register_comm_hook(None, lambda _state, bucket: wire.hook(bucket))  # a lambda: DDP rejects annotations as text
    copy.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(
        ddp.parameters(), lr=settings.learning_rate, eps=settings.epsilon, weight_decay=settings.weight_decay
    )
    batches = [data.batch(place.rank, step) for step in range(settings.steps)]

    first: dict[str, Any] = {}
    steps = []
    for number, tokens in enumerate(batches):
        started = time.perf_counter()
        optimizer.zero_grad()
        loss = ddp(tokens)
        loss.backward()
        optimizer.step()
        mean_loss = float(loss.detach())
        if place.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        communication_seconds, finite = wire.read_step()
        steps.append(Step(mean_loss, seconds, communication_seconds, finite and math.isfinite(mean_loss)))
        if number == 0:
            wire.watching = False
            first = compare_first_step(model, copy, wire=wire, data=data)
    report(steps, {"parameters_digest": digest(list(model.parameters())), **first}, data=data, records=records)


def report(steps: list[Step], checked: dict[str, Any], *, data: Data, records: Records) -> None:
    """Send what this rank found; rank 0 adds what is of all ranks together."""
    place, count = data.place, len(steps)
    steady = steps[1:] or steps  # the first one sets up connections and buckets

    # Gathered at the end, not at each step: nothing of ours disturbs the steps.
    spoilt_at = next((number for number, step in enumerate(steps) if not step.finite), count)
    mine = [spoilt_at, *(step.loss for step in steps), *(step.seconds for step in steady)]
    everyones = from_every_rank(mine, place=place)
    chosen = ",".join(str(index) for index in data.indices(place.rank))
    records.send(
        {
            "record": "trained",
            "rank": place.rank,
            "hostname": socket.gethostname(),
            "device": str(place.device),
            "step_seconds_median": statistics.median(step.seconds for step in steady),
            "step_seconds_p95": sorted(step.seconds for step in steady)[math.ceil(0.95 * len(steady)) - 1],
            "communication_seconds_median": statistics.median(step.communication_seconds for step in steady),
            **checked,
            "import_seconds": place.import_seconds,
            # After one rank's infinity all ranks have it in the next step: it counts only where it came first.
            "finite": spoilt_at == count or spoilt_at > min(one[0] for one in everyones),
            "samples_digest": hashlib.sha256(chosen.encode()).hexdigest()[:16],
        }
    )
    if place.rank == 0:
        losses = [statistics.fmean(of_all) for of_all in zip(*(one[1 : count + 1] for one in everyones))]
        until = next((number for number, loss in enumerate(losses) if not math.isfinite(loss)), count)
        slowest = [max(of_all) for of_all in zip(*(one[count + 1 :] for one in everyones))]
        rate = place.ranks * data.shape.batch * data.shape.length / statistics.median(slowest)
        records.send({"record": "losses", "losses": losses[:until], "tokens_per_s": rate})


def compare_first_step(model: nn.Module, copy: nn.Module, *, wire: Wire, data: Data) -> dict[str, Any]:
    """How far this rank's gradient is from its peers' for the same samples, and its parameters from one process'."""
    place, settings, seed = data.place, data.settings, data.settings.seed
    parameters = list(model.parameters())

    # Rank r computes for r, r+1 and r+2, so r's own gradient is known to r, r-1 and r-2.
    reach = min(3, place.ranks)
    said = fingerprint([wire.sent[id(parameter)] for parameter in parameters], seed=seed)
    for ahead in range(reach):
        tokens = data.batch((place.rank + ahead) % place.ranks, 0)
        said += fingerprint(gradients_of(copy, tokens), seed=seed)
    everyone = from_every_rank(said, place=place)
    length = len(parameters) * PROJECTIONS

    def computed_by(behind: int) -> list[float]:
        """What the rank that far before this one computed, on its plain copy, for this one's samples."""
        return everyone[(place.rank - behind) % place.ranks][(1 + behind) * length : (2 + behind) * length]

    reference, agreed = consensus(computed_by(0), [computed_by(behind) for behind in range(1, reach)])

    starts = [parameter.detach() for parameter in copy.parameters()]
    moved = fingerprint([now.detach() - start for now, start in zip(parameters, starts)], seed=seed)
    if place.ranks <= settings.reference_world:
        import torch

        whole = torch.cat([data.batch(rank, 0) for rank in range(place.ranks)])
        ends = [first_adamw_step(*pair, settings) for pair in zip(starts, gradients_of(copy, whole))]
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


# ---- one rank, from start to end -------------------------------------------------------------------------------------


def join(*, settings: Settings, records: Records) -> Place:
    """Import torch, meet the other ranks, and exchange a first word with them."""
    from datetime import timedelta

    records.stage("import")
    started = time.perf_counter()
    import torch
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    import_seconds = time.perf_counter() - started
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # as torchrun does: ranks on one host must not fight for its cores
    cuda = settings.backend == "nccl"
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)

    records.stage("rendezvous")
    started = time.perf_counter()
    patience = timedelta(seconds=settings.join_seconds)
    store, rank, ranks = next(rendezvous("env://", timeout=patience))
    records.stage("communicator")
    dist.init_process_group(settings.backend, store=store, rank=rank, world_size=ranks, timeout=patience)
    place = Place(rank=rank, ranks=ranks, device=device, import_seconds=import_seconds)
    nccl: Any = torch.cuda.nccl
    from_every_rank([0.0], place=place)  # NCCL connects at the first operation only
    records.send(
        {
            "record": "joined",
            "rank": rank,
            "hostname": socket.gethostname(),
            "device": str(device),
            "import_seconds": import_seconds,
            "init_seconds": time.perf_counter() - started,
            "nccl": ".".join(str(part) for part in nccl.version()) if cuda else "",
        }
    )
    return place


def main() -> int:
    """One rank's whole life; its result is in the records."""
    lacking = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if lacking:
        sys.exit(f"{', '.join(lacking)} not set: start it with one of the lines at the top of this file")
    records = Records(rank=int(os.environ["RANK"]))
    try:
        settings = Settings(**json.loads(os.environ.get("PREFLIGHT_SETTINGS", "{}")))
        place = join(settings=settings, records=records)
        records.stage("running")
        train(settings=settings, place=place, records=records)
        records.stage("done")
        records.send({"record": "done"})
    except Exception as error:  # whatever it is, the controller must hear where this rank stopped
        why = f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0][:500]
        records.send({"record": "failed", "stage": records.at, "error": why})
        return 1
    return 0


if __name__ == "__main__":
    # No teardown: gloo + DDP can abort in it after all work is done, and the records are what counts.
    os._exit(main())
