"""How fast is each rank's device by itself: its arithmetic, its memory, and its way to the host and back?

By hand, on a processor and on two GPUs of one node; every rank prints its records, one JSON object a line:

    RANK=0 python devices.py
    PREFLIGHT_SETTINGS='{"device": "cuda"}' torchrun --nproc-per-node=2 devices.py

The ranks do not wait for each other, but as all start at once, the GPUs of a node work at once, as in a job.
"""

from __future__ import annotations

import ctypes
import fcntl
import glob
import json
import os
import socket
import statistics
import struct
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

MIB = 1 << 20
SIDE = {"cuda": 8192, "cpu": 512}  # of the square matrices: the multiplications keep the whole device busy
COPIED_BYTES = {"cuda": 1024 * MIB, "cpu": 64 * MIB}  # far more than the caches hold
HOST_BYTES = 256 * MIB
MOST_TAKEN_OFF = 0.9  # of a figure is left at least, whatever the clock says
HOST_SECONDS = 0.2  # of one direction: the GPUs of a node take turns
SAMPLE_SECONDS = 0.05
PCI_DEVICES = "/sys/bus/pci/devices"
# Bits of NVML's reasons for a slower clock (nvml.h). Idle and the clocks that somebody has set are none under load.
REASONS = {
    0x04: "software power cap",
    0x08: "hardware slow-down",
    0x20: "software thermal slow-down",
    0x40: "hardware thermal slow-down",
    0x80: "hardware power brake",
}
MEMORY_TEMPERATURE = 82  # NVML_FI_DEV_MEMORY_TEMP
MEMORY_LIMIT = 2  # NVML_TEMPERATURE_THRESHOLD_MEM_MAX
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # of PCIe, by GT/s
# What amdgpu's hwmon folder tells (Documentation/gpu/amdgpu/thermal): file without its number, label, factor.
AMDGPU = (
    ("freq", "sclk", "input", "sm_mhz", 1e-6),
    ("freq", "mclk", "input", "memory_mhz", 1e-6),
    ("power", "", "average", "power_watts", 1e-6),
    ("power", "", "input", "power_watts", 1e-6),
    ("power", "", "cap", "power_limit_watts", 1e-6),
    ("temp", "junction", "input", "temperature_celsius", 1e-3),
    ("temp", "mem", "input", "memory_celsius", 1e-3),
    ("temp", "mem", "crit", "memory_limit_celsius", 1e-3),
)
# Where amdgpu's gpu_metrics (kgd_pp_interface.h) counts, by its revision, how long each of these held the clocks down.
RESIDENCIES = {(1, 6): 36, (1, 7): 44, (1, 8): 44}
RESIDENCY_REASONS = (
    "hardware slow-down",  # PROCHOT
    "software power cap",  # PPT
    "hardware thermal slow-down",  # the socket, the voltage regulators, the memory
    "hardware thermal slow-down",
    "hardware thermal slow-down",
)
# Where revision 1.3 (MI200, and older) has bits of what holds the clocks down at the moment (amdgpu_smu.h). Revisions
# 1.4 and 1.5 have neither bits nor counters: "throttle status is not reported", says the driver of MI300 up to 6.12.
THROTTLED, ALL_ONES = 112, (1 << 64) - 1  # the latter where the driver fills nothing in
THROTTLERS = (
    (
        range(24),
        "software power cap",
    ),  # PPT of the socket, TDC and EDC of its currents: limits that are the board's own
    (range(32, 46), "hardware thermal slow-down"),
    (range(46, 48), "hardware slow-down"),  # PROCHOT
)
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
    """TFLOP/s of the type that models are trained in; how many products, and elements of the last, differ from a first.

    The numbers are random: of constant ones a GPU needs less power, and is faster than in a job. Every product is
    verified by the sum of its bits, whose own time is measured and taken off: a twentieth, on a GPU.
    """
    import torch

    cuda: Any = torch.cuda
    half = torch.bfloat16 if device.type == "cuda" and cuda.get_device_capability(device) >= (8, 0) else torch.float16
    dtype = half if device.type == "cuda" else torch.float32
    side = SIDE[device.type]
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    first = left @ right
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
        "matmul_dtype": str(dtype).removeprefix("torch."),
        "products": products,
        "wrong_products": int(differing),
        "wrong": int(product.ne(first).count_nonzero()),
        **sensors.told(),
    }


def checksum(product: torch.Tensor) -> torch.Tensor:
    """The sum of a matrix's bits, taken as whole numbers: any single bit that flips changes it."""
    import torch

    return product.view(torch.int32).sum(dtype=torch.int64)


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t, of which the value is a whole number here."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_uint),
        ("code", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    )


