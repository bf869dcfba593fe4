"""Does a quota of CPU stop this rank while it trains? Its control groups count that: no timing shows it as surely."""

from __future__ import annotations

import os

ROOT = "/sys/fs/cgroup"
OWN = "/proc/self/cgroup"


class Quota:
    """The periods of the quotas since this was made, of our own control group and of those above it."""

    def __init__(self, own: str = OWN, root: str = ROOT) -> None:
        self.folders = folders(own, root)
        self.began = [periods(folder) for folder in self.folders]

    def held(self) -> tuple[int, int]:
        """In how many periods the group stopped most was stopped, and how many it had; (0, 0) without a quota."""
        since = [
            (now_stopped - stopped, now_all - every)
            for (stopped, every), (now_stopped, now_all) in zip(self.began, map(periods, self.folders))
        ]
        return max(since, default=(0, 0))


def folders(own: str, root: str) -> list[str]:
    """The folders of our control groups that hold a quota of CPU, by either version; empty where they are not shown."""
    try:
        with open(own, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = f"{root}/{controllers}" if controllers else root
        # Inside a container the path may be the host's, while what is mounted is our own group: the root counts.
        parts = [part for part in path.split("/") if part and part != ".."]
        found += ["/".join([base, *parts[:count]]) for count in range(len(parts), -1, -1)]
    return [folder for folder in found if os.path.isfile(f"{folder}/cpu.stat")]


def periods(folder: str) -> tuple[int, int]:
    """In how many periods of its quota a group was stopped so far, of how many; (0, 0) where it has none."""
    try:
        with open(f"{folder}/cpu.stat", encoding="ascii", errors="replace") as file:
            figures = dict(line.split()[:2] for line in file if len(line.split()) > 1)
        return int(figures["nr_throttled"]), int(figures["nr_periods"])
    except (OSError, LookupError, ValueError):
        return 0, 0
