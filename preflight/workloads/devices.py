"""How fast is each rank's device by itself: its arithmetic, its memory, and its way to the host and back?

By hand, on a processor and on two GPUs of one node; every rank prints its records, one JSON object a line:

    RANK=0 python devices.py
    PREFLIGHT_SETTINGS='{"device": "cuda"}' torchrun --nproc-per-node=2 devices.py

The ranks do not wait for each other, but as all start at once, the GPUs of a node work at once, as in a job.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    import torch

MIB = 1 << 20
SIDE = {"cuda": 8192, "cpu": 512}  # of the square matrices: the multiplications keep the whole device busy
COPIED_BYTES = {"cuda": 1024 * MIB, "cpu": 64 * MIB}  # far more than the caches hold
HOST_BYTES = 256 * MIB
ERROR_CHARACTERS = 4000  # the cause may stand in the last lines
TRAIN_SECONDS = 0.02  # beside which the start of an operation and the clock do not count


@dataclass(frozen=True)
class Settings:
    """What to measure, each for about so many seconds."""

    device: str = "cpu"
    figures: tuple[str, ...] = ("matmul", "memory", "host")
    seconds: float = 0.5


class Records:
    """JSON lines to the local socket that PREFLIGHT_RECORDS names, or to stdout when started by hand."""

    def __init__(self, *, rank: int) -> None:
        self.at = "import"
        self.socket = None
        if "PREFLIGHT_RECORDS" in os.environ:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect("\0" + os.environ["PREFLIGHT_RECORDS"])
            self.socket.sendall(json.dumps({"rank": rank}).encode() + b"\n")

    def send(self, record: dict[str, Any]) -> None:
        """One record, its line written whole."""
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        if self.socket:
            self.socket.sendall(line)
        else:
            os.write(1, line)

    def stage(self, name: str) -> None:
        """Where this rank is now."""
        self.at = name
        self.send({"record": "stage", "stage": name})


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
    """TFLOP/s of the type that models are trained in, and how many elements of the last product differ from the first.

    The numbers are random: of constant ones a GPU needs less power, and is faster than in a job.
    """
    import torch

    cuda: Any = torch.cuda
    half = torch.bfloat16 if device.type == "cuda" and cuda.get_device_capability(device) >= (8, 0) else torch.float16
    dtype = half if device.type == "cuda" else torch.float32
    side = SIDE[device.type]
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    first = left @ right
    product = torch.empty_like(first)
    took = timed(lambda: torch.mm(left, right, out=product), device=device, seconds=seconds)
    return {
        "matmul_tflops_per_s": 2 * side**3 / took / 1e12,
        "matmul_dtype": str(dtype).removeprefix("torch."),
        "wrong": int(product.ne(first).count_nonzero()),
    }


def memory(device: torch.device, *, seconds: float) -> dict[str, Any]:
    """GB/s that the memory reads and writes together while one buffer is copied to another."""
    import torch

    source = torch.zeros(COPIED_BYTES[device.type], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    took = timed(lambda: target.copy_(source), device=device, seconds=seconds)
    return {"memory_gbytes_per_s": 2 * len(source) / took / 1e9}


def host(device: torch.device, *, seconds: float) -> dict[str, Any]:
    """GB/s from pinned memory of the host to the device, and back; a processor has no such way."""
    import torch

    if device.type == "cpu":
        return {}
    there = torch.zeros(HOST_BYTES, dtype=torch.uint8, device=device)
    here = torch.zeros(HOST_BYTES, dtype=torch.uint8).pin_memory()
    ways = {"to_device": (there, here), "from_device": (here, there)}
    return {
        f"{name}_gbytes_per_s": HOST_BYTES
        / timed(lambda: target.copy_(source, non_blocking=True), device=device, seconds=seconds)  # noqa: B023 - timed here
        / 1e9
        for name, (target, source) in ways.items()
    }


FIGURES = {"matmul": matmul, "memory": memory, "host": host}


def needs_room(device: torch.device) -> None:
    """MemoryError where the device has not four times the memory free that this takes."""
    import torch

    if device.type == "cuda":
        free, wanted = int(torch.cuda.mem_get_info(device)[0]), 8 * COPIED_BYTES["cuda"]
        if free < wanted:
            raise MemoryError(f"{device} has {free >> 20} MiB free; wanted {wanted >> 20}")


def main() -> int:
    """Every figure asked for, one after the other."""
    if "RANK" not in os.environ:
        sys.exit("RANK not set: start it with one of the lines at the top of this file")
    records = Records(rank=int(os.environ["RANK"]))
    try:
        settings = Settings(**json.loads(os.environ.get("PREFLIGHT_SETTINGS", "{}")))
        records.stage("import")
        import torch

        device = torch.device("cpu")
        if settings.device == "cuda":
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(device)
        records.stage("running")
        needs_room(device)
        figures: dict[str, Any] = {"device": str(device)}
        figures["model"] = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        for name in settings.figures:
            figures |= FIGURES[name](device, seconds=settings.seconds)
        records.send({"record": "device", **figures})
        records.stage("done")
        records.send({"record": "done"})
    except Exception as error:  # whatever it is, the controller must learn where this rank stopped
        why = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
        records.send({"record": "failed", "stage": records.at, "error": why})
        return 1
    return 0


if __name__ == "__main__":
    # No teardown: what counts has been sent.
    os._exit(main())
