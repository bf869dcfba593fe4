"""Which files are meant, and what text is in them?"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

from preflight.errors import UsageError

FILE_LIMIT_BYTES = 4 << 20
FILES_LIMIT = 4096


def expanded(patterns: Iterable[str]) -> list[str]:
    """The files that names and patterns stand for, each once."""
    files: list[str] = []
    for pattern in patterns:
        is_glob = any(letter in pattern for letter in "*?[") and not os.path.exists(pattern)
        found = sorted(path for path in glob.glob(pattern) if os.path.isfile(path)) if is_glob else [pattern]
        if not found:
            raise UsageError(f"{pattern!r} matches no file")
        files.extend(found)
    if len(files) > FILES_LIMIT:
        raise UsageError(f"{len(files)} launch files; wanted at most {FILES_LIMIT}")
    return list(dict.fromkeys(files))


def read_file(name: str) -> str:
    """The text of a file of a sensible size."""
    try:
        if not os.path.isfile(name):
            raise UsageError(f"{name!r} is not a file that can be read")
        with open(name, "rb") as stream:
            data = stream.read(FILE_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name!r} cannot be read: {reason}") from None
    if len(data) > FILE_LIMIT_BYTES:
        raise UsageError(f"{name!r} has more than {FILE_LIMIT_BYTES >> 20} MiB")
    if b"\0" in data:
        raise UsageError(f"{name!r} is no text file")
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
