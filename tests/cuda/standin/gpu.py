"""How do tensors of a GPU live in the memory of the host, and how long would the GPU take?

A device keeps a clock: an operation that is modelled moves its end, and whoever synchronises sleeps until then. The
large operands of a burn-in are stood in for by small ones that remember their size.
"""

import os
import sys
import time

from standin import functions
from standin.memory import Memory

SLICES = 1000  # is the number of the first slice of MIG, in its UUID
SEVENTHS = 7  # a GPU has, as MIG counts


class Clock:
    """When all that was queued on this process's GPU will be done."""

    def __init__(self):
        self.busy_until = 0.0

    def queue(self, seconds):
        self.busy_until = max(time.perf_counter(), self.busy_until) + seconds

    def now(self):
        return max(time.perf_counter(), self.busy_until)

    def wait(self, *_):
        time.sleep(max(0.0, self.busy_until - time.perf_counter()))


class OwnTime(Clock):
    """The same for a burn-in: who else wants the processor does not make a GPU slower.

    Its seconds are those in which this thread had the processor, and those for which it waited for the GPU.
    """

    def __init__(self):
        super().__init__()
        self.waited = 0.0
        self.others = 0.0  # of this thread, which the stand-in took for itself

    def seconds(self):
        return time.thread_time() + self.waited - self.others

    def queue(self, seconds):
        self.busy_until = max(self.seconds(), self.busy_until) + seconds

    def wait(self, *_):
        self.waited += max(0.0, self.busy_until - self.seconds())


def slice_of(slices):
    """The slice of MIG that CUDA_VISIBLE_DEVICES names first, of which a process gets no other; None where it is none.

    Source: NVIDIA's MIG User Guide, "CUDA Device Enumeration".
    """
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    return next((number for number in range(len(slices)) if first == f"MIG-{uuid_of(SLICES + number)}"), None)


def visible(count):
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, by number; one that is not there ends the list, as CUDA does it."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return list(range(count))
    found = []
    for word in text.split(","):
        number = number_of(word.strip(), count)
        if number is None or number in found:
            break
        found.append(number)
    return found


def uuid_of(number):
    """As torch prints it."""
    return f"{number:08d}-0000-0000-0000-{number:012d}"


def number_of(word, count):
    """The GPU that an index means, or the beginning of a UUID; None where it is none or means several."""
    if word.isdecimal():
        return int(word) if int(word) < count else None
    meant = [number for number in range(count) if word != "GPU-" and f"GPU-{uuid_of(number)}".startswith(word)]
    return meant[0] if word.startswith("GPU-") and len(meant) == 1 else None


class Refused(RuntimeError):
    """What torch raises of an error of CUDA."""


Refused.__name__ = "AcceleratorError"


class Gpus:
    """The GPUs that this process sees: which one is its own now, when that will be done, and what has gone wrong."""

    def __init__(self, torch, description):
        self.torch, self.description = torch, description
        self.clock, self.own, self.seen = Clock(), OwnTime(), visible(description.gpus)
        self.slice, self.kind = slice_of(description.slices), ""
        self.free_bytes, self.whole_bytes = description.free_bytes, description.memory_bytes
        if self.slice is not None:
            number, self.kind, self.whole_bytes = description.slices[self.slice]
            self.seen, self.free_bytes = [number], min(self.free_bytes, self.whole_bytes)
        self.current = 0
        self.known_until = 0.0  # up to when all that was queued is known to be done
        self.has_worked = False  # whether a kernel ran that could have failed
        room = self.whole_bytes if description.integrated else self.free_bytes
        self.memory = Memory(torch, room_bytes=room, refuse=RuntimeError, full=self.full)

    def full(self, size):
        """What torch raises where there is no room."""
        return self.torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size / 2**30:.2f} GiB.")

    def queue(self, seconds):
        """A kernel that takes so long."""
        self.clock.queue(seconds)
        self.own.queue(seconds)
        self.has_worked = True

    def wait(self):
        """The host waits for all that its GPU does."""
        self.own.wait()
        self.clock.wait()
        self.memory.come()
        self.complain()

    def synchronize(self, *_):
        """The same, and moments of before are known then."""
        self.own.wait()
        self.clock.wait()
        self.known_until = self.clock.now()
        self.memory.come()
        self.complain()

    def complain(self):
        """An error of a kernel shows where somebody waits for it, and not where it was launched."""
        if self.has_worked and self.board() in self.description.failing:
            raise Refused(
                "CUDA error: an illegal memory access was encountered\n"
                "CUDA kernel errors might be asynchronously reported at some other API call.\n"
            )

    def board(self):
        """The node's number of the GPU in use."""
        return self.seen[self.current]

    def share(self):
        """What the GPU in use reaches of the figures."""
        whole = float(self.description.slow.get(str(self.board()), 1.0))
        return whole * int(self.kind[0]) / SEVENTHS if self.kind else whole

    def checked(self, device=None):
        """The number of a GPU, which has to be there."""
        if isinstance(device, str):
            device = self.torch.device(device)
        index = device if isinstance(device, int) else getattr(device, "index", None)
        index = self.current if index is None else index
        if not 0 <= index < len(self.seen):
            raise Refused(
                "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?\n"
                "CUDA kernel errors might be asynchronously reported at some other API call.\n"
            )
        return index

    def set_device(self, device):
        """Have another one in use."""
        self.current = self.checked(device)

    def free_and_whole(self, device=None):
        """Bytes, as cudaMemGetInfo tells them."""
        return self.free_bytes - self.taken(device), self.whole_bytes

    def taken(self, device=None):
        """Bytes of tensors."""
        return self.memory.taken.get(self.checked(device), 0)

    def taken_at_most(self, device=None):
        """Bytes of tensors, when they were most."""
        return self.memory.most.get(self.checked(device), 0)


