"""Which limits hold for a process that the job starts?"""

from __future__ import annotations

from typing import Literal

from preflight.facts.value import Count, Missing, Text, Value, present
from preflight.said import said

NOT_REPORTED = Missing("not reported", "absent")
Limit = Count | Literal["unlimited"]
LEAST_STACK_BYTES = 1 << 20  # the usual 8 MiB, less what frugal sites set
# Option of ulimit -> below how many bytes (or seconds of CPU time) no job of torch gets far.
HOPELESS = {"-v": 512 << 20, "-d": 64 << 20, "-f": 1 << 20, "-t": 600, "-s": 128 << 10}


class Held(Value, frozen=True):
    """What takes room in /dev/shm: a file, a folder, or the segments of one library."""

    name: Text  # with a star for several
    files: Count
    bytes: Count
    user_id: Count


class Limits(Value, frozen=True, kw_only=True):
    """Limits in the context the job will have, and shared memory."""

    memlock_soft_bytes: Limit
    memlock_hard_bytes: Limit
    nofile_soft: Limit
    nofile_hard: Limit
    nproc_soft: Limit
    shm_total_bytes: Count | Missing
    shm_free_bytes: Count | Missing
    leftovers: tuple[Text, ...]  # /dev/shm/preflight-* of an earlier run
    shm_is_writable: bool | Missing = NOT_REPORTED
    held: tuple[Held, ...] = ()  # the largest of what is in /dev/shm, where that is more than half full
    device_faults: tuple[Text, ...] | Missing = NOT_REPORTED  # of /dev/null and the like
    address_space_soft_bytes: Limit | Missing = NOT_REPORTED
    file_size_soft_bytes: Limit | Missing = NOT_REPORTED
    cpu_time_soft_seconds: Limit | Missing = NOT_REPORTED
    data_soft_bytes: Limit | Missing = NOT_REPORTED  # what a process allocates for itself alone
    stack_soft_bytes: Limit | Missing = NOT_REPORTED  # of each thread too

    @property
    def has_null(self) -> bool:
        """Whether the user may write to /dev/null, even if it is a plain file."""
        faults = present(self.device_faults, "devices")
        return all(" is no device" in text for text in faults if text.startswith("/dev/null"))

    def free_shared_memory_bytes(self) -> int:
        """What is free in /dev/shm."""
        return present(self.shm_free_bytes, "free bytes of /dev/shm")

    def held_down(self) -> dict[str, str]:
        """What else is limited: option of ulimit -> in words, and what the limit ends."""
        held = self._others()
        space, data, size, seconds, stack = (held.get(option, -1) for option in HOPELESS)
        words = {
            "-v": said("{space} bytes of address space (ulimit -v)", space),
            "-d": said("{data} bytes of data: an allocation beyond them ends the rank (ulimit -d)", data),
            "-f": said("files of {size} bytes at most: a larger checkpoint or log ends the rank (ulimit -f)", size),
            "-t": said("{seconds} seconds of CPU time, after which a rank is killed (ulimit -t)", seconds),
            "-s": said("a stack of {stack} KiB (ulimit -s)", stack >> 10),
        }
        return {option: words[option] for option in held}

    def is_hopeless(self) -> bool:
        """Whether one of them is so low that no job of torch gets far."""
        return any(held < HOPELESS[option] for option, held in self._others().items())

    def _others(self) -> dict[str, int]:
        limits = {
            "-v": present(self.address_space_soft_bytes, "address space"),
            "-d": self.data_soft_bytes,
            "-f": present(self.file_size_soft_bytes, "size of files"),
            "-t": present(self.cpu_time_soft_seconds, "CPU time"),
            "-s": self.stack_soft_bytes,
        }
        held = {option: value for option, value in limits.items() if isinstance(value, int)}
        return {option: value for option, value in held.items() if option != "-s" or value < LEAST_STACK_BYTES}
