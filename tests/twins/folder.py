"""What is a node's folder, and how is one thing of it changed and put back?

The folder is a fragment of a root file system: ``sys``, ``proc``, ``dev``, ``etc`` and what packages install, laid over
a machine by mounts. ``opt/twin`` holds what cannot be a file there: ``kernel.json`` (what system calls answer, and
which interfaces the kernel has), ``outputs`` (what each program prints, by its command line) and ``env``, the job's
interpreter with its packages. The same folder is what ``preflight facts --record`` writes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .sysfs import Link, Tree

TWIN = "opt/twin"
INTERPRETER = f"/{TWIN}/env/bin/python"


class HasNoSuchText(KeyError):
    """A file of this platform has no words that a fault could change."""


class Folder:
    """A node's folder on disk; what a fault changes is put back by `restore`."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name
        self._before: dict[Path, tuple[bytes | str | None, int]] = {}  # a text is where a link leads

    def path(self, name: str) -> Path:
        """A path of the node as it lies here."""
        return self.root / name.lstrip("/")

    def _keep(self, path: Path) -> None:
        if path not in self._before:
            data = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            self._before[path] = (data, path.stat().st_mode & 0o7777 if isinstance(data, bytes) else 0o644)

    def write(self, name: str, text: str | bytes) -> None:
        """Other contents of a file."""
        path = self.path(name)
        self._keep(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _unlinked(path)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        if "/bin/" in name:
            path.chmod(0o755)

    def remove(self, name: str) -> None:
        """A file, or all files below a folder, gone."""
        path = self.path(name)
        if path.is_symlink():  # what it leads to is a path of the node, and of this machine too
            self._keep(path)
            path.unlink()
            return
        if not path.exists():
            raise HasNoSuchText(f"there is no {name}")
        found = [each for each in path.rglob("*") if each.is_file() or each.is_symlink()] if path.is_dir() else [path]
        for each in found:
            self._keep(each)
            each.unlink()
        if path.is_dir():
            shutil.rmtree(path)

    def link(self, name: str, to: str) -> None:
        """A symbolic link that was not there."""
        path = self.path(name)
        self._keep(path)
        path.symlink_to(to)

    def deny(self, name: str) -> None:
        """A file that only root may read."""
        path = self.path(name)
        self._keep(path)
        path.chmod(0)

    def sub(self, name: str, pattern: str, replacement: str, count: int = 1) -> None:
        """A pattern in a file replaced; KeyError where it does not stand there."""
        text, found = re.subn(pattern, replacement, self.path(name).read_text(), count=count, flags=re.MULTILINE)
        if not found:
            raise HasNoSuchText(f"{name} has no {pattern!r}")
        self.write(name, text)

    def kernel(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Another answer of the kernel."""
        answers = json.loads(self.path(f"{TWIN}/kernel.json").read_text())
        change(answers)
        self.write(f"{TWIN}/kernel.json", json.dumps(answers, indent=1))

    def answers(self) -> dict[str, Any]:
        """What the kernel answers."""
        found: dict[str, Any] = json.loads(self.path(f"{TWIN}/kernel.json").read_text())
        return found

    def log(self, text: str, *, age_seconds: float = 60.0) -> None:
        """A further line of the kernel's log."""
        before = self.path("dev/kmsg").read_text()
        self.write("dev/kmsg", before + record(before.count("\n"), text, age_seconds))

    @property
    def is_changed(self) -> bool:
        """Whether a fault has changed something that was not put back."""
        return bool(self._before)

    def restore(self) -> None:
        """As it was."""
        for path, (data, mode) in self._before.items():
            if data is None:
                path.unlink(missing_ok=True)  # a link too
                if path.parent.is_dir() and not any(path.parent.iterdir()):  # a folder that the fault has made
                    path.parent.rmdir()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                _unlinked(path)
                if isinstance(data, str):
                    path.unlink(missing_ok=True)
                    path.symlink_to(data)
                    continue
                if path.exists():
                    path.chmod(0o644)
                path.write_bytes(data)
                path.chmod(mode)
        self._before.clear()


def _unlinked(path: Path) -> None:
    """No link in this place: nothing is written, and no mode is set, behind it, which may be this machine's own."""
    if path.is_symlink():
        path.unlink()


UP_SECONDS = 30 * 86400.0  # for how long every twin has been up, whatever machine it is laid over


def record(number: int, text: str, age_seconds: float) -> str:
    """A record of /dev/kmsg: "6,1234,5678901,-;text", the third figure microseconds since the start."""
    priority, bar, rest = text.partition("|")
    since = max(0, int((UP_SECONDS - age_seconds) * 1e6))
    return f"{priority if bar else 3},{number},{since},-;{rest if bar else text}\n"


def write(root: Path, tree: Tree) -> None:
    """Files, folders and symbolic links."""
    made: set[Path] = set()
    for name, value in tree.items():
        path = root / name
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        if isinstance(value, Link):
            path.symlink_to(value.to)
        else:
            path.write_bytes(value if isinstance(value, bytes) else value.encode())
            if "/bin/" in name:
                path.chmod(0o755)
            elif name.startswith("dev/infiniband"):
                path.chmod(0o666)
