"""How much room does preflight take without torch? ``python -m tests.bench.footprint``.

Its own files and those of every distribution that it requires, as they lie in this environment with their bytecode, in
blocks of 4 KiB as a disk has them. pip itself and what the extras bring are not counted.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tests.house import ROOT
from tests.test_contributing import PROJECT

BLOCK_BYTES = 4096


def required(requirements: list[str]) -> set[str]:
    """The distributions of this environment that these need, without any extra."""
    found: set[str] = set()
    while requirements:
        requirement = requirements.pop()
        name = re.match(r"[\w.-]+", requirement)[0].lower()
        if "extra ==" in requirement or name in found:
            continue
        try:
            requirements += distribution(name).requires or []
        except PackageNotFoundError:  # for another Python or another system
            continue
        found.add(name)
    return found


def files_of(name: str) -> Iterator[Path]:
    """What a distribution has installed."""
    for file in distribution(name).files or ():
        yield Path(str(file.locate()))


def own_files() -> Iterator[Path]:
    """What the wheel holds, with bytecode."""
    for folder in ("preflight", "checks"):
        for path in (ROOT / folder).rglob("*"):
            if "__pycache__" not in path.parts:
                yield path
                yield Path(importlib.util.cache_from_source(str(path)))


def size_of(paths: Iterator[Path]) -> float:
    """MB on a disk."""
    sizes = [path.stat().st_size for path in set(paths) if path.is_file()]
    return sum(-(-size // BLOCK_BYTES) * BLOCK_BYTES for size in sizes) / 1e6


def main() -> None:
    """Print the largest parts, and the sum."""
    parts = {name: size_of(files_of(name)) for name in required(list(PROJECT["dependencies"]))}
    parts["preflight"] = size_of(own_files())
    for name in sorted(parts, key=parts.__getitem__, reverse=True)[:6]:
        print(f"{name:20} {parts[name]:5.1f} MB")
    print(f"without torch {sum(parts.values()):.0f} MB")


if __name__ == "__main__":
    main()
