"""What is sent, so that a wrong element shows? Patterns whose sums are exact in every type."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

Index = TypeVar("Index", int, "torch.Tensor")
PERIOD = 1021  # a prime: data moved by any power of two does not fit
# The whole numbers up to which a type holds every one, so that sums of them are exact in any order.
EXACT = {
    "float32": 1 << 24,
    "float64": 1 << 53,
    "float16": 1 << 11,
    "bfloat16": 1 << 8,
    "int64": 1 << 62,
    "int32": (1 << 31) - 1,
    "int8": 127,
    "uint8": 255,
}
TILE_PERIODS = {"cpu": 256, "cuda": 16384}  # a CPU tile of 1 MiB stays in its cache
TILES_BYTES = {
    "cpu": 128 * (1 << 20),
    "cuda": 1024 * (1 << 20),
}  # of all tiles together: of all_to_all 1,024 ranks have 2,048


def pattern(index: Index, key: int, levels: int = PERIOD) -> Index:
    """Element `index` of the pattern `key`, or those of a tensor of indexes: each one of `levels` numbers from 0."""
    return (index * 131 + key * 17) % PERIOD % levels


def levels_of(dtype: str, *, ranks: int) -> int:
    """How many different values a pattern may have, that the sum over all ranks is exact in this type."""
    levels = min(PERIOD, EXACT[dtype] // ranks + 1)
    if levels < 2:
        raise ValueError(f"sums over {ranks} ranks are not exact in {dtype}: take float32")
    return levels


def periods_of_tile(tiles: int, *, segment: int, itemsize: int, device: str) -> int:
    """How often a tile repeats its period: as often as fits its cache, the segment, and the memory for all tiles."""
    room = TILES_BYTES[device] // (max(1, tiles) * PERIOD * itemsize)
    return max(1, min(TILE_PERIODS[device], -(-segment // PERIOD), room))


def tile(keys: tuple[int, ...], *, device: torch.device, levels: int) -> torch.Tensor:
    """One period of the sum of these keys' patterns."""
    import torch

    index = torch.arange(PERIOD, device=device)
    period = torch.zeros(PERIOD, dtype=torch.int64, device=device)
    for key in keys:
        period += pattern(index, key, levels)
    return period
