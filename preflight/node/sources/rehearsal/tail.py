"""What has been added to files since the last look: whole lines only, as others are still writing them?"""

from __future__ import annotations

import os

MOST_BYTES = 1 << 20  # at one look


class Tail:
    """The files of a folder, or a single one, and how far each was read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.read: dict[str, int] = {}

    def lines(self) -> list[tuple[str, bytes]]:
        """Each new line with the name of its file, in the order of the names."""
        try:
            names = sorted(os.listdir(self.path)) if os.path.isdir(self.path) else [""]
        except OSError:
            return []
        return [(name, line) for name in names for line in self._of(name)]

    def _of(self, name: str) -> list[bytes]:
        path = os.path.join(self.path, name) if name else self.path
        try:
            with open(path, "rb") as file:
                file.seek(self.read.get(name, 0))
                data = file.read(MOST_BYTES)
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self.read[name] = self.read.get(name, 0) + len(whole)
        return whole.splitlines()
