"""gpu_metrics as amdgpu fills it in, of two generations."""

from __future__ import annotations

import struct


def metrics(revision, **counted):
    """gpu_metrics of MI300X: the kernel's table, with so long in each of the states that hold the clocks down."""
    start = {6: 36, 7: 44, 8: 44}[revision]
    table = bytearray(start + 64)
    table[:4] = struct.pack("<HBB", len(table), 1, revision)
    names = ("prochot", "ppt", "socket", "regulators", "memory")
    struct.pack_into("<5I", table, start, *(counted.get(name, 0) for name in names))
    return bytes(table)


def older(bits, revision=3):
    """gpu_metrics of MI200, with bits of what holds the clocks down at this moment."""
    table = bytearray(120)
    table[:4] = struct.pack("<HBB", len(table), 1, revision)
    struct.pack_into("<Q", table, 112, bits)
    return bytes(table)
