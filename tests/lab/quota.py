"""How is a lab host given less CPU: a group of the cgroup v1 cpu controller?"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from .spaces import LabError, Space

PERIOD_MICROSECONDS = 100_000


def limit_cpu(space: Space, *, name: str, percent: float) -> Callable[[], None]:
    """Move a host's processes into a group with a quota -> how to move them back."""
    parent = _own_group()
    group = parent / name
    group.mkdir(exist_ok=True)
    (group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
    (group / "cpu.cfs_quota_us").write_text(str(int(PERIOD_MICROSECONDS * percent / 100)))
    _move(space, group)

    def lift() -> None:
        _move(space, parent)
        group.rmdir()

    return lift


def remove_groups(tag: str) -> None:
    """Remove the groups of a lab whose processes are gone."""
    with contextlib.suppress(LabError):  # without the controller none were made
        for group in _own_group().glob(f"{tag}-*"):
            group.rmdir()


def _move(space: Space, group: Path) -> None:
    for pid in space.members():
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            (group / "cgroup.procs").write_text(str(pid))


def _own_group() -> Path:
    root = Path("/sys/fs/cgroup/cpu")
    for line in Path(f"/proc/{os.getpid()}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(",") and (root / path.lstrip("/") / "cpu.cfs_quota_us").exists():
            return root / path.lstrip("/")
    raise LabError("cpu_quota needs the cgroup v1 cpu controller in /sys/fs/cgroup/cpu")
