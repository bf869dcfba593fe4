"""What breaks on one node, as its own files and programs then tell it, and what must be said of it?

A row plants one fault in the raw material of a node; `check` must name exactly `nodes`, with `words`, and no check may
name another node. A row fits every platform for which `fits` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .folder import Folder
from .platform import Nic, Platform

Plant = Callable[[Folder, Platform], None]
Fits = Callable[[Platform], bool]


@dataclass(frozen=True)
class Fault:
    """One fault of one node."""

    name: str
    plant: Plant
    check: str | Callable[[Platform], str]
    words: str
    fits: Fits = lambda _platform: True
    during: bool = False  # it happens while preflight runs
    nodes: tuple[str, ...] = ("node3",)

    def check_of(self, platform: Platform) -> str:
        """The check that must name the node."""
        return self.check if isinstance(self.check, str) else self.check(platform)


def file(name: str, text: str | bytes) -> Plant:
    """A file says something else."""
    return lambda folder, _: folder.write(name, text)


def replaced(name: str, pattern: str, replacement: str, count: int = 1) -> Plant:
    """Words in a file are others."""
    return lambda folder, _: folder.sub(name, pattern, replacement, count)


def gone(*names: str) -> Plant:
    """Files or folders are not there."""

    def plant(folder: Folder, _: Platform) -> None:
        for name in names:
            folder.remove(name)

    return plant


def variables(**values: str) -> Plant:
    """The session starts with other variables."""
    return lambda folder, _: folder.kernel(lambda answers: answers["environment"].update(values))


def limit(**values: int) -> Plant:
    """A limit is lower."""
    return lambda folder, _: folder.kernel(lambda answers: answers["limits"].update(values))


def answer(**values: object) -> Plant:
    """The kernel answers a question otherwise."""
    return lambda folder, _: folder.kernel(lambda answers: answers.update(values))


def logged(text: str) -> Plant:
    """A line in the kernel's log."""
    return lambda folder, _: folder.log(text)


def place_of_training(platform: Platform) -> int:
    """Which interface the job meets on: the first that its variable means, else the first of all."""
    wanted = platform.environment.get("NCCL_SOCKET_IFNAME", "").format(n=3).lstrip("=").split(",")[0]
    found = (index for index, nic in enumerate(platform.nics) if nic.name.format(n=3).startswith(wanted))
    return next(found, 0)


def training(platform: Platform) -> Nic:
    """The same, as it is described."""
    return platform.nics[place_of_training(platform)]


def interface(**values: object) -> Plant:
    """The training interface is otherwise."""

    def plant(folder: Folder, platform: Platform) -> None:
        folder.kernel(lambda answers: answers["interfaces"][place_of_training(platform)].update(values))

    return plant


def both(*plants: Plant) -> Plant:
    """Several files that change together."""

    def plant(folder: Folder, platform: Platform) -> None:
        for one in plants:
            one(folder, platform)

    return plant


def every(_platform: Platform) -> bool:
    """Fits every platform."""
    return True
