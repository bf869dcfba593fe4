"""Is this machine asked, or a tree of files that stands for another one?

A tree is what `proc` lies in. Of a tree only its files are read: what this machine's kernel, clock, resolver, programs
and environment say is nothing about it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def root_of(arguments: Mapping[str, Any]) -> str:
    """What stands before every path of the node: "" on this machine, a folder where a tree is asked."""
    proc: str = arguments.get("proc", "/proc")
    return proc.removesuffix("/proc")


def only_here(arguments: Mapping[str, Any]) -> None:
    """OSError where a tree is asked for what no file tells."""
    root = root_of(arguments)
    if root:
        raise OSError(f"not asked: {root} is a tree of files, and this is for a kernel to say")


def environment(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The variables of this process; a tree has none."""
    return {} if root_of(arguments) else dict(os.environ)
