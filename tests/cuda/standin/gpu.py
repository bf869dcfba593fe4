"""How do tensors of a GPU live in the memory of the host, and how long would the GPU take?

A device keeps a clock: an operation that is modelled moves its end, and whoever synchronises sleeps until then. The
large operands of a burn-in are stood in for by small ones that remember their size.
"""

import math
import os
import sys
import time

from standin.memory import HOST, WAITS, Memory

LARGE_SIDE = 2048
LARGE_BYTES = 64 << 20


COPYING_SECONDS = 0.05  # after a copy another one follows, as long as its GPU is measured


def sharing(uplink):
    """How many processes copy over this way at the moment, this one among them."""
    if not uplink:
        return 1
    with open(os.path.join(uplink, str(os.getpid())), "w", encoding="ascii"):
        pass
    since = time.time() - COPYING_SECONDS
    return sum(one.stat().st_mtime >= since for one in os.scandir(uplink))


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

    def seconds(self):
        return time.thread_time() + self.waited

    def queue(self, seconds):
        self.busy_until = max(self.seconds(), self.busy_until) + seconds

    def wait(self, *_):
        self.waited += max(0.0, self.busy_until - self.seconds())


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


def put_under(torch, description):
    """`torch.cuda` as on a host with these GPUs."""
    from torch.overrides import TorchFunctionMode

    cuda, clock, own, seen = torch.cuda, Clock(), OwnTime(), visible(description.gpus)
    current = [0]
    elapsed = time.perf_counter

    def perf_counter():
        is_burning_in = "matmul" in sys._getframe(1).f_globals.get("FIGURES", ())
        return own.seconds() if is_burning_in else elapsed()

    time.perf_counter = perf_counter

    def queue(seconds):
        clock.queue(seconds)
        own.queue(seconds)
        worked[0] = True

    def synchronize(*_):
        own.wait()
        clock.wait()
        waited[0] = clock.now()
        memory.come()
        complain()

    waited = [0.0]  # up to when all that was queued is known to be done
    worked = [False]  # whether a kernel ran that could have failed

    class Refused(RuntimeError):
        pass

    Refused.__name__ = "AcceleratorError"

    def full(size):
        return torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size / 2**30:.2f} GiB.")

    memory = Memory(torch, free_bytes=description.free_bytes, refuse=RuntimeError, full=full)

    def complain():
        """An error of a kernel shows where somebody waits for it, and not where it was launched."""
        if worked[0] and seen[current[0]] in description.failing:
            raise Refused(
                "CUDA error: an illegal memory access was encountered\n"
                "CUDA kernel errors might be asynchronously reported at some other API call.\n"
            )

    def index_of(device=None):
        if device is None:
            return current[0]
        if isinstance(device, int):
            return device
        if isinstance(device, str):
            device = torch.device(device)
        return current[0] if device.index is None else device.index

    def checked(device=None):
        index = index_of(device)
        if not 0 <= index < len(seen):
            raise Refused(
                "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?\n"
                "CUDA kernel errors might be asynchronously reported at some other API call.\n"
            )
        return index

    def set_device(device):
        current[0] = checked(device)

    def share():
        return float(description.slow.get(str(seen[current[0]]), 1.0))

    class Event:
        """Known to have come only to who has waited for it: without that, CUDA's may be there or not."""

        def __init__(self, enable_timing=False, **_):
            self.at, self.is_awaited, self.is_timed, self.device = 0.0, False, enable_timing, None

        def record(self, *_):
            self.at, self.is_awaited = clock.now(), False
            if self.device not in {None, current[0]}:
                raise Refused("CUDA error: invalid resource handle")
            self.device = current[0]

        def synchronize(self):
            time.sleep(max(0.0, self.at - time.perf_counter()))
            self.is_awaited = True
            memory.come()
            complain()

        def query(self):
            return self.at <= time.perf_counter()

        def elapsed_time(self, other):
            if not (self.is_timed and other.is_timed):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if None in {self.device, other.device}:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            if self.device != other.device:
                raise Refused("CUDA error: invalid resource handle")
            if not other.is_awaited and other.at > waited[0]:
                raise Refused("CUDA error: device not ready")
            return max(1e-3, 1e3 * (other.at - self.at))

    class Properties:
        name = description.model
        total_memory = description.memory_bytes
        major, minor = description.capability
        multi_processor_count = 132

        def __init__(self, device):
            self.uuid = uuid_of(seen[checked(device)])
            self.pci_domain_id, self.pci_bus_id, self.pci_device_id = 0, 16 + seen[checked(device)], 0

    cuda.is_available = lambda: bool(seen)
    cuda.device_count = lambda: len(seen)
    cuda.is_initialized = lambda: True
    cuda.init = lambda: None
    cuda.current_device = lambda: current[0]
    cuda.set_device = set_device
    cuda.get_device_name = lambda device=None: (checked(device), description.model)[1]
    cuda.get_device_capability = lambda device=None: (checked(device), tuple(description.capability))[1]
    cuda.get_device_properties = lambda device=None: Properties(device)
    cuda.max_memory_allocated = lambda device=None: memory.most.get(checked(device), 0)
    cuda.memory_allocated = lambda device=None: memory.taken.get(checked(device), 0)
    cuda.mem_get_info = lambda device=None: (
        description.free_bytes - cuda.memory_allocated(device),
        description.memory_bytes,
    )
    cuda.empty_cache = lambda: None
    cuda.synchronize = synchronize
    cuda.manual_seed_all = lambda seed: None
    cuda.Event = Event
    cuda.nccl.version = lambda: tuple(description.nccl)
    torch.version.cuda = "12.8"

    there, of_device = torch.device("cpu"), torch.Tensor.device.__get__

    def is_gpu(value):
        return isinstance(value, torch.device) and value.type == "cuda"

    def nominal(value):
        return getattr(value, "_nominal", None)

    def marked(tensor, shape):
        tensor._nominal = shape
        return tensor

    def size_of(tensor):
        return math.prod(nominal(tensor)) * tensor.element_size() if nominal(tensor) else None

    def is_of_gpu(tensor):
        return memory.of(tensor) not in {None, HOST}

    def synchronize_own():
        """The host reads what lies on the GPU, and waits for it."""
        own.wait()
        clock.wait()
        memory.come()
        complain()

    def brought(source, result, named, to):
        """A tensor in the other memory: a copy, which comes later where nobody is to wait for it."""
        if result.untyped_storage()._cdata == source.untyped_storage()._cdata:
            result = result.clone()
        if named.get("non_blocking") and to == HOST:
            memory.coming.append((result, result.clone()))
            chance = torch.Generator().manual_seed(os.getpid())  # what was there before, which is anything
            result.uniform_(-1, 1, generator=chance) if result.is_floating_point() else result.random_(generator=chance)
        elif to == HOST:
            synchronize_own()
        return result

    class OnTheHost(TorchFunctionMode):
        """Every function of torch: `cuda` is the processor, and what is modelled moves the clock."""

        def __torch_function__(self, function, types, args=(), kwargs=None):
            named = dict(kwargs or {})
            name = getattr(function, "__name__", "")
            if name == "_parse_to":  # what a module was told is its parameters' business
                return function(*args, **named)
            if function == of_device and (memory.of(args[0]) if memory.is_plain(args[0]) else HOST) not in {None, HOST}:
                return torch.device("cuda", memory.of(args[0]))
            if isinstance(named.get("device"), str):
                named["device"] = torch.device(named["device"])
            if name == "to":
                args = tuple(torch.device(value) if isinstance(value, str) else value for value in args)
            given = list(memory.within((*args, *named.values())))
            came_from = memory.place_of_all(name, given)
            asked = [value for value in (*args, *named.values()) if isinstance(value, torch.device)]
            on_gpu = [value for value in asked if is_gpu(value)]
            to = checked(on_gpu[0]) if on_gpu else HOST if asked or name == "cpu" else came_from
            if to is None and not given:
                to = HOST
            if name in WAITS and came_from not in {None, HOST}:
                synchronize_own()
            named = {key: there if is_gpu(value) else value for key, value in named.items()}
            args = tuple(there if is_gpu(value) else value for value in args)
            result = self.modelled(function, name, args, named, to)
            if name in {"to", "cpu"} and memory.is_plain(result) and to != came_from and None not in {to, came_from}:
                result = brought(args[0], result, named, to)
            for tensor in memory.within((result,)):
                if to is not None:
                    memory.keep(tensor, to, size_of(tensor))
            return result

        def modelled(self, function, name, args, named, to):
            """What it gives; what is modelled moves the clock."""
            on_gpu = to not in {None, HOST}
            if on_gpu and name == "randint" and len(args) == 3 and min(args[2]) >= LARGE_SIDE:
                return marked(function(*args[:2], (96, 96), **named), args[2])
            if on_gpu and name == "zeros" and args and isinstance(args[0], int) and args[0] >= LARGE_BYTES:
                return marked(function(4096, *args[1:], **named), (args[0],))
            if name in {"mm", "matmul", "__matmul__"} and nominal(args[0]) and nominal(args[1]):
                (rows, inner), (_, columns) = nominal(args[0]), nominal(args[1])
                queue(2 * rows * inner * columns / description.matmul_tflops / 1e12 / share())
                product = function(*args, **named)
                if seen[current[0]] in description.wrong and name == "mm" and int(clock.now() * 1e6) % 5 == 0:
                    product[3, 5] = 0.5 - 2 * product[3, 5]
                return marked(product, (rows, columns))
            if (
                name in {"matmul", "__matmul__"}
                and args[1].shape[1:] == (24,)
                and seen[current[0]] in description.crooked
            ):
                return 0.5 - 2 * function(*args, **named)  # no whole number stays as it is
            if name == "copy_" and (nominal(args[0]) or nominal(args[1])):
                sizes = nominal(args[0]), nominal(args[1])
                inside = all(sizes)
                size = (sizes[0] or sizes[1])[0]
                alone = description.memory_gbytes_per_s / 2 if inside else description.host_gbytes_per_s
                rate = alone if inside else alone / sharing(description.uplink)
                queue(size / rate / 1e9 / share())
                return args[0]
            if name == "pin_memory":
                return args[0]
            if name == "copy_" and named.get("non_blocking") and memory.of(args[0]) == HOST and is_of_gpu(args[1]):
                memory.coming.append((args[0], args[1].clone()))
                return args[0]
            result = function(*args, **named)
            if name in {"to", "empty_like", "clone"} and isinstance(result, torch.Tensor) and nominal(args[0]):
                marked(result, nominal(args[0]))
            return result

    OnTheHost().__enter__()

    from torch.nn.parallel import DistributedDataParallel as Ddp

    start = Ddp.__init__

    def without_devices(self, module, device_ids=None, **named):
        wanted = {checked(device) for device in device_ids or ()}
        found = {memory.of(parameter) for parameter in module.parameters()} - {None}
        if wanted and found - wanted:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device GPU "
                f"modules or CPU modules, but got device_ids {device_ids}, and module parameters {found}."
            )
        start(self, module, **named)

    Ddp.__init__ = without_devices
    return memory
