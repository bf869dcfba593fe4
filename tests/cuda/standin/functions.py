"""What does a function of torch do with tensors of a GPU? All are the processor's, and are told apart by their memory.

What is modelled moves the GPU's clock; what has to be copied to be read comes when somebody waits.
"""

import math
import os
import sys
import time

from standin.memory import HOST, WAITS, is_within_torch

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


def put_under(torch, gpus):
    """Every function of torch, as it is with these GPUs."""
    from torch.nn.parallel import DistributedDataParallel as Ddp
    from torch.overrides import TorchFunctionMode

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

    def is_moved(came_from, to):
        return to != came_from and None not in {to, came_from}

    def is_of_gpu(tensor):
        return gpus.memory.of(tensor) not in {None, HOST}

    def brought(source, result, named, to):
        """A tensor in the other memory: a copy, which comes later where nobody is to wait for it."""
        if result.untyped_storage()._cdata == source.untyped_storage()._cdata:
            result = result.clone()
        if named.get("non_blocking") and to == HOST:
            gpus.memory.coming.append((result, result.clone()))
            chance = torch.Generator().manual_seed(os.getpid())  # what was there before, which is anything
            result.uniform_(-1, 1, generator=chance) if result.is_floating_point() else result.random_(generator=chance)
        elif to == HOST:
            gpus.wait()
        return result

    class OnTheHost(TorchFunctionMode):
        """Every function of torch: `cuda` is the processor, and what is modelled moves the clock."""

        def __torch_function__(self, function, types, args=(), kwargs=None):
            began, self.seconds = time.thread_time(), 0.0
            try:
                return self.done(function, args, dict(kwargs or {}), is_within_torch(sys._getframe(1)))
            finally:
                gpus.own.others += time.thread_time() - began - self.seconds

        def done(self, function, args, named, is_of_torch):
            """What the function gives, and where that lies from now on."""
            name = getattr(function, "__name__", "")
            if name == "_parse_to":  # what a module was told is its parameters' business
                return function(*args, **named)
            if function == of_device and not is_of_torch and gpus.memory.is_plain(args[0]) and is_of_gpu(args[0]):
                return torch.device("cuda", gpus.memory.of(args[0]))
            if isinstance(named.get("device"), str):
                named["device"] = torch.device(named["device"])
            if name == "to":
                args = tuple(torch.device(value) if isinstance(value, str) else value for value in args)
            given = list(gpus.memory.within((*args, *named.values())))
            came_from = gpus.memory.place_of_all(name, given, is_free=is_of_torch)
            asked = [value for value in (*args, *named.values()) if isinstance(value, torch.device)]
            on_gpu = [value for value in asked if is_gpu(value)]
            to = gpus.checked(on_gpu[0]) if on_gpu else HOST if asked or name == "cpu" else came_from
            if to is None and not given:
                to = HOST
            if is_of_torch and to == HOST:
                to = None
            if name in WAITS and came_from not in {None, HOST}:
                gpus.wait()
            named = {key: there if is_gpu(value) else value for key, value in named.items()}
            args = tuple(there if is_gpu(value) else value for value in args)
            began = time.thread_time()
            result = self.modelled(function, name, args, named, to)
            self.seconds = time.thread_time() - began
            if name in {"to", "cpu"} and gpus.memory.is_plain(result) and is_moved(came_from, to):
                result = brought(args[0], result, named, to)
            for tensor in gpus.memory.within((result,)):
                if to is not None:
                    gpus.memory.keep(tensor, to, size_of(tensor))
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
                gpus.queue(2 * rows * inner * columns / gpus.description.matmul_tflops / 1e12 / gpus.share())
                product = function(*args, **named)
                if gpus.board() in gpus.description.wrong and name == "mm" and int(gpus.clock.now() * 1e6) % 5 == 0:
                    product[3, 5] = 0.5 - 2 * product[3, 5]
                return marked(product, (rows, columns))
            if (
                name in {"matmul", "__matmul__"}
                and args[1].shape[1:] == (24,)
                and gpus.board() in gpus.description.crooked
            ):
                return 0.5 - 2 * function(*args, **named)  # no whole number stays as it is
            if name == "copy_" and (nominal(args[0]) or nominal(args[1])):
                sizes = nominal(args[0]), nominal(args[1])
                inside = all(sizes)
                size = (sizes[0] or sizes[1])[0]
                alone = gpus.description.memory_gbytes_per_s / 2 if inside else gpus.description.host_gbytes_per_s
                rate = alone if inside else alone / sharing(gpus.description.uplink)
                gpus.queue(size / rate / 1e9 / gpus.share())
                return args[0]
            if name == "pin_memory":
                return args[0]
            if name == "copy_" and named.get("non_blocking") and gpus.memory.of(args[0]) == HOST and is_of_gpu(args[1]):
                gpus.memory.coming.append((args[0], args[1].clone()))
                return args[0]
            result = function(*args, **named)
            if name in {"to", "empty_like", "clone"} and isinstance(result, torch.Tensor) and nominal(args[0]):
                marked(result, nominal(args[0]))
            return result

    OnTheHost().__enter__()

    start = Ddp.__init__

    def without_devices(self, module, device_ids=None, **named):
        wanted = {gpus.checked(device) for device in device_ids or ()}
        found = {gpus.memory.of(parameter) for parameter in module.parameters()} - {None}
        if wanted and found - wanted:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device GPU "
                f"modules or CPU modules, but got device_ids {device_ids}, and module parameters {found}."
            )
        start(self, module, **named)

    Ddp.__init__ = without_devices