def event_of(gpus):
    """The class of events on these GPUs."""

    class Event:
        """Known to have come only to who has waited for it: without that, CUDA's may be there or not."""

        def __init__(self, enable_timing=False, **_):
            self.at, self.is_awaited, self.is_timed, self.device = 0.0, False, enable_timing, None

        def record(self, *_):
            self.at, self.is_awaited = gpus.clock.now(), False
            if self.device not in {None, gpus.current}:
                raise Refused("CUDA error: invalid resource handle")
            self.device = gpus.current

        def synchronize(self):
            time.sleep(max(0.0, self.at - time.perf_counter()))
            self.is_awaited = True
            gpus.memory.come()
            gpus.complain()

        def query(self):
            return self.at <= time.perf_counter()

        def elapsed_time(self, other):
            if not (self.is_timed and other.is_timed):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if None in {self.device, other.device}:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            if self.device != other.device:
                raise Refused("CUDA error: invalid resource handle")
            if not other.is_awaited and other.at > gpus.known_until:
                raise Refused("CUDA error: device not ready")
            return max(1e-3, 1e3 * (other.at - self.at))

    return Event


def properties_of(gpus):
    """The class of what is told of a GPU."""
    description = gpus.description

    class Properties:
        name = f"{description.model} MIG {gpus.kind}" if gpus.kind else description.model
        total_memory = gpus.whole_bytes
        major, minor = description.capability
        multi_processor_count = 132
        is_integrated = description.integrated

        def __init__(self, device=None):
            number = gpus.seen[gpus.checked(device)]
            self.uuid = uuid_of(number) if gpus.slice is None else uuid_of(SLICES + gpus.slice)
            self.pci_domain_id, self.pci_bus_id, self.pci_device_id = 0, 16 + number, 0

    return Properties


def put_under(torch, description):
    """`torch.cuda` as on a host with these GPUs."""
    cuda, gpus = torch.cuda, Gpus(torch, description)
    elapsed = time.perf_counter

    def perf_counter():
        is_burning_in = "matmul" in sys._getframe(1).f_globals.get("FIGURES", ())
        return gpus.own.seconds() if is_burning_in else elapsed()

    time.perf_counter = perf_counter
    cuda.is_available = lambda: bool(gpus.seen)
    cuda.device_count = lambda: len(gpus.seen)
    cuda.is_initialized = lambda: True
    cuda.init = lambda: None
    cuda.current_device = lambda: gpus.current
    cuda.set_device = gpus.set_device
    cuda.get_device_name = lambda device=None: properties_of(gpus)(device).name
    cuda.get_device_capability = lambda device=None: (gpus.checked(device), tuple(description.capability))[1]
    cuda.get_device_properties = properties_of(gpus)
    cuda.mem_get_info = gpus.free_and_whole
    cuda.max_memory_allocated = gpus.taken_at_most
    cuda.memory_allocated = gpus.taken
    cuda.empty_cache = lambda: None
    cuda.synchronize = gpus.synchronize
    cuda.manual_seed_all = lambda seed: None
    cuda.Event = event_of(gpus)
    cuda.nccl.version = lambda: tuple(description.nccl)
    torch.version.cuda = "12.8"
    functions.put_under(torch, gpus)
    return gpus.memory
