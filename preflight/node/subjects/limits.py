"""Which limits and how much shared memory will the job have here?"""

from __future__ import annotations

import os
import resource
import stat
from itertools import chain, islice

from preflight.node.agent import roots
from preflight.node.agent.missing import missing_because
from preflight.node.agent.scratch import abandoned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Union

    Limit = Union[int, str]

SHARED_MEMORY = "/dev/shm"
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
MOST_FILES = 20_000  # 50 ms
MOST_HELD = 3
UNLIMITED_FROM = 1 << 62  # some container runtimes write the largest integer instead of RLIM_INFINITY


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject limits."""
    roots.only_here(arguments)
    memlock = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    nofile = resource.getrlimit(resource.RLIMIT_NOFILE)
    nproc = resource.getrlimit(resource.RLIMIT_NPROC)
    return {
        "memlock_soft_bytes": limit(memlock[0]),
        "memlock_hard_bytes": limit(memlock[1]),
        "nofile_soft": limit(nofile[0]),
        "nofile_hard": limit(nofile[1]),
        "nproc_soft": limit(nproc[0]),
        "address_space_soft_bytes": limit(resource.getrlimit(resource.RLIMIT_AS)[0]),
        "file_size_soft_bytes": limit(resource.getrlimit(resource.RLIMIT_FSIZE)[0]),
        "cpu_time_soft_seconds": limit(resource.getrlimit(resource.RLIMIT_CPU)[0]),
        "data_soft_bytes": limit(resource.getrlimit(resource.RLIMIT_DATA)[0]),
        "stack_soft_bytes": limit(resource.getrlimit(resource.RLIMIT_STACK)[0]),
        **shared_memory(SHARED_MEMORY),
        "device_faults": device_faults(DEVICES),
    }


def limit(value: int) -> Limit:
    """A limit as it crosses the wire."""
    return "unlimited" if value == resource.RLIM_INFINITY or value >= UNLIMITED_FROM else value


def shared_memory(folder: str) -> dict[str, Any]:
    """Size and free bytes of a file system, and what killed runs of our user left there and the keeper kept."""
    try:
        status = os.statvfs(folder)
        left = abandoned(folder)
    except OSError as error:
        reason = missing_because(error)
        return {"shm_total_bytes": reason, "shm_free_bytes": reason, "shm_is_writable": reason, "leftovers": []}
    return {
        "shm_total_bytes": status.f_frsize * status.f_blocks,
        "shm_free_bytes": status.f_frsize * status.f_bavail,
        "shm_is_writable": not status.f_flag & os.ST_RDONLY and os.access(folder, os.W_OK | os.X_OK),
        "leftovers": left,
        "held": held(folder) if 2 * status.f_bavail < status.f_blocks else [],
    }


def held(folder: str) -> list[dict[str, Any]]:
    """What most of a file system in memory is taken by, the largest first; files of one family count together."""
    sums: dict[tuple[str, int], dict[str, Any]] = {}
    left = MOST_FILES
    for name in sorted(os.listdir(folder)):
        files = list(islice(files_of(os.path.join(folder, name)), left))
        left -= len(files)
        if files:
            key = family(name), files[0].st_uid
            known = sums.setdefault(key, {"name": name, "files": 0, "bytes": 0, "user_id": key[1]})
            known["name"] = name if known["name"] == name else f"{key[0]}*"
            known["files"] += sum(not stat.S_ISDIR(one.st_mode) for one in files)
            known["bytes"] += sum(512 * one.st_blocks for one in files)
    largest = sorted(sums.values(), key=lambda one: one["bytes"], reverse=True)
    return [one for one in largest[:MOST_HELD] if one["bytes"]]


def files_of(path: str) -> Iterator[os.stat_result]:
    """The state of a file, or of a folder and all that may be seen below it."""
    below = (os.path.join(top, name) for top, _, names in os.walk(path) for name in names)
    for each in chain((path,), below):
        try:
            yield os.lstat(each)
        except OSError:  # gone since
            continue


def family(name: str) -> str:
    """What the names of one library's segments begin with: `torch_4711_1_0` and `nccl-Xy12` end in what is random."""
    ends = (place for place, letter in enumerate(name) if place and (letter in "-_." or letter.isdigit()))
    place = next(ends, len(name))
    return name[: place + (name[place : place + 1] in ("-", "_", "."))]


def device_faults(paths: tuple[str, ...]) -> list[str]:
    """What is wrong with the files of devices that every program takes for granted."""
    found = []
    for path in paths:
        try:
            is_device = stat.S_ISCHR(os.stat(path).st_mode)
        except OSError as error:
            found.append(f"{path}: {error.strerror}")
            continue
        wanted = os.R_OK | (os.W_OK if path == "/dev/null" else 0)
        if not is_device:
            found.append(f"{path} is no device: a program has put a file of its own in its place")
        if not os.access(path, wanted):
            found.append(f"{path} may not be used by this user")
    return found
