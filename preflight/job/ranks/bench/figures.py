"""What do the seconds of many operations say? Plain arithmetic, without torch."""

from __future__ import annotations

import math


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie, between neighbours in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median_interval(values: list[float]) -> tuple[float, float]:
    """The 95 % interval of the median from order statistics: no assumption about the distribution.

    The median lies below the k-th of n ordered values with the chance that a fair coin shows fewer than k heads in
    n throws. Six values are the fewest that give 95 %: with fewer the interval is their whole range.
    """
    ordered = sorted(values)
    count, outside, rank = len(ordered), 0.5 ** len(ordered), 0
    while True:
        following = outside + math.comb(count, rank + 1) * 0.5**count
        if following > 0.025 or 2 * (rank + 1) >= count:
            return ordered[rank], ordered[count - 1 - rank]
        outside, rank = following, rank + 1


def is_settled(seconds: list[float], *, ci: float) -> bool:
    """Whether the median of these is known to +- `ci` of itself."""
    low, high = median_interval(seconds)
    return len(seconds) >= 6 and high - low <= 2 * ci * quantile(seconds, 0.5)


def summary(seconds: list[float], *, size_bytes: int, bus_factor: float) -> dict[str, float]:
    """The figures of one result: `seconds` holds the maximum over ranks of each iteration."""
    median, (low, high) = quantile(seconds, 0.5), median_interval(seconds)
    mean = sum(seconds) / len(seconds)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in seconds) / max(1, len(seconds) - 1))
    return {
        "iterations": len(seconds),
        "seconds_median": median,
        "seconds_p5": quantile(seconds, 0.05),
        "seconds_p95": quantile(seconds, 0.95),
        "seconds_low": low,
        "seconds_high": high,
        "cv": deviation / mean,
        "algbw_gbytes_per_s": size_bytes / median / 1e9,
        "busbw_gbytes_per_s": bus_factor * size_bytes / median / 1e9,
        "busbw_low_gbytes_per_s": bus_factor * size_bytes / high / 1e9,
        "busbw_high_gbytes_per_s": bus_factor * size_bytes / low / 1e9,
    }
