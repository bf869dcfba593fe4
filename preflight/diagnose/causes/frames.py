"""Whose failure is it where the frames of a traceback say more than its last line?"""

from __future__ import annotations

import re
from typing import NamedTuple

ANY = re.compile("")
OF_GPU_MEMORY = frozenset(("gpu-out-of-memory",))


class Within(NamedTuple):
    """Where a frame is of such a file and function, a line that shows one of ``instead_of`` shows ``cause``."""

    file: re.Pattern[str]
    function: re.Pattern[str]
    instead_of: frozenset[str]
    cause: str


WITHIN = (
    # What compiles code keeps it in a cache, and calls what it misses there by the names of files.
    Within(
        re.compile(r"flashinfer/jit|/triton/|torch/_inductor|torch/utils/(?:cpp_extension|_triton)|deep_gemm/jit"),
        ANY,
        frozenset(("nfs-not-responding", "stale-file", "file-missing", "shared-index-race", "disk-error")),
        "compile-cache",
    ),
    # CUDA has one error for both memories; the host's is what is locked for copies.
    Within(ANY, re.compile("pin_memory"), OF_GPU_MEMORY, "host-memory-not-pinned"),
    # A checkpoint's tensors go back to the GPU that they came from, so all ranks of a node meet on that of rank 0.
    Within(
        re.compile(r"torch/serialization\.py"),
        re.compile(r"load|deserialize|restore_location"),
        OF_GPU_MEMORY,
        "checkpoint-loads-onto-one-gpu",
    ),
)


def told(file: str, function: str | None) -> frozenset[Within]:
    """The rows that a frame of a traceback matches."""
    return frozenset(row for row in WITHIN if row.file.search(file) and row.function.search(function or ""))
