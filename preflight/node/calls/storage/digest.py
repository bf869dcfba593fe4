"""What is the digest of a file or a folder: short, and different wherever the contents are?"""

from __future__ import annotations

import hashlib
import itertools
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

WHOLE_BYTES = 256 << 20  # read in full up to this size; of a larger one its size and both ends of each file
END_BYTES = 64 << 10
BLOCK_BYTES = 1 << 20
MOST_FILES = 100_000
MOST_POINTERS = 16
MOST_LOOKED_AT = 2000
POINTER = b"version https://git-lfs.github.com/spec/v1"
POINTER_BYTES = 1024


def digest_of(path: str) -> dict[str, Any]:
    """The digest of a file, or of all files under a folder with their names; equal trees give equal digests."""
    total, count, left = 0, 0, WHOLE_BYTES
    whole = True
    pointers: list[str] = []
    hasher = hashlib.sha256()
    for name, file in files_under(path):
        if count >= MOST_FILES:
            whole = False
            break
        size = os.stat(file).st_size
        with open(file, "rb") as stream:
            hasher.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
            head = stream.read(min(size, POINTER_BYTES))
            if size < POINTER_BYTES and head.startswith(POINTER) and len(pointers) < MOST_POINTERS:
                pointers.append(name or file)
            stream.seek(0)
            if size <= left:
                left -= size
                while block := stream.read(BLOCK_BYTES):
                    hasher.update(block)
            else:
                whole = False
                hasher.update(stream.read(END_BYTES))
                stream.seek(max(0, size - END_BYTES))
                hasher.update(stream.read(END_BYTES))
        total += size
        count += 1
    return {
        "digest": hasher.hexdigest(),
        "file_count": count,
        "bytes": total,
        "is_whole": whole,
        "pointers": pointers,
    }


def pointers_under(path: str) -> list[str]:
    """The git-lfs pointers among the first files of a folder, or the file itself if it is one."""
    found: list[str] = []
    for name, file in itertools.islice(files_under(path), MOST_LOOKED_AT):
        if os.stat(file).st_size < POINTER_BYTES:
            with open(file, "rb") as stream:
                if stream.read(len(POINTER)) == POINTER and len(found) < MOST_POINTERS:
                    found.append(name or file)
    return found


def files_under(path: str) -> Iterator[tuple[str, str]]:
    """Name below `path` and full name of every regular file, in one order on every node."""
    if os.path.isfile(path):
        yield "", path
        return
    os.listdir(path)  # a folder that is absent or closed to us is an error, not an empty folder
    for folder, folders, names in os.walk(path):
        folders.sort()
        if os.path.basename(folder) in (".git", "__pycache__"):
            folders.clear()
            continue
        for name in sorted(names):
            file = f"{folder}/{name}"
            if os.path.isfile(file):
                yield os.path.relpath(file, path), file
