"""How fast is each rank's device by itself: its arithmetic, its memory, and its way to the host and back?

By hand, from the folder that holds ``preflight``, on a processor and on two GPUs of one node; every rank prints its
records, one JSON object a line:

    RANK=0 python -m preflight.job.ranks.devices
    PREFLIGHT_SETTINGS='{"device": "cuda"}' torchrun --nproc-per-node=2 -m preflight.job.ranks.devices

The ranks do not wait for each other, but as all start at once, the GPUs of a node work at once, as in a job.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from preflight.job.ranks.bench.cores import a_turn, cores_by, cores_near
from preflight.job.ranks.bench.sensors import Sensors
from preflight.job.ranks.rank.board import identity_of, memory_of
from preflight.job.ranks.rank.device import own_device
from preflight.job.ranks.rank.life import live
from preflight.job.ranks.rank.records import Records

if TYPE_CHECKING:
    import torch

MIB = 1 << 20
SIDE = {"cuda": 8192, "cpu": 512}  # of the square matrices: the multiplications keep the whole device busy
MOST, MOST_OF_HALF = 45, 16  # 8192 products of 45 stay below 2**24; of 16, hardly one sum above what float16 holds
PARTS = 4
IN_16_BITS = "allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction"
TUNES = "PYTORCH_TUNABLEOP_ENABLED"
COPIED_BYTES = {"cuda": 1024 * MIB, "cpu": 64 * MIB}  # far more than the caches hold
HOST_BYTES = 256 * MIB
MOST_TAKEN_OFF = 0.9  # of a figure is left at least, whatever the clock says
HOST_SECONDS = 0.2  # of one direction: the GPUs of a node take turns
TRAIN_SECONDS = 0.02  # beside which the start of an operation and the clock do not count


@dataclass(frozen=True)
class Settings:
    """What to measure, each for about so many seconds."""

    device: str = "cpu"
    figures: tuple[str, ...] = ("matmul", "memory", "host")
    seconds: float = 0.5


def timed(operation: Callable[[], Any], *, device: torch.device, seconds: float) -> float:
    """Seconds of one operation: the median of trains of them."""
    import torch

    cuda: Any = torch.cuda
    wait = cuda.synchronize if device.type == "cuda" else lambda: None

    def train(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            operation()
        wait()
        return (time.perf_counter() - began) / count

    train(1)  # loads the kernels
    count = max(1, round(TRAIN_SECONDS / train(1)))
    figures: list[float] = []
    end = time.perf_counter() + seconds
    while len(figures) < 3 or time.perf_counter() < end:
        figures.append(train(count))
    return statistics.median(figures)


def matmul(device: torch.device, *, seconds: float) -> dict[str, Any]:
    """TFLOP/s of the type that models are trained in; how many products, and elements of the last, differ from a first.

    The numbers are random: of constant ones a GPU needs less power, and is faster than in a job. They are whole and so
    small that every sum of their products is exact in 32 bits: whatever kernel a library takes, and in whatever order
    it adds, there is one right product. Two ways to it are compared first. Every product is verified by the sum of its
    bits, whose own time is measured and taken off: a twentieth, on a GPU.
    """
    import torch

    cuda: Any = torch.cuda
    half = torch.bfloat16 if device.type == "cuda" and cuda.get_device_capability(device) >= (8, 0) else torch.float16
    dtype = half if device.type == "cuda" else torch.float32
    side = SIDE[device.type]
    most = MOST_OF_HALF if dtype is torch.float16 else MOST
    left, right = (torch.randint(-most, most + 1, (side, side), device=device).to(dtype) for _ in range(2))
    with exact_sums():
        return {
            "matmul_dtype": str(dtype).removeprefix("torch."),
            **multiplied(left, right, device=device, seconds=seconds),
        }


@contextmanager
def exact_sums() -> Iterator[None]:
    """Sums of products are kept in 32 bits, and no kernel is looked for while the clock runs (torch's TunableOp)."""
    import torch

    options: Any = torch.backends.cuda.matmul
    before = {name: getattr(options, name) for name in IN_16_BITS}
    tuned = os.environ.get(TUNES)
    os.environ[TUNES] = "0"  # which torch reads with the first product
    for name in IN_16_BITS:
        setattr(options, name, False)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(options, name, value)
        os.environ.pop(TUNES)
        os.environ |= {} if tuned is None else {TUNES: tuned}


def multiplied(left: torch.Tensor, right: torch.Tensor, *, device: torch.device, seconds: float) -> dict[str, Any]:
    """The figures of a product, for about so many seconds."""
    import torch

    side = SIDE[device.type]
    first = left @ right
    by_parts = torch.cat([left @ part for part in right.chunk(PARTS, dim=1)], dim=1)  # other shapes, other kernels
    product = torch.empty_like(first)
    wanted = checksum(first)
    differing = torch.zeros((), dtype=torch.int64, device=device)
    products = 0

    def multiply_and_verify() -> None:
        nonlocal products
        products += 1
        torch.mm(left, right, out=product)
        differing.add_(checksum(product).ne(wanted))

    sensors = Sensors(device)
    with sensors:
        took = timed(multiply_and_verify, device=device, seconds=seconds)
    verifying = timed(lambda: differing.add_(checksum(first).ne(wanted)), device=device, seconds=0.0)
    return {
        "matmul_tflops_per_s": 2 * side**3 / max(took - verifying, MOST_TAKEN_OFF * took) / 1e12,
        "products": products,
        "wrong_products": int(differing),
        "wrong": int(product.ne(first).count_nonzero()),
        "paths_differ": int(by_parts.ne(first).count_nonzero()),
        **sensors.reported(),
    }


def checksum(product: torch.Tensor) -> torch.Tensor:
    """The sum of a matrix's bits, taken as whole numbers: any single bit that flips changes it."""
    import torch

    return product.view(torch.int32).sum(dtype=torch.int64)


def memory(device: torch.device, *, seconds: float) -> dict[str, Any]:
    """GB/s that the memory reads and writes together while one buffer is copied to another."""
    import torch

    source = torch.zeros(COPIED_BYTES[device.type], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    took = timed(lambda: target.copy_(source), device=device, seconds=seconds)
    return {"memory_gbytes_per_s": 2 * COPIED_BYTES[device.type] / took / 1e9}


def host(device: torch.device, *, seconds: float) -> dict[str, Any]:
    """GB/s from pinned host memory to the device, and back; nothing for a processor.

    One GPU of the node after the other: two behind one switch would halve each other's way up. From a core near it: the
    memory then is near it too.
    """
    import torch

    if device.type == "cpu":
        return {}
    there = torch.zeros(HOST_BYTES, dtype=torch.uint8, device=device)
    with a_turn(), cores_near(device):
        here = torch.zeros(HOST_BYTES, dtype=torch.uint8).pin_memory()
        ways = {"to_device": (there, here), "from_device": (here, there)}
        return {
            f"{name}_gbytes_per_s": HOST_BYTES
            / timed(lambda: target.copy_(source, non_blocking=True), device=device, seconds=min(seconds, HOST_SECONDS))  # noqa: B023 - timed here
            / 1e9
            for name, (target, source) in ways.items()
        }


FIGURES = {"matmul": matmul, "memory": memory, "host": host}


def without_room(device: torch.device) -> dict[str, int]:
    """The memory of a device on which less than four times what this takes is free; nothing where there is enough."""
    if device.type != "cuda":
        return {}
    (free, whole), wanted = memory_of(device), 8 * COPIED_BYTES["cuda"]
    return {"free_bytes": free, "memory_bytes": whole, "wanted_bytes": wanted} if free < wanted else {}


def measured(device: torch.device, figures: tuple[str, ...], *, seconds: float) -> dict[str, Any]:
    """The record of a device with the figures asked for, one after the other; its memory is free again afterwards.

    Where there is no room for them, the record says so instead: nobody is to take it for a GPU that need not be judged.
    """
    import torch

    record: dict[str, Any] = {"record": "device", **identity_of(device)}
    record["model"] = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    short = without_room(device)
    if short:
        return {**record, "record": "no_device", **short}
    if device.type == "cuda" and (near := cores_by(device)):
        record["has_cores_near"] = bool(near & os.sched_getaffinity(0))
    for name in figures:
        record |= FIGURES[name](device, seconds=seconds)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return record


def work(given: dict[str, Any], records: Records) -> None:
    """Every figure asked for, one after the other."""
    settings = Settings(**given)
    records.stage("import")
    import torch  # noqa: F401 - it may take long: the stage says so

    device = own_device("nccl" if settings.device == "cuda" else "gloo")
    records.stage("running")
    records.send(measured(device, tuple(settings.figures), seconds=settings.seconds))


def main() -> int:
    """The life of one rank."""
    return live(work, needs=("RANK",))


if __name__ == "__main__":
    # No teardown: what counts has been sent.
    os._exit(main())