class Sensors:
    """What is told of a GPU while it works: clocks, power, temperatures, its PCIe link, and why it is slowed down.

    By NVML, and for AMD by the kernel. Nothing where neither knows the GPU: a processor, a slice of a GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.samples: list[dict[str, float]] = []
        self.reasons: dict[str, int] = {}
        self.limits: dict[str, float] = {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)
        self.library: Any = None
        self.folder = ""  # of AMD's GPU in sysfs
        self.held: tuple[int, ...] = ()  # how long each of the residency reasons has held
        self.handle = ctypes.c_void_p()
        if device.type == "cuda":
            with suppress(OSError, AttributeError, RuntimeError):
                self._open(device)

    def _open(self, device: torch.device) -> None:
        import torch

        found: Any = torch.cuda.get_device_properties(device)
        place = f"{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
        if getattr(torch.version, "hip", None):
            self.folder = f"{PCI_DEVICES}/{found.pci_domain_id:04x}:{place}"
            return
        library: Any = ctypes.CDLL("libnvidia-ml.so.1")
        find = library.nvmlDeviceGetHandleByPciBusId_v2
        bus_id = f"{found.pci_domain_id:08x}:{place}"
        if library.nvmlInit_v2() == 0 and find(bus_id.encode(), ctypes.byref(self.handle)) == 0:
            self.library = library
            self.limits = {
                "sm_mhz_max": self._ask("nvmlDeviceGetMaxClockInfo", 1),
                "power_limit_watts": self._ask("nvmlDeviceGetEnforcedPowerLimit") / 1e3,
                "memory_limit_celsius": self._ask("nvmlDeviceGetTemperatureThreshold", MEMORY_LIMIT),
                "pcie_generation_max": self._ask("nvmlDeviceGetMaxPcieLinkGeneration"),
            }

    def __enter__(self) -> None:
        if self.library is not None or self.folder:
            self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join(timeout=10 * SAMPLE_SECONDS + 2.0)
        if self.library is not None:
            self.library.nvmlShutdown()

    def _ask(self, name: str, *words: int, wide: bool = False) -> float:
        """One value; -1 where this GPU, or this NVML, has none."""
        value: Any = ctypes.c_ulonglong() if wide else ctypes.c_uint()
        ask = getattr(self.library, name, None)
        return int(value.value) if ask is not None and ask(self.handle, *words, ctypes.byref(value)) == 0 else -1

    def _memory_celsius(self) -> float:
        """The temperature of the memory: NVML has it as a field, of GPUs with HBM."""
        field = FieldValue(field=MEMORY_TEMPERATURE)
        ask = getattr(self.library, "nvmlDeviceGetFieldValues", None)
        is_told = ask is not None and ask(self.handle, 1, ctypes.byref(field)) == 0 and field.code == 0
        return int(field.value & 0xFFFFFFFF) if is_told and field.value else -1

    def _sample(self) -> None:
        while not self.ended.wait(SAMPLE_SECONDS):
            self.samples.append(self._of_amdgpu() if self.folder else self._of_nvml())

    def _of_amdgpu(self) -> dict[str, float]:
        table = gpu_metrics(self.folder)
        before, self.held = self.held, residencies(table)
        grown = zip(RESIDENCY_REASONS, before, self.held)
        for reason in {reason for reason, once, now in grown if now > once} | throttled(table):
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        return of_amdgpu(self.folder)

    def _of_nvml(self) -> dict[str, float]:
        bits = int(self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", wide=True))
        for bit, reason in REASONS.items():
            if bits > 0 and bits & bit:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1
        return {
            "sm_mhz": self._ask("nvmlDeviceGetClockInfo", 1),
            "memory_mhz": self._ask("nvmlDeviceGetClockInfo", 2),
            "power_watts": self._ask("nvmlDeviceGetPowerUsage") / 1e3,
            "temperature_celsius": self._ask("nvmlDeviceGetTemperature", 0),
            "memory_celsius": self._memory_celsius(),
            "pcie_generation": self._ask("nvmlDeviceGetCurrPcieLinkGeneration"),
            "pcie_width": self._ask("nvmlDeviceGetCurrPcieLinkWidth"),
        }

    def told(self) -> dict[str, Any]:
        """The median of each value, and the reasons that held in every fourth sample or more."""
        if not self.samples:
            return {}
        values = {name: statistics.median(one[name] for one in self.samples if name in one) for name in self.samples[0]}
        slowed = [reason for reason, count in self.reasons.items() if count * 4 >= len(self.samples)]
        return {**{name: value for name, value in (values | self.limits).items() if value >= 0}, "slowed_by": slowed}


def of_amdgpu(folder: str) -> dict[str, float]:
    """What the kernel's driver reports of an AMD GPU in this folder of sysfs; what it does not report is left out."""
    found: dict[str, float] = {}
    for path in glob.glob(f"{folder}/hwmon/hwmon*/*"):
        name, _, kind = os.path.basename(path).partition("_")
        label = text_of(f"{os.path.dirname(path)}/{name}_label")
        for start, wanted, ending, title, factor in AMDGPU:
            if name.rstrip("0123456789") == start and kind == ending and wanted in ("", label):
                with suppress(ValueError):
                    found[title] = float(text_of(path)) * factor
    with suppress(ValueError):
        found["pcie_width"] = float(text_of(f"{folder}/current_link_width"))
        found["pcie_generation"] = GENERATIONS.get(float(text_of(f"{folder}/current_link_speed").split(" ")[0]), -1)
    return found


