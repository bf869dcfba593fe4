"""Which limits hold for a process that the job starts?"""

from __future__ import annotations

from typing import Literal

from preflight.facts.value import Count, Missing, Text, Value, present

NOT_REPORTED = Missing("not reported", "absent")
Limit = Count | Literal["unlimited"]


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
