"""What do tests/data/said/ranked.txt list of a rank alone: its numbers, its store, its sensors and what it reports?"""

from __future__ import annotations

import ctypes
import json
import math
import os
import tempfile
import time
import types
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
import torch.distributed

from preflight.job.ranks import collectives, store
from preflight.job.ranks.bench.sensors import REASONS, FieldValue, Sensors
from preflight.job.ranks.bench.trial import Trial
from preflight.job.ranks.rank.records import Records
from preflight.job.ranks.rehearsal import place, rank
from tests.clock import Clock
from tests.instead import entries, instead
from tests.job.figures import figures
from tests.job.ranks.bench import tables

NAMES = (
    ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    ["LOCAL_RANK"],
)
OF_RANKS: tuple[dict[str, str], ...] = (
    {},
    {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"},
    {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1"},
    {"SLURM_PROCID": "3", "RANK": "0", "MASTER_ADDR": "a"},
    {"SLURM_PROCID": "x"},
    {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "MASTER_PORT": "1", "MASTER_ADDR": "a"},
    {"LOCAL_RANK": "0", "RANK": "0"},
)
SET = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
FALLBACK = {"address": "10.0.0.1", "port": "29511"}


def of_numbers() -> Iterator[str]:
    """What a rank takes of its scheduler, and how far it comes in a rehearsal."""
    for names, environ in product(NAMES, OF_RANKS):
        with entries("os.environ", environ, clear=True):
            chosen = rank.take_numbers(names, FALLBACK)
            yield f"{names[0]} {environ}: {chosen} {[os.environ.get(name) for name in SET]}"
    yield f"without its program: {' | '.join(rehearsed(NAMES[0], 'train.py'))}"
    for names, environ in product((*NAMES, []), OF_RANKS):
        if names and names[0] not in environ:
            continue  # the hook names those that are there
        with entries("os.environ", {**environ, "HOME": "/nowhere"}, clear=True):
            yield f"{names} {environ}: {' | '.join(rehearsed(names, ''))}"


def rehearsed(names: list[str], lost: str) -> list[str]:
    """The records of a rank, up to where it would train."""
    said: list[str] = []

    def shown(record: dict[str, Any]) -> None:
        keys = ("place", "error", "chosen", "rank", "began", "names", "argv", "network")
        said.append(f"{record['record']} {[record[key] for key in keys if key in record]}")

    given = {"argv": ["python", "train.py"], "names": names, "fallback": FALLBACK, "started": 5.0, "backend": "gloo"}
    given |= {"program": ["file", lost], "network": "net:[1]", "training": {"steps": 3}}
    records: Any = types.SimpleNamespace(send=shown)
    with (
        tempfile.TemporaryDirectory() as scratch,
        instead(rank, "lacks", lambda kind, name: f"no {kind} {name}" if name else ""),
        instead(rank, "load_torch", does=lambda _records: said.append("imports torch")),
        instead(
            rank, "meeting_place", does=lambda: {"record": "meets", "place": os.environ["MASTER_PORT"], "error": ""}
        ),
        instead(rank, "loaded", gives={"record": "loaded"}),
        instead(rank, "work", lambda settings, _records: said.append(f"trains {settings}")),
        instead(tempfile, "tempdir", None),
    ):
        try:
            rank.rehearse({**given, "scratch": scratch}, records)
            held = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
            said.append(
                f"{os.environ['TMPDIR'] == scratch} {held.name} {held.parent.resolve() == Path(scratch).resolve()}"
            )
            os.close(int(held.parent.name))
        except RuntimeError as error:
            said.append(f"raises {error}")
    return said


def of_stores() -> Iterator[str]:
    """Who opens torch's store, who joins it, and under which names; and what is known of caches."""
    for own, agents, again in product((0, 1), ("", "True", "False"), ("", "2")):
        environ = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": agents}
        environ |= {"TORCHELASTIC_RESTART_COUNT": again} if again else {}
        with (
            entries("os.environ", environ, clear=True),
            instead(store, "RANK", own),
            instead(torch.distributed, "TCPStore", gives="store") as tcp,
            instead(torch.distributed, "PrefixStore") as prefix,
        ):
            store.open_store(7.5)
        yield f"rank {own} {agents} {again}: {tcp.words} {tcp.named} {prefix.words}"
    with entries("os.environ", {"HOME": "/nowhere"}, clear=True):
        yield f"{[(one['variable'], one['path']) for one in place.arrived([], [])['caches']]}"
    with entries("os.environ", {"HOME": "/nowhere", **dict.fromkeys(place.CACHES, "/x")}, clear=True):
        yield f"{[(one['variable'], one['path']) for one in place.arrived([], [])['caches']]}"


class Nvml:
    """libnvidia-ml.so.1: a GPU that has all values, but for those in `lacks`."""

    def __init__(self, *lacks: str, bits: int = 0) -> None:
        self.lacks = lacks
        self.bits = bits
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in self.lacks:
            raise AttributeError(name)

        def ask(*words: Any) -> int:
            shown = [word for word in words if isinstance(word, int | bytes)]
            self.asked.append(f"{name}{shown or ''}")
            if len(words) > 1 and not name.endswith("PciBusId_v2"):
                target = words[-1]._obj
                if hasattr(target, "field"):
                    target.value = 88
                else:
                    target.value = self.bits if "Reasons" in name else 100 + crc32(f"{name}{shown}".encode()) % 1000
            return 0

        return ask


def of_sensors() -> Iterator[str]:
    """What NVML is asked of a GPU, what is reported of it, and for which reasons it is said to be slow."""
    found: Any = types.SimpleNamespace(pci_bus_id=0x1A, pci_device_id=0x02, pci_domain_id=0x10)
    lacks = ((), ("nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage"), ("nvmlDeviceGetMaxClockInfo",))
    for lost, hip in product(lacks, (None, "6.2")):
        nvml = Nvml(*lost)
        with (
            instead(ctypes, "CDLL", gives=nvml) as opened,
            instead(torch.cuda, "get_device_properties", gives=found),
            instead(torch.version, "hip", hip),
        ):
            one = Sensors(types.SimpleNamespace(type="cuda"))  # type: ignore[arg-type]
        yield f"{lost} {hip}: {one.folder} {figures(one.limits)} {opened.words} {nvml.asked}"
        if one.library:
            nvml.asked.clear()
            one.samples = [one._of_nvml(), one._of_nvml()]
            yield f"  {figures(one.reported())} {nvml.asked[:11]}"
    places = [(name, getattr(FieldValue, name).offset) for name in ("field", "code", "value")]
    yield f"{places} {ctypes.sizeof(FieldValue)}"  # as nvml.h has them
    for bits in (0, 1, 2, 0x10, 0x100, *REASONS, sum(REASONS), (1 << 64) - 1):
        one = Sensors(torch.device("cpu"))
        one.library = Nvml(bits=bits)
        for often in range(1, 6):
            one.samples.append(one._of_nvml())
            one.library.bits = 0 if often >= 1 else bits
        yield f"{bits:#x}: {one.reasons} {one.reported()['slowed_by']}"
    one.library = Nvml("nvmlDeviceGetCurrentClocksThrottleReasons")
    yield f"{one._of_nvml()['sm_mhz']:g} {one.reasons} {Sensors(torch.device('cpu')).reported()}"
    for revision in (6, 8):
        one = Sensors(torch.device("cpu"))
        with tempfile.TemporaryDirectory() as one.folder:
            for counted in (1, 1, 2, 2, 3):
                (Path(one.folder) / "gpu_metrics").write_bytes(tables.metrics(revision, prochot=counted, ppt=1))
                one.samples.append(one._of_amdgpu())
        yield f"{revision}: {one.reasons} {figures(one.reported())}"


def of_reports() -> Iterator[str]:
    """How long is left as rank 0 says it, how far a rank has moved, and how a GPU's time is taken."""
    said: list[dict[str, Any]] = []
    records: Any = types.SimpleNamespace(send=said.append)
    clock = Clock()
    with instead(time, "monotonic", clock.time):
        ahead = collectives.Ahead(cells=6, cap_seconds=20.0)
        for passed, took in ((0.0, 3.0), (0.4, 3.0), (0.5, 5.0), (9.0, 1.0), (1.0, 50.0), (1.0, 0.0), (1.0, 0.0)):
            clock.passed += passed
            ahead.report(records, {"op": "reduce"}, elapsed=took, left_seconds=4.0)
            ahead.ended(took)
        late = collectives.Ahead(cells=3, cap_seconds=2.0)
        late.report(records, {}, elapsed=1.0, left_seconds=4.0)
        yield f"{figures(ahead)} {figures(late)}"
        yield from (figures(record) for record in said)
        with entries("os.environ", {}, clear=True):
            own = Records(rank=1)
        moved = [own.moved]
        for beyond in (0.0, 7.0):
            clock.passed += 1.0
            own.advance(beyond=beyond)
            moved.append(own.moved)
        clock.passed += 1.0
        with own.while_others_work():
            moved.append(own.moved)
        moved.append(own.moved)
        yield f"{[one if math.isinf(one) else round(one - moved[0], 3) for one in moved]} {own.at} {own.doing!r}"
    with tempfile.TemporaryDirectory() as folder, entries("os.environ", {"PREFLIGHT_RECORDS": f"{folder}/r"}):
        own = Records(rank=4)
        own.stage("running", op="reduce")
        lines = [json.loads(line) for line in Path(f"{folder}/r").read_text().splitlines()]
        os.close(own.output)
        shown = [
            {name: abs(held - time.time()) < 60 if name == "at" else held for name, held in one.items()}
            for one in lines
        ]
        yield (
            f"{shown} {own.at} {Path(f'{folder}/r').stat().st_mode if lines else 0:o}" if Path(folder).exists() else ""
        )


class Event:
    """One of CUDA, which knows its time only where it was asked to."""

    def __init__(self, *, enable_timing: bool = False) -> None:
        self.is_timed = enable_timing
        self.told: list[str] = []

    def record(self) -> None:
        """It has come."""
        self.told.append("recorded")

    def synchronize(self) -> None:
        """Waited for."""
        self.told.append("waited for")

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds."""
        is_known = self.told == ["recorded"] and other.told == ["recorded", "waited for"]
        return 250.0 if self.is_timed and other.is_timed and is_known else math.nan


def of_events() -> Iterator[str]:
    """How long an operation of a GPU took: between two events, behind a barrier on its stream."""
    done: list[str] = []
    one: Any = types.SimpleNamespace(
        place=types.SimpleNamespace(device=torch.device("cpu"), group="g"), _run=lambda: done.append("runs")
    )

    def reduced(held: torch.Tensor, *, group: Any) -> None:
        done.append(f"all_reduce of {tuple(held.shape)} {float(held.sum())} on {held.device} in {group}")

    with (
        instead(torch.cuda, "Event", Event),
        instead(torch.distributed, "all_reduce", reduced),
    ):
        yield f"{Trial._timed_cuda(one)} {done}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.distributed, "barrier", lambda *, group: done.append(f"barrier of {group}"))
        yield f"{0 <= Trial._timed_cpu(one) < 60} {done}"