def gpu_metrics(folder: str) -> bytes:
    """The table that amdgpu gives of a GPU; nothing where it gives none."""
    with suppress(OSError), open(f"{folder}/gpu_metrics", "rb") as file:
        return file.read()
    return b""


def throttled(table: bytes) -> set[str]:
    """What holds a GPU of AMD's back at this moment, where its table has bits for it."""
    if table[2:4] != b"\x01\x03" or len(table) < THROTTLED + 8:
        return set()
    (bits,) = struct.unpack_from("<Q", table, THROTTLED)
    return {reason for places, reason in THROTTLERS if bits != ALL_ONES and any(bits >> place & 1 for place in places)}


def residencies(table: bytes) -> tuple[int, ...]:
    """How long each of RESIDENCY_REASONS has held a GPU of AMD's back so far; nothing where it is counted otherwise."""
    start = RESIDENCIES.get((table[2], table[3])) if len(table) > 4 else None
    if start is None or len(table) < start + 4 * len(RESIDENCY_REASONS):
        return ()
    return struct.unpack_from(f"<{len(RESIDENCY_REASONS)}I", table, start)


def text_of(path: str) -> str:
    """The text of a small file; "" where it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


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


@contextmanager
def a_turn() -> Iterator[None]:
    """Hold what only one rank of a node can hold: a lock on the folder that all of them have."""
    folder = os.open(os.environ.get("TMPDIR", "/tmp"), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextmanager
def cores_near(device: torch.device) -> Iterator[None]:
    """Run on the cores of the GPU's NUMA node, where the kernel tells them and we may use them."""
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, (cores_by(device) & before) or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cores_by(device: torch.device) -> set[int]:
    """The cores of the GPU's NUMA node; nothing where neither torch nor the kernel tells them."""
    import torch

    with suppress(OSError, AttributeError, ValueError):
        found: Any = torch.cuda.get_device_properties(device)
        bus_id = f"{found.pci_domain_id:04x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
        with open(f"{PCI_DEVICES}/{bus_id}/local_cpulist", encoding="ascii") as file:
            return cores_of(file.read())
    return set()


def cores_of(text: str) -> set[int]:
    """0-3,8 -> the cores 0, 1, 2, 3 and 8; ValueError for what is no such list."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


FIGURES = {"matmul": matmul, "memory": memory, "host": host}


def without_room(device: torch.device) -> dict[str, int]:
    """The memory of a device on which less than four times what this takes is free; nothing where there is enough."""
    import torch

    if device.type != "cuda":
        return {}
    (free, whole), wanted = torch.cuda.mem_get_info(device), 8 * COPIED_BYTES["cuda"]
    return {"free_bytes": int(free), "memory_bytes": int(whole), "wanted_bytes": wanted} if free < wanted else {}


def measured(device: torch.device, figures: tuple[str, ...], *, seconds: float) -> dict[str, Any]:
    """The record of a device with the figures asked for, one after the other; its memory is free again afterwards.

    Where there is no room for them, the record says so instead: nobody is to take it for a GPU that need not be judged.
    """
    import torch

    record: dict[str, Any] = {"record": "device", "device": str(device)}
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
        records.send(measured(device, tuple(settings.figures), seconds=settings.seconds))
        records.stage("done")
        records.send({"record": "done"})
    except Exception as error:  # whatever the error is, the controller must learn where this rank stopped
        why = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
        records.send({"record": "failed", "stage": records.at, "error": why})
        return 1
    return 0


if __name__ == "__main__":
    # No teardown: what counts has been sent.
    os._exit(main())
