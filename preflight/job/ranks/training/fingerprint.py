"""How far are two computations of one thing apart? By a few numbers that tell them from any other, or to the bit."""

from __future__ import annotations

import ctypes
import hashlib
import math
import sys
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    import torch

PROJECTIONS = 4  # on fixed pseudo-random vectors, for each parameter
SPOILT = 1e9  # stands for a distance that is no number: JSON has no NaN


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself; of one that is in shards, all of it (every rank must ask)."""
    sharded: Any = tensor.detach()
    found: torch.Tensor = sharded.full_tensor() if hasattr(sharded, "full_tensor") else sharded
    return found


def fingerprint(tensors: list[torch.Tensor], *, seed: int, moved: Callable[[], None]) -> list[float]:
    """PROJECTIONS numbers for each tensor that distinguish it from any other, the same on every kind of device."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    found: list[float] = []
    for tensor in tensors:
        total = torch.zeros(PROJECTIONS, dtype=torch.float64)
        values = whole(tensor).flatten().cpu().double()
        for start in range(0, len(values), 1 << 20):
            chunk = values[start : start + (1 << 20)]
            vectors = torch.rand(PROJECTIONS, len(chunk), generator=generator, dtype=torch.float64) - 0.5
            total += vectors @ chunk
            moved()
        found += total.tolist()
    return found


def distance(ours: list[float], reference: list[float]) -> float:
    """How far `ours` is from the reference, relative to it, at the parameter where that is worst.

    A parameter whose gradient is under 1 % of the whole is measured against that 1 %: its own noise is no error.
    """
    all_of_it = math.hypot(*reference)
    worst = 0.0
    for start in range(0, len(reference), PROJECTIONS):
        part, wanted = ours[start : start + PROJECTIONS], reference[start : start + PROJECTIONS]
        relative = math.dist(part, wanted) / max(math.hypot(*wanted), all_of_it / 100, sys.float_info.min)
        if not relative < SPOILT:
            return SPOILT
        worst = max(worst, relative)
    return worst


def difference(ours: float, wanted: float) -> float:
    """How far a loss is from another, relative to it; two that are no numbers (NaN) are equal."""
    if math.isfinite(ours) and math.isfinite(wanted):
        return abs(ours - wanted) / max(abs(wanted), sys.float_info.min)
    return 0.0 if math.isfinite(ours) == math.isfinite(wanted) else SPOILT


def digest(tensors: list[torch.Tensor], *, moved: Callable[[], None]) -> str:
    """Equal only if every bit of every tensor is."""
    bits = hashlib.sha256()
    for tensor in tensors:
        values = whole(tensor).cpu().contiguous()
        bits.update(ctypes.string_at(values.data_ptr(), values.numel() * values.element_size()))  # without numpy
        moved()
    return bits.hexdigest()[:16]
