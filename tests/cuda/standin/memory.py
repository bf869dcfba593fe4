"""In whose memory does a tensor lie, the host's or which GPU's, how much is taken there, and what is still on its way?

Known by the storage, which views share, until it is freed. Of what torch makes by itself, in a backward pass for one,
nothing is known until somebody asks for it, and nothing is refused.
"""

import weakref

HOST = -1
# What may be given tensors of both: copies, indices, and what only looks.
TAKES_BOTH = {
    *("copy_", "to", "cpu", "cuda", "type", "__set__", "__get__", "set_", "data_ptr", "untyped_storage", "is_set_to"),
    *("__getitem__", "__setitem__", "index", "index_put_", "type_as", "backward", "grad", "_copy_from"),
    *("_has_compatible_shallow_copy_type", "__delete__", "_make_subclass", "__setstate__", "__reduce_ex__"),
}
TO_THE_HOST = {"cpu", "numpy"}
WAITS = {"item", "tolist", "cpu", "numpy", "__float__", "__int__", "__bool__", "__index__", "__contains__", "equal"}


def is_within_torch(frame):
    """Whether torch itself calls: its shards have a mesh of processors here, and lie where that says."""
    return frame.f_globals.get("__name__", "").startswith("torch.distributed.")


class Memory:
    """Where tensors lie; `refuse` makes what torch raises of a text, `full` what it raises where there is no room."""

    def __init__(self, torch, *, room_bytes, refuse, full):
        self.torch, self.room_bytes, self.refuse, self.full = torch, room_bytes, refuse, full
        self.places = {}  # storage -> HOST or the number of a GPU
        self.taken = {}  # GPU -> bytes
        self.most = {}
        self.coming = []  # copies to the host that have not begun: (to, what was there when it was asked for)

    def of(self, tensor):
        """HOST, the number of a GPU, or None where nothing is known."""
        return self.places.get(tensor.untyped_storage()._cdata)

    def is_plain(self, value):
        """A tensor with memory of its own, and no wrapper of others."""
        return isinstance(value, self.torch.Tensor) and type(value) in {self.torch.Tensor, self.torch.nn.Parameter}

    def within(self, values):
        """Every tensor among these, those in lists too."""
        for value in values:
            if isinstance(value, (list, tuple)):
                yield from self.within(value)
            elif self.is_plain(value):
                yield value

    def keep(self, tensor, place, size=None):
        """From now on it lies there, unless it is known to lie somewhere. Raises what torch does where no room is."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.places or tensor.is_meta:
            return
        size = storage.nbytes() if size is None else size
        if place != HOST:
            taken = self.taken.get(place, 0) + size
            if taken > self.room_bytes:
                raise self.full(size)
            self.taken[place] = taken
            self.most[place] = max(self.most.get(place, 0), taken)
        self.places[key] = place
        weakref.finalize(storage, self._free, key, place, size)

    def _free(self, key, place, size):
        del self.places[key]
        if place != HOST:
            self.taken[place] -= size

    def place_of_all(self, name, tensors, *, is_free):
        """Where what comes of these lies. Raises what torch does of tensors that lie in two places."""
        found = {self.of(one) for one in tensors if one.dim() or self.of(one) != HOST} - {None}
        if found - {HOST} and tensors and name.endswith("_") and not name.endswith("__"):
            found |= {self.of(tensors[0])} - {None}  # what is changed has to lie there too, a single number or not
        if len(found) > 1 and name not in TAKES_BOTH and not is_free:
            names = " and ".join(sorted("cpu" if one == HOST else f"cuda:{one}" for one in found))
            raise self.refuse(
                f"Expected all tensors to be on the same device, but found at least two devices, {names}!"
            )
        of_gpus = found - {HOST}
        if of_gpus:
            return min(of_gpus)
        return HOST if any(self.of(one) == HOST for one in tensors) else None

    def come(self):
        """Let the copies that were asked for be done."""
        while self.coming:
            to, source = self.coming.pop(0)
            to.copy_(source)
