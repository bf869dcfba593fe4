"""What do tests/data/said/ranked.txt list of a device by itself: what is timed on it, how often, and what is told?"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import types
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from preflight.job.ranks import devices
from preflight.job.ranks.bench import amdgpu, cores
from tests.instead import entries, instead, instead_of
from tests.job.figures import figures
from tests.job.ranks.meeting_cast import Moments

GPU: Any = types.SimpleNamespace(type="cuda")
CPU = torch.device("cpu")
GIB = 1 << 30


def of_timing() -> Iterator[str]:
    """How often an operation runs, and what it is said to take, whatever the first ones cost."""
    for first, later, seconds, device in product((0.0, 3.0), (0.0009, 0.007, 0.5), (0.0, 0.2), (CPU, GPU)):
        clock = Moments()
        clock.perf_counter = clock.monotonic  # type: ignore[attr-defined]
        costs = iter([first])
        done: list[str] = []

        def operation(clock: Moments = clock, costs: Iterator[float] = costs, later: float = later) -> None:
            clock.passed += next(costs, later * (1 + len(done) % 3 / 10))  # noqa: B023
            done.append("runs")  # noqa: B023

        with (
            instead(devices, "time", clock),
            instead(torch.cuda, "synchronize", partial(done.append, "waits")),
        ):
            took = devices.timed(operation, device=device, seconds=seconds)
        counted = f"{done.count('runs')} runs, {done.count('waits')} waits"
        yield f"{first:g} {later:g} {seconds:g} {device.type}: {took:.6f} {counted}, {clock.passed:.4f} s"


class Sensors:
    """What reports nothing but that it looked."""

    def __init__(self, device: Any) -> None:
        self.looked: list[str] = [device.type]

    def __enter__(self) -> None:
        self.looked.append("begins")

    def __exit__(self, *_: object) -> None:
        self.looked.append("ends")

    def reported(self) -> dict[str, Any]:
        """What it did."""
        return {"looked": " ".join(self.looked)}


@contextlib.contextmanager
def on_the_host(said: list[str], took: list[float]) -> Iterator[None]:
    """What would be on a GPU is here, and each operation takes as long as is given, and runs three times."""
    randint, zeros, pinned = torch.randint, torch.zeros, torch.Tensor.pin_memory

    def here(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def made(*words: Any, device: Any = CPU, **named: Any) -> torch.Tensor:
            said.append(f"{make.__name__}{words} {named} on {device.type}")
            return make(*words, **named)

        return made

    def timed(operation: Callable[[], Any], *, device: Any, seconds: float) -> float:
        for _ in range(3):
            operation()
        said.append(f"times on {device.type} for {seconds:g} s")
        return took.pop(0)

    @contextlib.contextmanager
    def entered(name: str) -> Iterator[None]:
        said.append(f"in {name}")
        yield
        said.append(f"out of {name}")

    with (
        instead(torch, "randint", here(randint)),
        instead(torch, "zeros", here(zeros)),
        instead(torch.Tensor, "pin_memory", lambda held: said.append("pins") or held),
        instead_of(devices, SIDE={"cpu": 4, "cuda": 8}, COPIED_BYTES={"cpu": 10, "cuda": 20}, HOST_BYTES=40),
        instead_of(devices, timed=timed, Sensors=Sensors, a_turn=lambda: entered("turn")),
        instead(devices, "cores_near", lambda device: entered(f"cores near {device.type}")),
    ):
        yield
    assert torch.Tensor.pin_memory is pinned


def of_figures() -> Iterator[str]:
    """The figures of matrices, memory and the way to the host, and how many products differ."""
    for device, capability, spoilt in ((CPU, (0, 0), 0), (GPU, (7, 5), 0), (GPU, (8, 0), 0), (GPU, (9, 0), 2)):
        for took in ([0.5, 0.1], [0.5, 0.01], [0.5, 0.45], [0.5, 0.6]):
            said: list[str] = []
            calls: list[int] = []
            multiply = torch.mm

            def mm(left: Any, right: Any, *, out: Any, calls: list[int] = calls, spoilt: int = spoilt) -> None:
                multiply(left, right, out=out)  # noqa: B023
                calls.append(1)
                if spoilt and len(calls) >= spoilt:
                    out[0, 1] = out[0, 1] * 2 + 1

            with (
                on_the_host(said, took),
                instead(torch, "mm", mm),
                instead(torch.cuda, "get_device_capability", lambda _device, held=capability: held),
            ):
                told = devices.matmul(device, seconds=0.7)
            told["matmul_tflops_per_s"] *= 1e9
            looked = told.pop("looked")
            yield f"{device.type} {capability}: {looked}, {figures(told)} {said}"
    for device, seconds in product((CPU, GPU), (0.1, 0.7)):
        said = []
        with on_the_host(said, [0.5, 0.25, 0.125]):
            told = {**devices.memory(device, seconds=seconds), **devices.host(device, seconds=seconds)}
        yield f"{device.type} {seconds}: { {name: f'{value:.4g}' for name, value in told.items()} } {said}"


def of_devices() -> Iterator[str]:
    """The record of a device, with room and without, and on which one a rank is."""
    said: list[str] = []

    def figure(name: str) -> Callable[..., dict[str, Any]]:
        return lambda device, *, seconds: {name: f"{device.type} {seconds}"}

    held = {name: figure(name) for name in devices.FIGURES}
    yield f"{[(name, found.__name__) for name, found in devices.FIGURES.items()]}"
    for device, free, near in ((CPU, 0, set()), (GPU, 8 * GIB, {0}), (GPU, 9 * GIB, {1 << 20}), (GPU, 80 * GIB, set())):
        for names in (("matmul", "host"), ("memory",), ()):
            with (
                instead(devices, "FIGURES", held),
                instead(devices, "cores_by", lambda _device, near=near: near),
                instead(os, "sched_getaffinity", gives={0, 1}),
                instead(torch.cuda, "mem_get_info", lambda _device, free=free: (free, 80 * GIB)),
                instead(torch.cuda, "get_device_properties", gives=None),
                instead(torch.cuda, "get_device_name", lambda device: f"name of {device.type}"),
                instead(torch.cuda, "empty_cache", partial(said.append, "empties")),
            ):
                told = devices.measured(device, names, seconds=0.3)
            yield f"{free // GIB} {near} {names}: {told} {len(said)}".replace(str(GPU), "cuda")
    few = instead(torch.cuda, "mem_get_info", gives=(8 * GIB - 1, 80 * GIB))
    with few, instead(torch.cuda, "get_device_properties", gives=None):
        yield f"{devices.without_room(GPU)}"
    for given, environ in product(
        ({}, {"device": "cuda", "figures": ["host"], "seconds": 2.0}), ({}, {"LOCAL_RANK": "3"})
    ):
        said = []
        records: Any = types.SimpleNamespace(stage=said.append, send=lambda record: said.append(f"sends {record}"))  # noqa: B023
        with (
            entries("os.environ", environ, clear=True),
            instead(torch.cuda, "set_device", lambda device: said.append(f"is on {device}")),  # noqa: B023
            instead(devices, "measured", lambda *words, seconds: f"{words} {seconds}"),
        ):
            devices.work(given, records)
        yield f"{given} {environ}: {said}"
    with instead(devices, "live", lambda work, needs: f"lives {work.__name__} {needs}"):
        yield f"{devices.main()}"


def of_the_kernel() -> Iterator[str]:
    """What amdgpu's folder tells, which cores are near a GPU, and whose turn it is."""
    with tempfile.TemporaryDirectory() as name:
        hwmon = Path(name) / "hwmon" / "hwmon3"
        hwmon.mkdir(parents=True)
        yield f"{amdgpu.of_amdgpu(name)}"
        for number, (start, wanted, ending, title, _factor) in enumerate(amdgpu.AMDGPU):
            for label in (wanted, "other"):
                for one in hwmon.iterdir():
                    one.unlink()
                (hwmon / f"{start}{number}_{ending}").write_text("1234500\n")
                (hwmon / f"{start}{number}_label").write_text(f"{label}\n")
                (hwmon / f"{start}{number}_other").write_text("7\n")
                (hwmon / f"{start}x_{ending}").write_text("none\n")
                yield f"{title} {label}: {figures(amdgpu.of_amdgpu(name))}"
        for speed in ("2.5 GT/s PCIe", "5.0 GT/s PCIe", "8.0 GT/s", "16.0 GT/s", "32.0 GT/s PCIe", "64.0", "3.0", "x"):
            (Path(name) / "current_link_width").write_text("16\n")
            (Path(name) / "current_link_speed").write_text(f"{speed}\n")
            told = amdgpu.of_amdgpu(name)
            yield f"{speed}: { {title: told[title] for title in told if title.startswith('pcie')} }"
        (Path(name) / "gpu_metrics").write_bytes(b"\x01\x03")
        yield f"{amdgpu.gpu_metrics(name)!r} {amdgpu.gpu_metrics(name + '/none')!r}"
        (Path(name) / "odd").write_bytes(b"\xff")
        yield f"{amdgpu.text_of(name + '/odd')!r}"
        found = types.SimpleNamespace(pci_domain_id=0x10, pci_bus_id=0x1A, pci_device_id=2)
        near = Path(name) / "0010:1a:02.0"
        near.mkdir()
        for text in ("0-1,4\n", "7\n", "x\n"):
            (near / "local_cpulist").write_text(text)
            said: list[str] = []
            with (
                instead(cores, "PCI_DEVICES", name),
                instead(torch.cuda, "get_device_properties", gives=found),
                instead(os, "sched_getaffinity", gives={1, 2, 4}),
                instead(os, "sched_setaffinity", lambda _pid, wanted: said.append(f"on {sorted(wanted)}")),  # noqa: B023
            ):
                yield f"{text.strip()}: {sorted(cores.cores_by(GPU))}"
                with cores.cores_near(GPU):
                    said.append("works")
            yield f"  {said}"
        for environ in ({}, {"TMPDIR": name}):
            said = []
            with (
                entries("os.environ", environ, clear=True),
                instead(os, "open", lambda path, mode: said.append(path.replace(name, "FOLDER")) or 77),  # noqa: B023
                instead(os, "close", lambda held: said.append(f"closes {held}")),  # noqa: B023
                instead(fcntl, "flock", lambda held, how: said.append(f"locks {held} {int(how)}")),  # noqa: B023
                cores.a_turn(),
            ):
                said.append("works")
            yield f"{environ.keys()}: {said}"
