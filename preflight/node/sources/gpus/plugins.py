"""Which libfabric does a network plugin of NCCL ask for, and has this node one that is new enough?"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

NEEDED = b"FABRIC_1."  # libfabric's versions of its symbols, as a library's table of texts names them
LIBRARY = "libfabric.so.1"
ORIGIN = "$ORIGIN"
MOST_BYTES = 64 << 20


def lacking(plugins: Iterable[str], folders: Iterable[str], cache: str) -> list[str]:
    """What of libfabric plugins need and no libfabric here has; nothing where one of them has all that it needs.

    Nor where no libfabric is found: the loader may know of places that we do not.
    """
    known = [*folders, *(os.path.dirname(path) for path in cached(cache))]
    found: list[str] = []
    for plugin in plugins:
        data = content(plugin)
        needed = minors(data)
        if not needed:
            continue
        places = dict.fromkeys([os.path.dirname(plugin), *run_paths(data, os.path.dirname(plugin)), *known])
        libraries = [f"{folder}/{LIBRARY}" for folder in places if folder and os.path.exists(f"{folder}/{LIBRARY}")]
        held = [minors(content(library)) for library in libraries]
        if not held or not all(held) or max(map(max, held)) >= max(needed):
            return []
        most, library = max(zip(map(max, held), libraries))
        found.append(f"{plugin} needs FABRIC_1.{max(needed)}, and {library} has FABRIC_1.{most} at most")
    return found


def content(path: str) -> bytes:
    """The bytes of a library, none of what cannot be read or is far larger than one."""
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return b""


def minors(data: bytes) -> list[int]:
    """The versions FABRIC_1.N that a library names, as a user of them or as their owner."""
    digits = [part[:3].partition(b"\0")[0] for part in data.split(NEEDED)[1:]]
    return [int(each) for each in digits if each.isdigit()]


def run_paths(data: bytes, origin: str) -> list[str]:
    """The folders that a library itself has the loader look in: texts of it that are paths."""
    texts = [text for text in data.split(b"\0") if text.startswith((b"/", ORIGIN.encode())) and b"/lib" in text]
    paths = [path for text in texts for path in text.decode("utf-8", "replace").split(":")]
    return [path.replace(ORIGIN, origin) for path in paths]


def cached(cache: str) -> list[str]:
    """The paths of libfabric that the linker's cache knows."""
    texts = [text for text in content(cache).split(b"\0") if text.endswith(f"/{LIBRARY}".encode())]
    return [text.decode("utf-8", "replace") for text in texts]
